"""Keras 3: what `model.fit` reads, on the backend that Keras runs on.

Keras takes a *data adapter* as it is, where it has one of its own for each kind of data. Each backend then asks it for
what it likes best, and gets tensors of its framework on the memory of the batches: no generator, no queue, no tf.data.
"""

from __future__ import annotations

import functools
import sys
import weakref
from typing import Any

from ..dataset import Dataset
from ..errors import StateError
from ..options import Options
from ..runtime.run import Run
from ..spec import INFINITE
from .feed import Convert, plain_nests
from .keras_epochs import Epochs, Reading
from .keras_weights import ClassWeights, FitArguments

__all__ = ["to_keras"]


def to_keras(dataset: Dataset, *, memory: int | float | str | None = None, optimize: bool | None = None) -> Any:
    """This dataset for `model.fit`, `evaluate` and `predict` of Keras 3, on TensorFlow, PyTorch or JAX.

    Elements are batches: the features, `(features, targets)` or `(features, targets, sample_weights)`, where features
    and targets may be dicts. Each epoch is the dataset's next one, with an order of its own. The progress bar knows
    its length where `len(dataset)` is known; `steps_per_epoch` cuts a dataset without end into epochs.

    Iterated over, it gives its batches as tensors of the backend, one epoch each time.

    `fit(class_weight=…)` works for targets in one array: class numbers, or one number for each class.

    Args:
        memory: The budget of each run, as for `run`.
        optimize: Whether the rules may rewrite the plan, as for `run`.

    >>> import penstock as ps
    >>> ps.Dataset.range(10).batch(4).to_keras().num_batches
    3
    """
    return _adapter_class()(dataset, memory, optimize)


@functools.cache
def _adapter_class() -> Any:
    import keras

    try:
        from keras.src.trainers.data_adapters.data_adapter import DataAdapter
    except ImportError:  # where it is Keras does not promise
        raise ImportError(
            f"to_keras: expected Keras 3.12 or later with data adapters, and Keras {keras.__version__} has none; under "
            "TensorFlow give fit to_tf() instead"
        ) from None

    class KerasFeed(DataAdapter):  # type: ignore[misc]  # Keras comes without types here
        """A dataset as Keras's data adapter."""

        def __init__(self, dataset: Dataset, memory: int | float | str | None, optimize: bool | None) -> None:
            Options(memory=memory, optimize=optimize)  # refuses bad ones where they were written
            self.dataset = dataset
            self._options = (memory, optimize)
            self._reading = Reading()
            self._arguments = FitArguments()
            self._shortened: _ShortEpoch | None = None

        def _epochs(self, convert: Convert, weights: ClassWeights | None) -> Epochs:
            return Epochs(self.dataset, convert, weights, *self._options, self._reading)

        def _weights(self) -> ClassWeights | None:
            """Those of the classes, for who calls the caller of this."""
            return self._arguments.class_weights(sys._getframe(2).f_locals.get("self"))

        def get_numpy_iterator(self) -> Any:
            return self._epochs(lambda element, run: element, self._weights())

        def get_jax_iterator(self) -> Any:
            from .jax import converter

            return self._epochs(converter(), self._weights())

        def get_torch_dataloader(self) -> Any:
            from .torch import converter

            return self._epochs(converter(self.dataset), self._weights())

        def get_tf_dataset(self) -> Any:
            from .tensorflow import as_tf_dataset, converter

            weights = self._weights()
            # A strategy deals the batches out by means of tf.data, which makes them anew.
            epochs = self._epochs(converter(), weights)
            if weights is None:
                return as_tf_dataset(epochs)
            weighted = Epochs(self.dataset.map(weights), converter(), None, *self._options, self._reading)
            return as_tf_dataset(epochs, weighted)

        def __iter__(self) -> Any:
            """The next epoch in tensors of the backend, for loops that are not Keras's."""
            return iter(self._epochs(_backend_converter(self.dataset), None))

        @property
        def num_batches(self) -> int | None:
            self._arguments.note(sys._getframe(1))
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

        @property
        def last_run(self) -> Run | None:
            """The run that began last, open or over: `memory()`, `stats()`. None before the first."""
            return self._reading.last_run

        # What counts the steps is not told to adapters; it is what calls these two.

        def on_epoch_begin(self) -> None:
            steps = sys._getframe(1).f_locals.get("self")
            self._reading.begin_epoch(steps)
            if self._shortened is not None:
                self._shortened.begin_epoch(steps)

        def on_epoch_end(self) -> None:
            caller = sys._getframe(1)
            if caller.f_code.co_name == "reset":
                self._reading.begin_anew(caller.f_locals.get("self"))
            else:
                self._reading.end_epoch()

        def state_dict(self) -> dict[str, Any]:
            """The position after the last batch that Keras read."""
            return self._reading.position()

        def load_state_dict(self, state: dict[str, Any]) -> None:
            """Has the next epoch that Keras begins go on from a saved position."""
            self._reading.go_on_at(state)

        get_state, set_state = state_dict, load_state_dict  # as iterators of Grain call them

        def go_on_with_epoch(self, epoch: int) -> None:
            """Has the next epoch that Keras begins be a certain one of the dataset's."""
            self._reading.next_epoch = epoch
            self._reading.forget_look()

        def count_batches(self) -> None:
            """Counts the batches that Keras reads from here on, for `state_after`."""
            self._reading.count_batches()

        def state_after(self, num_batches: int) -> dict[str, Any]:
            """The position after so many batches since `count_batches`."""
            return self._reading.position_after(num_batches)

        def goes_on_after(self, num_batches: int) -> bool:
            """Whether the epoch goes on after so many batches since `count_batches`; the next is made to tell."""
            return self.dataset.cardinality() == INFINITE or self._reading.goes_on_after(num_batches)

        @property
        def num_read(self) -> int:
            """Batches that Keras has read since `count_batches`."""
            return self._reading.num_read

        def next_batch_at(self, state: dict[str, Any] | None) -> Any:
            """The batch that follows a position, or the first. None: the run was over. It does not count as read."""
            alone = Dataset(self.dataset.node, self.dataset.options())  # its run is none of the dataset's epochs
            memory, optimize = self._options
            with alone.run(memory, optimize=optimize) as run:
                if state is not None:
                    run.load_state_dict(state)
                batch = next(run, None)
            return None if batch is None else plain_nests(batch)

        def go_on(self, state: dict[str, Any], num_steps: int, is_over: bool) -> None:
            """Has Keras go on at a position that is so many steps into one of its epochs."""
            if is_over:
                memory, optimize = self._options
                with self.dataset.run(memory, optimize=optimize) as run:
                    run.load_state_dict(state)  # the dataset goes on with the epoch after it
                self._reading.forget_look()
            else:
                self._reading.go_on_at(state)
                self._shortened = _ShortEpoch(self.num_batches, num_steps, state.get("delivered"))

        def __len__(self) -> int:
            return len(self.dataset)

        def __bool__(self) -> bool:
            return True

    return KerasFeed


def _backend_converter(dataset: Dataset) -> Convert:
    """The function that makes tensors of Keras's backend."""
    import keras

    match keras.backend.backend():
        case "tensorflow":
            from .tensorflow import converter as tensorflow_converter

            return tensorflow_converter()
        case "torch":
            from .torch import converter as torch_converter

            return torch_converter(dataset)
        case "jax":
            from .jax import converter as jax_converter

            return jax_converter()
    return lambda element, run: element


# What Keras's iterator over steps counts with.
_OF_STEPS = ("steps_per_epoch", "_num_batches", "_steps_seen", "_current_iterator")


class _ShortEpoch:
    """The rest of an epoch of Keras's, in which it must count fewer steps than in those to come.

    Left alone, it would wait for as many steps as in a whole epoch, and take the short one for the length of all where
    it does not know it.
    """

    def __init__(self, num_batches: int | None, num_steps: int, num_delivered: int | None) -> None:
        self._num_batches = num_batches
        self._num_steps = num_steps
        self._num_delivered = num_delivered
        self._steps_per_epoch: int | None = None
        self._counted_by: weakref.ref[Any] | None = None

    def begin_epoch(self, steps: Any) -> None:
        """Sets what Keras's iterator over steps is about to count to."""
        missing = [name for name in _OF_STEPS if not hasattr(steps, name)]
        if missing and (self._num_steps or self._num_delivered):
            import keras

            raise StateError(
                f"expected to tell Keras {keras.__version__} that {self._num_steps} steps of this epoch are done, and "
                f"what counts them has no {missing[0]}: it would train on for as many steps as in a whole epoch; use "
                "another Keras, or checkpoints at the ends of epochs"
            )
        if missing:
            return
        is_same_fit = self._counted_by is not None and self._counted_by() is steps
        if self._counted_by is None:
            self._counted_by = weakref.ref(steps)
            self._steps_per_epoch = steps.steps_per_epoch
            if steps.steps_per_epoch:
                steps.steps_per_epoch -= self._num_steps
            if self._num_batches is not None and self._num_delivered is not None:
                steps._num_batches = self._num_batches - self._num_delivered
        elif is_same_fit:
            steps.steps_per_epoch = self._steps_per_epoch
            begins_anew = steps._current_iterator is None or steps._steps_seen == 0
            if begins_anew or self._steps_per_epoch is None or self._num_batches is None:
                steps._num_batches = self._num_batches
