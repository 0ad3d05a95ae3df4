"""Datasets of tf.data as a source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..dataset import Dataset
from ..element import Structure
from ..errors import BadType
from ..io.generator import FromGenerator
from ..leaf import own_leaf
from ..ops.assert_cardinality import AssertCardinality
from ..plan.node import Node, caller_origin, located
from ..signature import own_signature
from ..spec import UNKNOWN
from .checksum import add_to_checksum

__all__ = ["from_tf"]


def from_tf(dataset: Any) -> Dataset:
    """The elements of a `tf.data.Dataset`, as a stream that is iterated anew in each run.

    Tensors become arrays, without a copy where they are in this machine's memory; ragged and sparse ones become
    `Ragged` and `Sparse`. What tf.data itself holds (its shuffle buffers, caches, prefetched elements) is not part of
    the budget: move such operators to this side.

    Args:
        dataset: A `tf.data.Dataset`.

    Memory: the elements asked for.
    State: two integers; the dataset is iterated again, and as many elements are dropped. It must repeat itself for
        that, as with `shuffle(…, reshuffle_each_iteration=False)`: other elements than before are a `StateError`.

    >>> import tensorflow as tf, penstock as ps
    >>> list(ps.from_tf(tf.data.Dataset.range(4)).skip(2))
    [np.int64(2), np.int64(3)]
    """
    import tensorflow as tf

    origin = caller_origin()
    if not isinstance(dataset, tf.data.Dataset):
        kind = type(dataset).__name__
        raise located(BadType(f"dataset: expected a tf.data.Dataset, got {kind} {dataset!r:.60}"), "from_tf", origin)

    def elements() -> Iterator[Any]:
        return map(_element, dataset)  # no generator, which would end with the first error

    try:
        signature = own_signature(dataset.element_spec)
    except BadType:  # the elements tell, or are an error
        signature = None
    op = FromGenerator(elements, signature, gives_own=True, made_by="from_tf", checksum=add_to_checksum)
    node = Node(op, (), origin)
    cardinality = int(dataset.cardinality())
    if cardinality != UNKNOWN:
        node = Node(AssertCardinality(cardinality, counts_failed=True), (node,), origin)
    return Dataset(node)


def _element(element: Any) -> Any:
    return Structure.of(element).map(_as_numpy, element)


def _as_numpy(tensor: Any) -> Any:
    import tensorflow as tf

    if isinstance(tensor, (tf.RaggedTensor, tf.SparseTensor)):
        return own_leaf(tensor, _as_numpy)
    if isinstance(tensor, tf.Tensor) and tensor.dtype != tf.string and tensor.shape.rank:
        try:
            return np.asarray(memoryview(tensor))
        except (BufferError, TypeError, ValueError):
            pass  # bfloat16, or memory of a device
    return tensor.numpy() if isinstance(tensor, tf.Tensor) else tensor
