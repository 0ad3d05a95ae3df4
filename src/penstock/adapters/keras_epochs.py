"""The iterators that Keras makes, more than it reads, as the epochs of a dataset."""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

from ..dataset import Dataset
from ..errors import StateError
from ..runtime.run import Run
from .feed import Convert, Feed, FeedIterator, plain_nests
from .keras_weights import ClassWeights

__all__ = ["Epochs", "Reading"]

# Keras reads at most one batch before it trains on it, for devices other than the CPU.
_MOST_AHEAD = 4


class _Pass:
    """What is remembered of an iterator that Keras may have dropped."""

    def __init__(self, begins_like: _Pass | None, steps: weakref.ref[Any] | None) -> None:
        self.begins_like = begins_like
        self.steps = steps
        self.run: Run | None = None
        self.began_at: dict[str, Any] | None = None
        self.num_delivered = 0
        self.is_epoch = False

    def is_look_of(self, steps: Any) -> bool:
        """Whether what iterates over steps has read a batch, and left it at that before the end of an epoch."""
        return self.num_delivered == 1 and not self.is_epoch and self.steps is not None and self.steps() is steps


class Reading:
    """How far Keras has read, and where it goes on."""

    def __init__(self) -> None:
        self.newest = _Pass(None, None)
        self.steps: weakref.ref[Any] | None = None
        self.looked_at: _Pass | None = None
        self.last_begun: _Pass | None = None
        self.last_run: Run | None = None
        self.resume_at: dict[str, Any] | None = None
        self.next_epoch: int | None = None
        self.num_read = 0
        self._positions: deque[tuple[int, dict[str, Any]]] | None = None

    def go_on_at(self, state: dict[str, Any]) -> None:
        """Has the next epoch begin at a position, even if Keras has looked at a batch before it."""
        self.resume_at = state
        self.forget_look()

    def forget_look(self) -> None:
        """Has the next epoch be the dataset's next one, even if Keras has looked at the first batch of another."""
        self.looked_at = None

    def begin_epoch(self, steps: Any) -> None:
        """Notes which of Keras's iterators over steps makes the iterators that follow."""
        self.steps = None if steps is None else weakref.ref(steps)

    def end_epoch(self) -> None:
        """Notes that Keras ended an epoch, be it of a single step."""
        if self.last_begun is not None:
            self.last_begun.is_epoch = True

    def begin_anew(self, steps: Any) -> None:
        """Notes that an iterator over steps is about to begin; if it has looked at a batch, with that one."""
        if self.newest.is_look_of(steps):
            self.looked_at = self.newest
        # Otherwise a look that no epoch has followed still is none: its fit failed before the first one.

    def count_batches(self) -> None:
        """Counts batches from here on, and remembers the positions after the last few."""
        self.num_read = 0
        self._positions = deque(maxlen=_MOST_AHEAD)

    def delivered(self, this: _Pass) -> None:
        this.num_delivered += 1
        if self._positions is not None and this.run is not None:
            self.num_read += 1
            self._positions.append((self.num_read, this.run.state_dict()))

    def goes_on_after(self, num_batches: int) -> bool:
        """Whether there is another batch in the run that so many were read of, or the last of them."""
        has_read_on = self.num_read != num_batches
        return has_read_on or self.last_begun is None or self.last_begun.run is None or self.last_begun.run.has_next()

    def position(self) -> dict[str, Any]:
        """The position after the last batch that Keras read."""
        if self.last_begun is None or self.last_begun.run is None:
            raise StateError("state_dict: expected that Keras has read a batch, and it has not")
        return self.last_begun.run.state_dict()

    def position_after(self, num_batches: int) -> dict[str, Any]:
        """The position after so many batches since `count_batches`: Keras may have read more than it has used."""
        for number, state in self._positions or ():
            if number == num_batches:
                return state
        raise StateError(
            f"expected the position after {num_batches} batches, and Keras has read {self.num_read} of this feed; "
            + (
                "what else reads it? Give that a to_keras() of its own"
                if self.num_read > num_batches
                else "is it the one that fit() was given, and without a distribution strategy?"
            )
        )


class Epochs(Feed):
    """The epochs of a dataset, for Keras.

    Before the first epoch of an unbuilt model Keras reads one batch, to see its shapes, and begins anew. That is no
    epoch: the next iterator begins the same one again.
    """

    def __init__(
        self,
        dataset: Dataset,
        convert: Convert,
        weights: ClassWeights | None,
        memory: int | float | str | None,
        optimize: bool | None,
        reading: Reading,
    ) -> None:
        def prepare(element: Any) -> Any:
            batch = plain_nests(element)
            return batch if weights is None else weights(batch)

        super().__init__(dataset, convert, memory, optimize, prepare)
        self.reading = reading

    def __iter__(self) -> _EpochIterator:
        reading = self.reading
        looked_at, reading.looked_at = reading.looked_at, None
        reading.newest = _Pass(looked_at, reading.steps)
        return _EpochIterator(self, reading.newest)

    def open_run(self, epoch: int | None = None) -> Run:
        run = self.reading.last_run = super().open_run(epoch)
        return run

    def begin(self, this: _Pass) -> Run:
        """Opens the run of an iterator that is read for the first time."""
        reading, before = self.reading, this.begins_like
        if before is not None and before.run is not None:
            run = self.open_run(before.run.epoch)
            this.began_at = before.began_at
        else:
            run = self.open_run(reading.next_epoch)
            reading.next_epoch = None
            this.began_at, reading.resume_at = reading.resume_at, None
        if this.began_at is not None:
            run.load_state_dict(this.began_at)
        this.run = run
        this.begins_like = None
        reading.last_begun = this
        return run


class _EpochIterator(FeedIterator):
    def __init__(self, epochs: Epochs, this: _Pass) -> None:
        super().__init__(lambda: epochs.begin(this), epochs.convert, epochs.prepare)
        self._this = this
        self._reading = epochs.reading

    def __next__(self) -> Any:
        try:
            element = super().__next__()
        except StopIteration:
            self._this.is_epoch = True
            raise
        self._reading.delivered(self._this)
        return element
