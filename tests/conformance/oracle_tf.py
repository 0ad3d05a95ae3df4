"""The oracle: the real tf.data, with the neutral names that programs use and results in normal form.

Graph rewrites and autotuning are off: with them on, `map` followed by `batch` is fused, and a failing element costs a
whole batch of input. Off, every operator has one meaning, wherever it stands.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from .normal import MAX_ITEMS, Evaluation, Leaf, Outcome, RaggedForm, SparseForm, collect, normal_structure
from .programs.program import Program

tf.config.threading.set_inter_op_parallelism_threads(2)
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.autograph.set_verbosity(0)


def _plain_options() -> tf.data.Options:
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    return options


PLAIN = _plain_options()


class TensorFlow:
    """What a program needs besides Dataset, in TensorFlow's words."""

    name = "tensorflow"
    Dataset = tf.data.Dataset
    AUTOTUNE = tf.data.AUTOTUNE
    string = tf.string

    @staticmethod
    def spec(shape: tuple[int | None, ...], dtype: Any) -> Any:
        return tf.TensorSpec(shape, dtype)

    @staticmethod
    def cast(x: Any, dtype: Any) -> Any:
        return tf.cast(x, dtype)

    @staticmethod
    def fill(length: Any, value: Any) -> Any:
        return tf.fill([length], value)

    @staticmethod
    def fill2(rows: Any, columns: Any, value: Any) -> Any:
        return tf.fill([rows, columns], value)

    @staticmethod
    def arange(length: Any) -> Any:
        return tf.range(length)

    @staticmethod
    def length(x: Any) -> Any:
        return tf.shape(x, out_type=tf.int64)[0]

    @staticmethod
    def short_length(x: Any) -> Any:
        """As int32: tf.data's bucket_by_sequence_length takes no other."""
        return tf.shape(x)[0]

    @staticmethod
    def where(condition: Any, x: Any, y: Any) -> Any:
        return tf.where(condition, x, y)

    @staticmethod
    def concat(parts: list[Any]) -> Any:
        return tf.concat(parts, 0)

    @staticmethod
    def stack(parts: list[Any]) -> Any:
        return tf.stack(parts)

    @staticmethod
    def sum(x: Any) -> Any:
        return tf.reduce_sum(x)

    @staticmethod
    def join(x: Any, y: Any) -> Any:
        return tf.strings.join([x, y])

    @staticmethod
    def num_bytes(x: Any) -> Any:
        return tf.cast(tf.strings.length(x), tf.int64)

    @staticmethod
    def fail_on(x: Any, *values: Any) -> Any:
        """x itself, or an error where x is one of the values."""
        fine = tf.reduce_all([tf.not_equal(x, value) for value in values])
        with tf.control_dependencies([tf.debugging.Assert(fine, [x])]):
            return tf.identity(x)


L = TensorFlow()


def build(program: Program) -> Any:
    """The program's dataset (or value). User functions are traced as they stand, without AutoGraph."""
    return tf.autograph.experimental.do_not_convert(program.build)(L)


def _leaf(value: Any) -> Any:
    if isinstance(value, tf.data.Dataset):
        return run(value)
    if isinstance(value, tf.RaggedTensor):
        return RaggedForm(_leaf(value.values), Leaf(value.row_splits.numpy()))
    if isinstance(value, tf.SparseTensor):
        return SparseForm(Leaf(value.indices.numpy()), Leaf(value.values.numpy()), Leaf(value.dense_shape.numpy()))
    return Leaf(value.numpy() if isinstance(value, tf.Tensor) else value)


def normal(value: Any) -> Any:
    return normal_structure(value, _leaf)


def run(dataset: Any, max_items: int = MAX_ITEMS) -> Outcome:
    return collect(iter(dataset.with_options(PLAIN)), normal, max_items)


def element_spec(dataset: Any) -> Any:
    """Shapes and dtypes in normal form: (shape with None, dtype name), strings as 'string'."""

    def leaf(spec: Any) -> Any:
        if isinstance(spec, tf.data.DatasetSpec):
            return ("dataset", normal_structure(spec.element_spec, leaf))
        assert isinstance(spec, tf.TensorSpec), f"a spec that is not of plain tensors: {spec}"
        dtype = "string" if spec.dtype == tf.string else np.dtype(spec.dtype.as_numpy_dtype).str
        return (tuple(spec.shape.as_list()), dtype)

    return normal_structure(dataset.element_spec, leaf)


def evaluate(program: Program) -> Evaluation:
    result = build(program)
    if program.value:
        return Evaluation([normal(result)])
    return Evaluation(
        [run(result, program.max_items) for _ in range(program.passes)],
        int(result.cardinality()) if program.cardinality else None,
        element_spec(result) if program.spec else None,
    )
