"""TensorFlow: batches as eager tensors on the same memory, and as a `tf.data.Dataset` for whatever wants one."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..dataset import Dataset
from ..errors import BadArgument
from ..leaf import Ragged, Sparse
from ..memory.arena import Slots
from ..runtime.run import Run
from ..signature import check_element, own_signature
from ..spec import UNSEEN, map_specs
from .feed import Convert, Feed, refused
from .own_memory import each_own_leaf, has_one_holder, is_own
from .tf_generated import generated
from .tf_iterator import Rests, iterator_class
from .tf_specs import as_stated, stated_specs, tf_specs
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
    into tensors as they come. They are on the memory of their batch if nobody else has that. Views of your arrays,
    what a `cache` keeps and what a function of yours still holds are copied: TensorFlow may compute in place there.

    Inside a `tf.function`, under a distribution strategy, and below tf.data's own methods (`.map`, `.prefetch`, …)
    elements come by way of `tf.data.Dataset.from_generator`. Then the specs of the elements are needed: a dataset with
    a function is run for one element if they are not known, and all elements must be like it, but for the length of
    their first axis. If it may have none, give `output_signature`.

    Iterators are `tf.data.Iterator`s: loops and `tf.function`s may read them in turn, `tf.train.Checkpoint` saves them.

    Args:
        output_signature: A nest of `tf.TensorSpec`, `tf.RaggedTensorSpec` and `tf.SparseTensorSpec` that all elements
            must fit, as for `from_generator`. They are converted to its dtypes where that loses nothing, and ragged
            ones to its ragged rank and type of row splits. None: elements are taken as they come.
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
    signature, stated = own_signature(output_signature), stated_specs(output_signature)
    fitted = functools.partial(check_element, signature)
    return as_tf_dataset(Feed(dataset, converter(as_stated(stated)), memory, optimize, fitted), signature=stated)


def converter(fit: Callable[[Any], Any] | None = None) -> Convert:
    """The function that makes tensors of an element, each on memory that is TensorFlow's alone; `fit` goes over them.

    TensorFlow computes in place in memory that nothing of its own refers to any more. It knows that a tensor made on
    an array does not own the memory, but forgets it for slices of the tensor, such as the part of a replica, or what a
    variable is assigned. So arrays that anybody else has are copied.
    """
    return each_own_leaf(_leaf_converter(_tensor_function()), fit)


@functools.cache
def _tensor_function() -> Callable[[Any], Any]:
    """Makes a tensor on the memory of an array if it is aligned to 64 bytes; copies it if not.

    `tf.constant` always copies. DLPack does not copy, but takes no array that is read-only, and takes those that are
    not aligned, which kernels rely on.
    """
    import tensorflow as tf

    eager_tensor = type(tf.constant(0))
    return lambda value: eager_tensor(value, "", None)


def _leaf_converter(tensor: Callable[[Any], Any]) -> Callable[[Any, bool, Slots], Any]:
    import tensorflow as tf

    def copied(array: np.ndarray, slots: Slots) -> Any:
        # What is not aligned TensorFlow would copy by itself: to new memory, whose pages take longer than the copy.
        return tensor(slots.copied(array))

    def convert(leaf: Any, is_alone: bool, slots: Slots) -> Any:
        if isinstance(leaf, (np.ndarray, np.generic, bytes)):
            try:
                if isinstance(leaf, np.ndarray) and not leaf.dtype.hasobject and not (is_alone and is_own(leaf, slots)):
                    return copied(leaf, slots)
                return tensor(leaf)
            except (TypeError, ValueError, RuntimeError) as error:
                raise refused("to_tf", leaf, f"make others of them with map; TensorFlow says: {error}") from None

        def part(key: str) -> Any:
            is_part_alone = is_alone and has_one_holder(leaf, key)
            return convert(getattr(leaf, key), is_part_alone, slots)

        if isinstance(leaf, Ragged):
            return tf.RaggedTensor.from_row_splits(part("values"), part("row_splits"), validate=False)
        if isinstance(leaf, Sparse):
            return tf.SparseTensor(part("indices"), part("values"), part("dense_shape"))
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
                return generated(self._generated_feed, self.element_spec)

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
    return tf_specs(known)


def _of_any_length(spec: Any) -> Any:
    shape = getattr(spec, "shape", None)
    return spec.with_shape((None, *shape[1:])) if shape else spec
