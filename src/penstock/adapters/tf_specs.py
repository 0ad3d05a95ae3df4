"""Specs of TensorFlow's as our own, and the other way."""

from __future__ import annotations

from typing import Any

from ..errors import BadType
from ..spec import NoneSpec, RaggedSpec, SparseSpec, TensorSpec

__all__ = ["own_specs", "tf_spec"]


def own_specs(specs: Any) -> Any:
    """A nest of specs, TensorFlow's or ours, as ours. A `BadType` if there are none like them."""
    if isinstance(specs, tuple):
        parts = [own_specs(part) for part in specs]
        return type(specs)(*parts) if hasattr(specs, "_fields") else tuple(parts)
    if type(specs) is dict:  # elements of other kinds of dicts do not fit a signature
        return {key: own_specs(part) for key, part in specs.items()}
    return specs if isinstance(specs, (TensorSpec, NoneSpec)) else _own_spec(specs)


def _own_spec(spec: Any) -> Any:
    import tensorflow as tf

    if type(spec).__name__ == "NoneTensorSpec":
        return NoneSpec()
    if not isinstance(spec, (tf.TensorSpec, tf.RaggedTensorSpec, tf.SparseTensorSpec)):
        raise BadType(f"expected a nest of tf.TensorSpec, got {type(spec).__name__} {spec!r:.60}")
    if spec.dtype.is_quantized or spec.dtype in (tf.variant, tf.resource):
        raise BadType(f"expected tensors that NumPy has arrays for, got {spec!r:.60}")
    kind = TensorSpec
    if isinstance(spec, tf.SparseTensorSpec):
        kind = SparseSpec
    elif isinstance(spec, tf.RaggedTensorSpec) and spec.ragged_rank:  # a row of a ragged tensor may be none itself
        kind = RaggedSpec
    return kind(None if spec.shape.rank is None else tuple(spec.shape), spec.dtype)


def tf_spec(spec: Any) -> Any:
    """The spec of a leaf as TensorFlow's."""
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
