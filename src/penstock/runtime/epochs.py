"""Epochs: which run of a dataset is the next, and with which seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

__all__ = ["Epochs"]

_NOTHING_LOADED: dict[int, int] = {}
# Positions that were loaded in this process.
_num_loads = 0


class Epochs:
    """Counts the runs of a dataset.

    A dataset begins to count where those it was made from stand, and its runs count for them too: in
    `for epoch in range(3): for x in ds.batch(32)` each turn makes a new dataset, and still is another epoch. Two
    datasets made from the same one (a training and a validation part) count side by side.

    A position that was loaded brings the seeds that were drawn for its pipeline. Later epochs go on with them: those of
    datasets made from the same ones too, whose shuffles are the same operators. Those count on from its epoch as well:
    a validation part in a new process has counted nothing yet, and its next run belongs to the training's epoch.
    """

    __slots__ = ("_last_load", "_load_heeded", "_loaded", "_own_next", "_sources")

    def __init__(self, sources: Sequence[Epochs] = ()) -> None:
        self._sources = sources
        self._loaded = _NOTHING_LOADED
        self._last_load = self._load_heeded = 0  # numbers of positions that were loaded
        # Without a list for the usual ones: they are made by the thousand inside `flat_map`.
        first = sources[0].next if sources else 0
        self._own_next: int = first if len(sources) < 2 else max([s.next for s in sources])
        if first:
            self._load_heeded = self._newest_load()

    @property
    def next(self) -> int:
        """The epoch of the next run."""
        if _num_loads == 0 or self._newest_load() <= self._load_heeded:
            return self._own_next
        # The last that began, of this dataset or one that it was made from.
        return max(self._own_next, *[epochs._own_next - 1 for epochs in self._family()])

    def begin(self, epoch: int) -> None:
        """Notes that a run of this epoch began."""
        self._own_next = epoch + 1
        self._load_heeded = self._newest_load()
        for source in self._sources:
            source._saw(epoch)

    def load(self, seeds: dict[int, int]) -> None:
        """Notes that the run which began last went on from a position.

        Args:
            seeds: By which operators draw from now on, by those that they drew themselves.
        """
        global _num_loads
        _num_loads += 1
        self._load_heeded = _num_loads
        for epochs in self._family():
            epochs._last_load = _num_loads
            epochs._own_next = self._own_next  # they have counted looks, and the run that was opened to load it
            if seeds:
                epochs._loaded = {**epochs._loaded, **seeds}

    def _newest_load(self) -> int:
        return max(epochs._last_load for epochs in self._family()) if _num_loads else 0

    def _family(self) -> Iterator[Epochs]:
        """This one, and those of all datasets that this dataset was made from, each once."""
        waiting, seen = [self], {id(self)}
        while waiting:
            epochs = waiting.pop()
            yield epochs
            for source in epochs._sources:
                if id(source) not in seen:
                    seen.add(id(source))
                    waiting.append(source)

    def loaded_seeds(self) -> dict[int, int]:
        """What `load` was given for this dataset, and for those it was made from."""
        found: dict[int, int] = {}
        for source in self._sources:
            found.update(source.loaded_seeds())
        found.update(self._loaded)
        return found

    def _saw(self, epoch: int) -> None:
        if epoch >= self._own_next:
            self._own_next = epoch + 1
            for source in self._sources:
                source._saw(epoch)
