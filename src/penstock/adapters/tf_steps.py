"""How Keras reads under TensorFlow what is no iterator of tf.data: one step after the other, some at each execution.

Of tf.data's datasets Keras knows which dimensions vary before it has seen a batch, and it ends an execution where they
end. Of ours it would compile a step for the size of the first batch and another one for all sizes, which gives batches
unlike weights in the losses of models with several outputs; and it would lose what a last execution of fewer steps
has computed. What gives it our batches makes up for both.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from ..dataset import Dataset
from ..spec import UNSEEN, spec_leaves
from .tf_iterator import end_of_sequence

__all__ = ["StepsIterator"]


class StepsIterator:
    """An epoch of a dataset for Keras's functions of steps, which iterate over it anew at each execution."""

    def __init__(self, batches: Any, dataset: Dataset) -> None:
        self._batches = batches
        self._dataset = dataset
        self._is_execution_begun = False
        self._let_size_vary: Callable[[Any], None] | None = None
        self._is_asked = False

    def __iter__(self) -> StepsIterator:
        self._is_execution_begun = False
        if not self._is_asked:
            self._is_asked = True
            if _is_compiled_by(sys._getframe(1)) and _may_vary(self._dataset):
                self._let_size_vary = _letting_size_vary()
        return self

    def __next__(self) -> Any:
        try:
            batch = next(self._batches)
        except StopIteration:
            if self._is_execution_begun:
                raise  # what the steps before have computed is what the execution gives
            raise end_of_sequence() from None  # Keras would look for the results of a step after a StopIteration
        self._is_execution_begun = True
        if self._let_size_vary is not None:
            self._let_size_vary(batch)
        return batch

    # A training function of the user's own may be a tf.function of the iterator, which gets one of tf.data's instead.

    def __tf_tracing_type__(self, context: Any) -> Any:
        return self._batches.__tf_tracing_type__(context)

    @property
    def _iterator_resource(self) -> Any:
        return self._batches._iterator_resource


def _is_compiled_by(reads: FrameType) -> bool:
    """Whether what is read is given to a compiled step of Keras's, and not to code that looks at shapes."""
    import tensorflow as tf

    if not reads.f_globals.get("__name__", "").startswith("keras.") or tf.config.functions_run_eagerly():
        return False
    return getattr(reads.f_locals.get("self"), "run_eagerly", True) is False


def _may_vary(dataset: Dataset) -> bool:
    """Whether batches may be of several sizes, as far as can be known without a run."""
    spec = dataset.static_element_spec
    if spec is UNSEEN:
        return True
    shapes = [getattr(leaf, "shape", None) for leaf in spec_leaves(spec)]
    return any(shape is None or shape[:1] == (None,) for shape in shapes)


@functools.cache
def _letting_size_vary() -> Callable[[Any], None]:
    """The function that has TensorFlow compile what is done to a batch for any size, not for that of this one."""
    import tensorflow as tf

    eager_tensor, ragged_tensor, flatten = type(tf.constant(0)), tf.RaggedTensor, tf.nest.flatten

    @functools.lru_cache(1024)
    def shape_of_any_size(of_each: tuple[int, ...]) -> Any:
        return tf.TensorShape((None, *of_each))

    def let_size_vary(batch: Any) -> None:
        for leaf in flatten(batch):
            tensor = leaf.row_splits if type(leaf) is ragged_tensor else leaf
            if type(tensor) is eager_tensor and (shape := tensor._shape_tuple()):
                # The shape that Python sees, and compiles for; kernels see that of the memory.
                tensor._tensor_shape = shape_of_any_size(shape[1:])

    return let_size_vary if hasattr(eager_tensor, "_tensor_shape") else lambda batch: None
