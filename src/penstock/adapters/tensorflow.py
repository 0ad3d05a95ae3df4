"""TensorFlow: batches as eager tensors on the same memory, and as a `tf.data.Dataset` for whatever wants one."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..dataset import Dataset
from ..element import Ragged, Sparse
from ..errors import BadArgument, BadType
from ..runtime.run import Run
from ..spec import UNKNOWN, UNSEEN, check_element, map_specs, spec_leaves
from .feed import Feed, FeedIterator, each_leaf, plain_nests, refused
from .tf_iterator import Rests, as_stated, iterator_class
from .tf_specs import own_specs, tf_spec
from .tf_steps import StepsIterator

__all__ = ["as_tf_dataset", "converter", "to_tf"]


def to_tf(
    dataset: Dataset,
    *,
    output_signature: Any = None,
    memory: int | float | str | None = None,
    optimize: bool | None = None,
) -> Any:
    """This dataset for TensorFlow: a `tf.data.Dataset`, its tensors on the memory of their batches where they can be.

    Each iteration is the dataset's next epoch. In a loop, and in `model.fit`, no part of tf.data runs: batches are made
    into tensors as they come. The memory of a batch is shared if it is aligned to 64 bytes, as those are that penstock
    makes, and copied otherwise, which may be so for views of your arrays.

    Inside a `tf.function`, under a distribution strategy, and below tf.data's own methods (`.map`, `.prefetch`, …)
    elements come by way of `tf.data.Dataset.from_generator`, which copies them. Then the specs of the elements are
    needed: a dataset with a function is run for one element if they are not known, and all elements must be like it,
    but for the length of their first axis. If it may have none, give `output_signature`.

    Iterators are `tf.data.Iterator`s: loops and `tf.function`s may read them in turn, `tf.train.Checkpoint` saves them.

    Args:
        output_signature: A nest of `tf.TensorSpec` that all elements must fit, as for `from_generator`. They are
            converted to its dtypes where that loses nothing. None: elements are taken as they come.
        memory: The budget of each run, as for `run`.
        optimize: Whether the rules may rewrite the plan, as for `run`.

    >>> import numpy as np, penstock as ps
    >>> for x in ps.Dataset.from_tensor_slices(np.arange(5)).batch(3).to_tf():
    ...     print(x)
    tf.Tensor([0 1 2], shape=(3,), dtype=int64)
    tf.Tensor([3 4], shape=(2,), dtype=int64)
    """
    if output_signature is None:
        return as_tf_dataset(Feed(dataset, converter(), memory, optimize))
    signature, convert = _own_signature(output_signature), converter()
    return as_tf_dataset(
        Feed(dataset, lambda element: convert(check_element(signature, element)), memory, optimize), signature=signature
    )


def _own_signature(output_signature: Any) -> Any:
    try:
        signature = own_specs(output_signature)
    except BadType as error:
        raise BadType(f"output_signature: {error}") from None
    if not spec_leaves(signature):
        raise BadType("output_signature: expected at least one tf.TensorSpec, got none")
    return signature


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


def as_tf_dataset(feed: Feed, generated: Feed | None = None, signature: Any = UNSEEN) -> Any:
    """A `tf.data.Dataset` whose iterators are those of a feed; tf.data itself works on those of another, if given.

    All that the feed converts fits the signature, if there is one.
    """
    return _dataset_class()(feed, generated or feed, signature)


@functools.cache
def _dataset_class() -> Any:
    import tensorflow as tf

    class TfDataset(tf.data.Dataset):  # type: ignore[misc]  # TensorFlow comes without types here
        """A dataset as eager tensors; the variant that tf.data itself works on is a generator's, made when needed."""

        def __init__(self, feed: Feed, generated: Feed, signature: Any) -> None:
            self._feed = feed
            self._generated_feed = generated
            self._signature = signature
            super().__init__(None)

        @property
        def last_run(self) -> Run | None:
            """The run that began last, open or over: `memory()`, `stats()`. None before the first."""
            return self._feed.last_run

        @functools.cached_property
        def _generated(self) -> Any:
            with tf.init_scope():
                return _generated(self._generated_feed, self.element_spec)

        @property
        def _variant_tensor(self) -> Any:
            return self._generated._variant_tensor

        def _inputs(self) -> list[Any]:
            return [self._generated] if "_generated" in vars(self) else []

        @functools.cached_property
        def element_spec(self) -> Any:
            with tf.init_scope():
                return _element_spec(self._generated_feed.dataset, self._signature)

        def __repr__(self) -> str:
            return f"<{type(self).__name__} of {self._feed.dataset!r}>"  # tf.data's would run a function

        def cardinality(self) -> Any:
            return tf.constant(self._feed.dataset.cardinality(), tf.int64)  # its numbers for the unknown are ours

        @functools.cached_property
        def rests(self) -> Rests:
            """What its iterators have left, for graphs."""
            return Rests(self.element_spec)

        def __iter__(self) -> Any:
            if not tf.executing_eagerly():
                return super().__iter__()
            batches = iterator_class()(iter(self._feed), self)
            # Keras can be told by nothing but the module that asks.
            asked_by = sys._getframe(1).f_globals.get("__name__", "")
            return StepsIterator(batches, self._feed.dataset) if asked_by.startswith("keras.") else batches

    return TfDataset


def _generated(feed: Feed, element_spec: Any) -> Any:
    import tensorflow as tf

    def values() -> FeedIterator:  # no generator, which would end with the first error
        return FeedIterator(feed.open_run, lambda element: as_stated(feed.convert(element)))

    cardinality = feed.dataset.cardinality()
    dataset = tf.data.Dataset.from_generator(values, output_signature=element_spec)
    # tf.data has the same numbers for what is infinite and unknown.
    return dataset if cardinality == UNKNOWN else dataset.apply(tf.data.experimental.assert_cardinality(cardinality))


def _element_spec(dataset: Dataset, signature: Any) -> Any:
    """What tf.data is told of the elements."""
    known = dataset.element_spec if signature is UNSEEN else signature
    if known is UNSEEN:
        raise BadArgument(
            "to_tf: TensorFlow must know what the elements are like, and this dataset has no first one to tell; say it "
            "with to_tf(output_signature=…), a nest of tf.TensorSpec"
        )
    if signature is UNSEEN and dataset.static_element_spec is UNSEEN:
        known = map_specs(_of_any_length, known)  # one element was seen, and the last batch may be a smaller one
    return plain_nests(map_specs(tf_spec, known))


def _of_any_length(spec: Any) -> Any:
    shape = getattr(spec, "shape", None)
    return spec.with_shape((None, *shape[1:])) if shape else spec
