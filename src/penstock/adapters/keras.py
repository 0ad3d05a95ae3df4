"""Keras 3: what `model.fit` reads, on the backend that Keras runs on.

Keras takes a *data adapter* as it is, where it has one of its own for each kind of data. Each backend then asks it for
what it likes best, and gets tensors of its framework on the memory of the batches: no generator, no queue, no tf.data.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..dataset import Dataset
from ..errors import StateError
from ..runtime.run import Run
from .feed import Feed, FeedIterator, plain_nests

__all__ = ["to_keras"]


def to_keras(dataset: Dataset, *, memory: int | float | str | None = None, optimize: bool | None = None) -> Any:
    """This dataset for `model.fit`, `evaluate` and `predict` of Keras 3, on TensorFlow, PyTorch or JAX.

    Elements are batches: the features, `(features, targets)` or `(features, targets, sample_weights)`, where features
    and targets may be dicts. Each epoch is the dataset's next one, with an order of its own. The progress bar knows
    its length where `len(dataset)` is known; `steps_per_epoch` cuts a dataset without end into epochs.

    `fit(class_weight=…)` has no effect on it: Keras applies class weights in its own data adapters. Give weights as the
    third part of each batch.

    Args:
        memory: The budget of each run, as for `run`.
        optimize: Whether the rules may rewrite the plan, as for `run`.

    >>> import penstock as ps
    >>> ps.Dataset.range(10).batch(4).to_keras().num_batches
    3
    """
    return _adapter_class()(dataset, memory, optimize)


class _Pass:
    """What is remembered of an iterator that Keras may have dropped."""

    def __init__(self, begins_like: _Pass | None) -> None:
        self.begins_like = begins_like
        self.run: Run | None = None
        self.began_at: dict[str, Any] | None = None
        self.num_delivered = 0


class _Epochs(Feed):
    """The iterators that Keras makes, more than it reads, as the epochs of a dataset.

    Before the first epoch of an unbuilt model Keras reads one batch, to see its shapes, and begins anew. That is no
    epoch: the next iterator begins the same one again.
    """

    def __init__(
        self,
        dataset: Dataset,
        convert: Callable[[Any], Any],
        memory: int | float | str | None,
        optimize: bool | None,
        end: Callable[[], Exception],
    ) -> None:
        super().__init__(dataset, lambda element: convert(plain_nests(element)), memory, optimize)
        self.end_of_data = end
        self._newest = _Pass(None)
        self._looked_at: _Pass | None = None
        self.last_begun: _Pass | None = None
        self.resume_at: dict[str, Any] | None = None

    def __iter__(self) -> _EpochIterator:
        looked_at, self._looked_at = self._looked_at, None
        again = looked_at is not None and looked_at.num_delivered == 1
        self._newest = _Pass(looked_at if again else None)
        return _EpochIterator(self, self._newest)

    def begin(self, this: _Pass) -> Run:
        """Opens the run of an iterator that is read for the first time."""
        before = this.begins_like
        if before is not None and before.run is not None:
            run = self.open_run(before.run.epoch)
            this.began_at = before.began_at
        else:
            run = self.open_run()
            this.began_at, self.resume_at = self.resume_at, None
        if this.began_at is not None:
            run.load_state_dict(this.began_at)
        this.run = run
        this.begins_like = None
        self.last_begun = this
        return run

    def end(self) -> None:
        """Notes that Keras ended an epoch, or only looked: then it dropped an iterator after its first batch."""
        self._looked_at = self._newest


class _EpochIterator(FeedIterator):
    def __init__(self, epochs: _Epochs, this: _Pass) -> None:
        super().__init__(lambda: epochs.begin(this), epochs.convert)
        self._this = this
        self._end = epochs.end_of_data

    def __next__(self) -> Any:
        try:
            element = super().__next__()
        except StopIteration:
            raise self._end() from None
        self._this.num_delivered += 1
        return element

    def __del__(self) -> None:
        self.close()  # the run is remembered, for its position


@functools.cache
def _adapter_class() -> Any:
    from keras.src.trainers.data_adapters.data_adapter import DataAdapter

    class KerasFeed(DataAdapter):  # type: ignore[misc]  # Keras comes without types here
        """A dataset as Keras's data adapter."""

        def __init__(self, dataset: Dataset, memory: int | float | str | None, optimize: bool | None) -> None:
            self.dataset = dataset
            self._options = (memory, optimize)
            self._epochs: _Epochs | None = None
            self._resume_at: dict[str, Any] | None = None

        def _made(self, convert: Callable[[Any], Any], end: Callable[[], Exception] = StopIteration) -> _Epochs:
            """A process has one backend: what it asked for first is what it asks for always."""
            if self._epochs is None:
                self._epochs = _Epochs(self.dataset, convert, *self._options, end)
                self._epochs.resume_at, self._resume_at = self._resume_at, None
            return self._epochs

        def get_numpy_iterator(self) -> Any:
            return self._made(lambda element: element)

        def get_jax_iterator(self) -> Any:
            from .jax import converter

            return self._made(converter())

        def get_torch_dataloader(self) -> Any:
            from .torch import converter

            return self._made(converter())

        def get_tf_dataset(self) -> Any:
            from .tensorflow import as_tf_dataset, converter, end_of_sequence

            return as_tf_dataset(
                self._made(converter(), end_of_sequence)
            )  # a strategy deals it out by means of tf.data

        @property
        def num_batches(self) -> int | None:
            cardinality = self.dataset.cardinality()
            return None if cardinality < 0 else cardinality

        @property
        def batch_size(self) -> None:
            return None

        @property
        def has_partial_batch(self) -> None:
            return None

        @property
        def partial_batch_size(self) -> None:
            return None

        def on_epoch_end(self) -> None:
            if self._epochs is not None:
                self._epochs.end()

        def state_dict(self) -> dict[str, Any]:
            """The position after the last batch that Keras read."""
            begun = None if self._epochs is None else self._epochs.last_begun
            if begun is None or begun.run is None:
                raise StateError("state_dict: expected that Keras has read a batch, and it has not")
            return begun.run.state_dict()

        def load_state_dict(self, state: dict[str, Any]) -> None:
            """Has the next epoch that Keras begins go on from a saved position."""
            if self._epochs is None:
                self._resume_at = state
            else:
                self._epochs.resume_at = state

        def __len__(self) -> int:
            return len(self.dataset)

        def __bool__(self) -> bool:
            return True

    return KerasFeed
