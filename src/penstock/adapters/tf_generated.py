"""What tf.data itself works on: a generator's dataset over the runs of a feed, of the length that the dataset has.

tf.data takes a number for the length of a generator's elements, and refuses another one at the end. An element that
fails does not count there, so that each error would be followed by a second one at the end, and by another each time
that it is asked on: `ignore_errors` asks for ever. So an element that fails is counted like any other: something of its
spec takes its place, and raises the error behind the place where elements are counted.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..errors import SpecMismatch
from ..frames import forget_frames
from ..spec import INFINITE, UNKNOWN
from .feed import Feed, FeedIterator, plain_nests
from .tf_specs import as_stated

__all__ = ["generated"]

# Errors of elements that nobody asked for any more are forgotten, at the latest when so many have followed.
_MOST_WAITING = 256
_NONE = -1


def generated(feed: Feed, element_spec: Any) -> Any:
    """A dataset of tf.data's own, each of whose iterations is the next run."""
    import tensorflow as tf

    fit = as_stated(element_spec)

    def values() -> Iterator[Any]:  # no generator, which would end with the first error
        batches = FeedIterator(feed.open_run, feed.convert, feed.prepare)
        return map(fit, map(plain_nests, batches))

    cardinality = feed.dataset.cardinality()
    if cardinality in (UNKNOWN, INFINITE):  # tf.data has the same numbers for these
        dataset = tf.data.Dataset.from_generator(values, output_signature=element_spec)
        return dataset if cardinality == UNKNOWN else dataset.apply(_of_length(cardinality))
    failures = _Failures(element_spec)
    signature = (element_spec, tf.TensorSpec((), tf.int64))
    counted = tf.data.Dataset.from_generator(
        lambda: _Counted(values(), failures, cardinality), output_signature=signature
    )
    return counted.apply(_of_length(cardinality)).map(failures.raised)


def _of_length(cardinality: int) -> Any:
    import tensorflow as tf

    return tf.data.experimental.assert_cardinality(cardinality)


class _Failures:
    """Errors that were counted as elements, until they are raised."""

    def __init__(self, element_spec: Any) -> None:
        import tensorflow as tf

        self.specs = tf.nest.flatten(element_spec)
        self.element_spec = element_spec
        self._errors: OrderedDict[int, Exception] = OrderedDict()
        self._numbers = itertools.count()
        self.raised = tf.autograph.experimental.do_not_convert(self._raised)

    def add(self, error: Exception) -> tuple[Any, int]:
        """What stands for an element that failed."""
        forget_frames(error)  # which have batches in hand, and it may wait for ever
        number = next(self._numbers)
        self._errors[number] = error
        if len(self._errors) > _MOST_WAITING:
            self._errors.popitem(last=False)
        return _stand_in(self.element_spec), number

    def _raise(self, number: Any) -> None:
        error = self._errors.pop(int(number), None)
        raise ValueError("an element failed") if error is None else error

    def _raised(self, element: Any, number: Any) -> Any:
        """The element, or the error that it stands for."""
        import tensorflow as tf

        is_one = tf.not_equal(number, _NONE)
        with tf.control_dependencies(
            [tf.cond(is_one, lambda: tf.py_function(self._raise, [number], []), lambda: tf.no_op())]
        ):
            return tf.nest.map_structure(tf.identity, element, expand_composites=True)


class _Counted:
    """The elements of a run, each with the number of its error."""

    def __init__(self, values: Iterator[Any], failures: _Failures, cardinality: int) -> None:
        self._values = values
        self._failures = failures
        self._num_left = cardinality
        self._has_failed = False

    def __iter__(self) -> _Counted:
        return self

    def __next__(self) -> tuple[Any, int]:
        if self._has_failed and self._num_left <= 0:  # a run that has ended with an error raises it again
            raise StopIteration
        self._num_left -= 1
        try:
            element = next(self._values)
            self._check(element)
            return element, _NONE
        except StopIteration:
            raise
        except Exception as error:
            self._has_failed = True
            return self._failures.add(error)

    def _check(self, element: Any) -> None:
        import tensorflow as tf

        try:
            tf.nest.assert_same_structure(self._failures.element_spec, element)
        except (TypeError, ValueError) as error:
            raise SpecMismatch(f"to_tf: expected elements of one structure, that of the first: {error}") from None
        for spec, leaf in zip(self._failures.specs, tf.nest.flatten(element), strict=True):
            if not spec.is_compatible_with(leaf):
                raise SpecMismatch(
                    f"to_tf: expected elements that are {spec}, got {tf.type_spec_from_value(leaf)}; where TensorFlow "
                    "reads the dataset all must be like the first one, but for the length of their first axis; say "
                    "what they are like with to_tf(output_signature=…)"
                )


def _stand_in(element_spec: Any) -> Any:
    """Tensors of a spec, of size 1 where it leaves that open."""
    import tensorflow as tf

    def empty(shape: list[int], dtype: Any) -> Any:
        if dtype == tf.string:
            return tf.constant(np.full(shape, b"", object))
        return tf.constant(np.zeros(shape, dtype.as_numpy_dtype), dtype)

    def leaf(spec: Any) -> Any:
        shape = [] if spec.shape.rank is None else [1 if size is None else size for size in spec.shape]
        if isinstance(spec, tf.SparseTensorSpec):
            return tf.SparseTensor(np.zeros((0, len(shape)), np.int64), empty([0], spec.dtype), shape)
        if not isinstance(spec, tf.RaggedTensorSpec) or not spec.ragged_rank:
            return empty(shape, spec.dtype)
        ragged = empty([0, *shape[spec.ragged_rank + 1 :]], spec.dtype)
        for num_rows in [0] * (spec.ragged_rank - 1) + [shape[0]]:
            row_splits = tf.zeros(num_rows + 1, spec.row_splits_dtype)
            ragged = tf.RaggedTensor.from_row_splits(ragged, row_splits, validate=False)
        return ragged

    return tf.nest.map_structure(leaf, element_spec)
