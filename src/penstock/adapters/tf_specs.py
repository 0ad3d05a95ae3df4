"""Specs of ours as TensorFlow's, and tensors as the specs state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import BadType, SpecMismatch
from ..ops.stacking import ragged_rank
from ..signature import own_spec
from ..spec import RaggedSpec, SparseSpec, TensorSpec, spec_nest
from .feed import plain_nests

__all__ = ["as_stated", "stated_specs", "tf_spec", "tf_specs"]


def stated_specs(signature: Any) -> Any:
    """A signature as ours, but for TensorFlow's ragged specs: ours tell neither ragged rank nor type of row splits."""
    structure, leaves = spec_nest(signature, lambda spec: spec if _is_ragged(spec) else own_spec(spec))
    return structure.unflatten(leaves)


def tf_specs(specs: Any) -> Any:
    """A nest of specs as TensorFlow's, in nests that it looks into."""
    structure, leaves = spec_nest(specs, lambda spec: spec)
    return plain_nests(structure.unflatten([tf_spec(leaf) for leaf in leaves]))


def tf_spec(spec: Any) -> Any:
    """The spec of a leaf as TensorFlow's."""
    import tensorflow as tf

    if _is_ragged(spec):
        return spec
    if isinstance(spec, TensorSpec):
        try:
            dtype = tf.string if spec.dtype.kind == "O" else tf.as_dtype(spec.dtype)
        except TypeError:
            raise BadType(f"expected elements that TensorFlow has tensors for, got {spec.dtype}") from None
        if isinstance(spec, SparseSpec):
            return tf.SparseTensorSpec(spec.shape, dtype)
        if isinstance(spec, RaggedSpec):
            return tf.RaggedTensorSpec(spec.shape, dtype, max(1, ragged_rank(spec.shape or ())))
        return tf.TensorSpec(spec.shape, dtype)
    raise BadType(f"expected arrays, got {spec}; make arrays of them with map or batch")


def _is_ragged(spec: Any) -> bool:
    import tensorflow as tf

    return isinstance(spec, tf.RaggedTensorSpec) and bool(spec.ragged_rank)


def as_stated(specs: Any) -> Callable[[Any], Any]:
    """The function that gives ragged tensors the ragged rank, and the type of row splits, of TensorFlow's specs."""
    structure, leaves = spec_nest(specs, lambda spec: spec)
    if not any(map(_is_ragged, leaves)):
        return lambda element: element

    def convert(element: Any) -> Any:
        return structure.unflatten(list(map(_stated, structure.flatten(element), leaves)))

    return convert


def _stated(tensor: Any, spec: Any) -> Any:
    import tensorflow as tf

    if not isinstance(tensor, tf.RaggedTensor) or not _is_ragged(spec):
        return tensor
    lacking = spec.ragged_rank - tensor.ragged_rank
    if not 0 <= lacking < tensor.flat_values.shape.rank:
        raise SpecMismatch(
            f"to_tf: expected tensors of ragged rank {spec.ragged_rank}, got one of rank {tensor.ragged_rank} and of "
            f"shape {tuple(tensor.shape)}; say so with output_signature=tf.RaggedTensorSpec(…, ragged_rank=…)"
        )
    if lacking:  # rows of an array are of one length: as well be they ragged
        rows = tf.RaggedTensor.from_tensor(
            tensor.flat_values, ragged_rank=lacking, row_splits_dtype=tensor.row_splits.dtype
        )
        tensor = tensor.with_flat_values(rows)
    return tensor.with_row_splits_dtype(spec.row_splits_dtype)
