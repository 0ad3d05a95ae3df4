"""penstock, with the neutral names that programs use and results in normal form: the twin of oracle_tf.py."""

from typing import Any

import numpy as np

import penstock as ps

from .normal import MAX_ITEMS, Evaluation, Leaf, Outcome, RaggedForm, SparseForm, collect, normal_structure
from .programs.program import Program


class Bad(RuntimeError):
    """What a user's function raises in the programs."""


def _dtype(value: Any) -> Any:
    return object if isinstance(value, bytes) else np.asarray(value).dtype


class Penstock:
    """What a program needs besides Dataset, in NumPy's words."""

    name = "penstock"
    Dataset = ps.Dataset
    AUTOTUNE = ps.AUTOTUNE
    string = ps.string

    @staticmethod
    def spec(shape: tuple[int | None, ...], dtype: Any) -> Any:
        return ps.TensorSpec(shape, dtype)

    @staticmethod
    def cast(x: Any, dtype: Any) -> Any:
        return np.asarray(x).astype(dtype)[()]

    @staticmethod
    def fill(length: Any, value: Any) -> Any:
        return np.full((int(length),), value, dtype=_dtype(value))

    @staticmethod
    def fill2(rows: Any, columns: Any, value: Any) -> Any:
        return np.full((int(rows), int(columns)), value, dtype=_dtype(value))

    @staticmethod
    def arange(length: Any) -> Any:
        return np.arange(length)

    @staticmethod
    def length(x: Any) -> Any:
        return np.int64(len(x))

    @staticmethod
    def short_length(x: Any) -> Any:
        """As int32: tf.data's bucket_by_sequence_length takes no other."""
        return np.int32(len(x))

    @staticmethod
    def where(condition: Any, x: Any, y: Any) -> Any:
        return np.where(condition, x, y)[()]

    @staticmethod
    def concat(parts: list[Any]) -> Any:
        return np.concatenate(parts)

    @staticmethod
    def stack(parts: list[Any]) -> Any:
        return np.stack(parts)

    @staticmethod
    def sum(x: Any) -> Any:
        return np.sum(x, dtype=np.asarray(x).dtype)

    @staticmethod
    def join(x: Any, y: Any) -> Any:
        return x + y

    @staticmethod
    def num_bytes(x: Any) -> Any:
        return np.int64(len(x))

    @staticmethod
    def fail_on(x: Any, *values: Any) -> Any:
        """x itself, or an error where x is one of the values."""
        if any(bool(x == value) for value in values):
            raise Bad(f"told to fail on {x}")
        return x


L = Penstock()


def build(program: Program) -> Any:
    return program.build(L)


def _leaf(value: Any) -> Any:
    if isinstance(value, ps.Dataset):
        return run(value)
    if isinstance(value, ps.Ragged):
        return RaggedForm(_leaf(value.values), Leaf(value.row_splits))
    if isinstance(value, ps.Sparse):
        return SparseForm(Leaf(value.indices), Leaf(value.values), Leaf(np.asarray(value.dense_shape)))
    assert not isinstance(value, list), f"an element holds a list: {value!r}"
    return Leaf(value)


def normal(value: Any) -> Any:
    return normal_structure(value, _leaf)


def run(dataset: Any, max_items: int = MAX_ITEMS, **how: Any) -> Outcome:
    with dataset.run(**how) as cursor:
        return collect(cursor, normal, max_items)


def element_spec(dataset: Any) -> Any:
    """Shapes and dtypes in normal form: (shape with None, dtype name), strings as 'string'."""

    def leaf(spec: Any) -> Any:
        if isinstance(spec, ps.DatasetSpec):
            return ("dataset", normal_structure(spec.element_spec, leaf))
        dtype = "string" if spec.dtype == ps.string else np.dtype(spec.dtype).str
        return (tuple(spec.shape), dtype)

    return normal_structure(dataset.element_spec, leaf)


def evaluate(program: Program) -> Evaluation:
    result = build(program)
    if program.value:
        return Evaluation([normal(result)])
    cardinality = int(result.cardinality()) if program.cardinality else None
    spec = element_spec(result) if program.spec else None
    return Evaluation([run(result, program.max_items) for _ in range(program.passes)], cardinality, spec)
