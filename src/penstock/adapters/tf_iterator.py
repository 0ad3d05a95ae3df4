"""Iterators of `to_tf()`: eager tensors of a run, and for graphs an iterator of tf.data's over what is left of it.

A `tf.function` is traced once: a batch that was read by Python meanwhile would be a constant of its graph, the same at
each execution. So what a graph reads is an iterator of tf.data's own, which asks for the next batch of the run whenever
it is executed. Nothing is read ahead: eager code and graphs may read in turn, and have one position.
"""

from __future__ import annotations

import functools
import itertools
import json
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .feed import FeedIterator, plain_nests
from .tf_specs import as_stated

__all__ = ["Rests", "end_of_sequence", "iterator_class"]


class Rests:
    """What the iterators over a dataset have left, for tf.data. It is traced once, for all of them."""

    def __init__(self, element_spec: Any) -> None:
        import tensorflow as tf

        # An iterator's batches are its own: dropping it closes their run.
        self._batches: weakref.WeakValueDictionary[int, FeedIterator] = weakref.WeakValueDictionary()
        self._numbers = itertools.count()
        self._element_spec = element_spec
        self._as_stated = as_stated(element_spec)
        self._options = tf.data.Options()
        self._options.autotune.enabled = False  # there is nothing to tune
        self._options.experimental_optimization.inject_prefetch = False  # what is read ahead, eager code would miss

        def variant_of(number: Any) -> Any:
            rest = tf.data.Dataset.from_generator(self._read, args=(number,), output_signature=element_spec)
            return tf.data.experimental.to_variant(rest)

        self._variant_of = tf.function(variant_of, input_signature=[tf.TensorSpec((), tf.int64)], autograph=False)

    def _read(self, number: Any) -> Iterator[Any]:
        return map(self._fitting, self._batches[int(number)])  # no generator, which would end with the first error

    def _fitting(self, element: Any) -> Any:
        return self._as_stated(plain_nests(element))

    def iterator(self, batches: FeedIterator) -> tuple[Any, Callable[[], None]]:
        """An iterator of tf.data's over what is left of these batches, and what to call when they have been moved."""
        import tensorflow as tf

        number = next(self._numbers)
        self._batches[number] = batches
        variant = self._variant_of(tf.constant(number, tf.int64))
        rest = tf.data.experimental.from_variant(variant, self._element_spec).with_options(self._options)
        iterator = iter(rest)
        resource = iterator._iterator_resource
        # A function that was traced has the resource, and maybe nothing else of what is needed to execute it.
        resource._reads = (self, batches)
        return iterator, lambda: tf.raw_ops.MakeIterator(dataset=rest._variant_tensor, iterator=resource)


def end_of_sequence() -> Exception:
    """The end of the batches, for who does not take a StopIteration for it."""
    import tensorflow as tf

    error: Exception = tf.errors.OutOfRangeError(None, None, "End of sequence")
    return error


@functools.cache
def iterator_class() -> Any:
    import tensorflow as tf

    # AutoGraph knows iterators by this class, and so does all else in TensorFlow.
    iterators_of_tf_data = tf.data.IteratorSpec(tf.TensorSpec(())).value_type
    executing_eagerly = tf.executing_eagerly

    class TfIterator(iterators_of_tf_data):  # type: ignore[misc, valid-type]  # TensorFlow comes without types here
        """An epoch of a dataset; it can be saved by `tf.train.Checkpoint`."""

        def __init__(self, batches: FeedIterator, dataset: Any) -> None:
            self._batches = batches
            self._of = dataset

        @functools.cached_property
        def _rest(self) -> tuple[Any, Callable[[], None]]:
            with tf.init_scope():
                rests: Rests = self._of.rests
                return rests.iterator(self._batches)

        def __next__(self) -> Any:
            return next(self._batches if executing_eagerly() else self._rest[0])

        def get_next(self) -> Any:
            if not executing_eagerly():
                return self._rest[0].get_next()
            try:
                return next(self._batches)
            except StopIteration:
                raise end_of_sequence() from None

        def get_next_as_optional(self) -> Any:
            return self._rest[0].get_next_as_optional()

        @property
        def element_spec(self) -> Any:
            return self._of.element_spec

        _element_spec = element_spec

        @property
        def _iterator_resource(self) -> Any:
            return self._rest[0]._iterator_resource

        @property
        def run(self) -> Any:
            """The run that it reads: `stats()`, `memory()`."""
            return self._batches.run

        def state_dict(self) -> dict[str, Any]:
            """The position after the last element delivered."""
            return self._batches.state_dict()

        def load_state_dict(self, state: dict[str, Any]) -> None:
            """Moves to a saved position: what comes next is what came next then."""
            self._batches.load_state_dict(state)
            if "_rest" in vars(self):
                with tf.init_scope():
                    self._rest[1]()

        get_state, set_state = state_dict, load_state_dict  # as iterators of Grain call them

        def close(self) -> None:
            """Ends the run. So does dropping the iterator."""
            self._batches.close()

        def __enter__(self) -> TfIterator:
            return self

        def __exit__(self, *exc_info: object) -> None:
            self.close()

        def _serialize_to_tensors(self) -> dict[str, Any]:
            return {"_STATE": tf.numpy_function(lambda: json.dumps(self.state_dict()).encode(), [], tf.string)}

        def _restore_from_tensors(self, restored_tensors: dict[str, Any]) -> Any:
            def load(state: Any) -> None:
                self.load_state_dict(json.loads(np.asarray(state).item()))

            return tf.numpy_function(load, [restored_tensors["_STATE"]], [])

        def _copy_trackable_to_cpu(self, object_map: Any) -> None:
            raise NotImplementedError(
                "expected a checkpoint that is written at once: the position of an iterator of to_tf() is not copied "
                "for one that is written in the background; save its state_dict() beside that one"
            )

    return TfIterator
