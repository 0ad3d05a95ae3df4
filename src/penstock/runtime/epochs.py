"""Epochs: which run of a dataset is the next, and with which seeds."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Epochs"]

_NOTHING_LOADED: dict[int, int] = {}


class Epochs:
    """Counts the runs of a dataset.

    A dataset begins to count where those it was made from stand, and its runs count for them too: in
    `for epoch in range(3): for x in ds.batch(32)` each turn makes a new dataset, and still is another epoch. Two
    datasets made from the same one (a training and a validation part) count side by side.

    A position that was loaded brings the seeds that were drawn for its pipeline. Later epochs go on with them: those of
    datasets made from the same ones too, whose shuffles are the same operators.
    """

    __slots__ = ("_loaded", "_sources", "next")

    def __init__(self, sources: Sequence[Epochs] = ()) -> None:
        self._sources = sources
        self._loaded = _NOTHING_LOADED
        # Without a list for the usual ones: they are made by the thousand inside `flat_map`.
        first = sources[0].next if sources else 0
        self.next: int = first if len(sources) < 2 else max([s.next for s in sources])

    def begin(self, epoch: int) -> None:
        """Notes that a run of this epoch began."""
        self.next = epoch + 1
        for source in self._sources:
            source._saw(epoch)

    def load(self, seeds: dict[int, int]) -> None:
        """Has operators draw by the seeds of a saved position from now on: by the seeds that they drew themselves."""
        if seeds:
            self._loaded = {**self._loaded, **seeds}
            for source in self._sources:
                source.load(seeds)

    def loaded_seeds(self) -> dict[int, int]:
        """What `load` was given for this dataset, and for those it was made from."""
        found: dict[int, int] = {}
        for source in self._sources:
            found.update(source.loaded_seeds())
        found.update(self._loaded)
        return found

    def _saw(self, epoch: int) -> None:
        if epoch >= self.next:
            self.next = epoch + 1
            for source in self._sources:
                source._saw(epoch)
