"""Epochs: which run of a dataset is the next."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Epochs"]


class Epochs:
    """Counts the runs of a dataset.

    A dataset begins to count where those it was made from stand, and its runs count for them too: in
    `for epoch in range(3): for x in ds.batch(32)` each turn makes a new dataset, and still is another epoch. Two
    datasets made from the same one (a training and a validation part) count side by side.
    """

    __slots__ = ("_sources", "next")

    def __init__(self, sources: Sequence[Epochs] = ()) -> None:
        self._sources = sources
        # Without a list for the usual ones: they are made by the thousand inside `flat_map`.
        first = sources[0].next if sources else 0
        self.next: int = first if len(sources) < 2 else max([s.next for s in sources])

    def begin(self, epoch: int) -> None:
        """Notes that a run of this epoch began."""
        self.next = epoch + 1
        for source in self._sources:
            source._saw(epoch)

    def _saw(self, epoch: int) -> None:
        if epoch >= self.next:
            self.next = epoch + 1
            for source in self._sources:
                source._saw(epoch)
