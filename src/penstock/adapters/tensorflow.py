"""TensorFlow: batches as eager tensors on the same memory, and as a `tf.data.Dataset` for whatever wants one."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..dataset import Dataset
from ..element import Ragged, Sparse
from ..errors import BadType
from ..runtime.run import Run
from ..spec import UNKNOWN, UNSEEN, RaggedSpec, SparseSpec, TensorSpec, map_specs
from .feed import Feed, each_leaf, plain_nests, refused
from .tf_steps import StepsIterator

__all__ = ["as_tf_dataset", "converter", "to_tf"]


def to_tf(dataset: Dataset, *, memory: int | float | str | None = None, optimize: bool | None = None) -> Any:
    """This dataset for TensorFlow: a `tf.data.Dataset`, its tensors on the memory of their batches where they can be.

    Each iteration is the dataset's next epoch. In a loop, and in `model.fit`, no part of tf.data runs: batches are made
    into tensors as they come. The memory of a batch is shared if it is aligned to 64 bytes, as those are that penstock
    makes, and copied otherwise, which may be so for views of your arrays.

    Inside a `tf.function`, under a distribution strategy, and below tf.data's own methods (`.map`, `.prefetch`, …)
    elements come by way of `tf.data.Dataset.from_generator`, which copies them. Then the specs of the elements are
    needed: a dataset with a function is run for one element if they are not known, and all elements must be like it,
    but for the length of their first axis.

    Args:
        memory: The budget of each run, as for `run`.
        optimize: Whether the rules may rewrite the plan, as for `run`.

    >>> import numpy as np, penstock as ps
    >>> for x in ps.Dataset.from_tensor_slices(np.arange(5)).batch(3).to_tf():
    ...     print(x)
    tf.Tensor([0 1 2], shape=(3,), dtype=int64)
    tf.Tensor([3 4], shape=(2,), dtype=int64)
    """
    return as_tf_dataset(_LoopFeed(dataset, converter(), memory, optimize))


def converter() -> Callable[[Any], Any]:
    """The function that makes tensors of an element."""
    return each_leaf(_leaf_converter(_tensor_function()))


@functools.cache
def _tensor_function() -> Callable[[Any], Any]:
    """Makes a tensor on the memory of an array if it is aligned to 64 bytes; copies it if not.

    `tf.constant` always copies. DLPack does not copy, but takes no array that is read-only, and takes those that are
    not aligned, which kernels rely on.
    """
    import tensorflow as tf

    eager_tensor = type(tf.constant(0))
    return lambda value: eager_tensor(value, "", None)


def _leaf_converter(tensor: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def convert(leaf: Any) -> Any:
        if isinstance(leaf, (np.ndarray, np.generic, bytes)):
            try:
                return tensor(leaf)
            except (TypeError, ValueError, RuntimeError) as error:
                raise refused("to_tf", leaf, f"TensorFlow says: {error}") from None
        import tensorflow as tf

        if isinstance(leaf, Ragged):
            return tf.RaggedTensor.from_row_splits(convert(leaf.values), convert(leaf.row_splits), validate=False)
        if isinstance(leaf, Sparse):
            return tf.SparseTensor(convert(leaf.indices), convert(leaf.values), convert(leaf.dense_shape))
        if leaf is None:
            return None
        raise refused("to_tf", leaf, "make arrays of them with map or batch")

    return convert


class _LoopFeed(Feed):
    """A feed for loops, and for Keras: it can tell who asks by nothing but the module."""

    def __iter__(self) -> Any:
        asked_by = sys._getframe(2).f_globals.get("__name__", "")  # past the dataset's own method
        batches = super().__iter__()
        return StepsIterator(batches, self.dataset) if asked_by.startswith("keras.") else batches


def as_tf_dataset(feed: Feed, generated: Feed | None = None) -> Any:
    """A `tf.data.Dataset` whose iterators are those of a feed; tf.data itself works on those of another, if given."""
    return _dataset_class()(feed, generated or feed)


@functools.cache
def _dataset_class() -> Any:
    import tensorflow as tf

    class TfDataset(tf.data.Dataset):  # type: ignore[misc]  # TensorFlow comes without types here
        """A dataset as eager tensors; the variant that tf.data itself works on is a generator's, made when needed."""

        def __init__(self, feed: Feed, generated: Feed) -> None:
            self._feed = feed
            self._generated_feed = generated
            super().__init__(None)

        @property
        def last_run(self) -> Run | None:
            """The run that began last, open or over: `memory()`, `stats()`. None before the first."""
            return self._feed.last_run

        @functools.cached_property
        def _generated(self) -> Any:
            with tf.init_scope():
                return _generated(self._generated_feed)

        @property
        def _variant_tensor(self) -> Any:
            return self._generated._variant_tensor

        def _inputs(self) -> list[Any]:
            return [self._generated] if "_generated" in vars(self) else []

        @property
        def element_spec(self) -> Any:
            return self._generated.element_spec

        def cardinality(self) -> Any:
            return tf.constant(self._feed.dataset.cardinality(), tf.int64)  # its numbers for the unknown are ours

        def __iter__(self) -> Any:
            return iter(self._feed) if tf.executing_eagerly() else super().__iter__()

    return TfDataset


def _generated(feed: Feed) -> Any:
    import tensorflow as tf

    tensor = _leaf_converter(lambda value: value)

    def of_stated_type(leaf: Any) -> Any:
        # Our specs do not say of which type row splits are.
        made = tensor(leaf)
        return made.with_row_splits_dtype(tf.int64) if isinstance(leaf, Ragged) else made

    convert = each_leaf(of_stated_type)

    def values() -> Iterator[Any]:
        with feed.open_run() as run:
            for element in run:
                yield plain_nests(convert(element))

    known = feed.dataset.element_spec
    if feed.dataset.static_element_spec is UNSEEN:  # one element was seen, and the last batch may be a smaller one
        known = map_specs(_of_any_length, known)
    # Still unseen: there is no element to tell.
    spec = tf.TensorSpec(None) if known is UNSEEN else plain_nests(map_specs(_tf_spec, known))
    cardinality = feed.dataset.cardinality()
    dataset = tf.data.Dataset.from_generator(values, output_signature=spec)
    # tf.data has the same numbers for what is infinite and unknown.
    return dataset if cardinality == UNKNOWN else dataset.apply(tf.data.experimental.assert_cardinality(cardinality))


def _of_any_length(spec: Any) -> Any:
    shape = getattr(spec, "shape", None)
    return spec.with_shape((None, *shape[1:])) if shape else spec


def _tf_spec(spec: Any) -> Any:
    import tensorflow as tf

    if isinstance(spec, TensorSpec):
        try:
            dtype = tf.string if spec.dtype.kind == "O" else tf.as_dtype(spec.dtype)
        except TypeError:
            raise BadType(f"expected elements that TensorFlow has tensors for, got {spec.dtype}") from None
        if isinstance(spec, SparseSpec):
            return tf.SparseTensorSpec(spec.shape, dtype)
        if isinstance(spec, RaggedSpec):
            return tf.RaggedTensorSpec(spec.shape, dtype, _ragged_rank(spec))
        return tf.TensorSpec(spec.shape, dtype)
    raise BadType(f"expected arrays, got {spec}; make arrays of them with map or batch")


def _ragged_rank(spec: RaggedSpec) -> int:
    """How many dimensions are ragged: up to the last one of unknown size."""
    shape = spec.shape or (None, None)
    return max(1, *(axis for axis, size in enumerate(shape) if size is None))
