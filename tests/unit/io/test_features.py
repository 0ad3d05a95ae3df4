"""Features: their arguments are checked and brought into one form when they are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.io import FixedLenFeature, FixedLenSequenceFeature, RaggedFeature, SparseFeature, VarLenFeature
from penstock.io.features import RowLengths


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (np.float32, np.float32),
        ("float32", np.float32),
        (float, np.float32),
        (np.dtype("int64"), np.int64),
        (int, np.int64),
        (bytes, object),
        (str, object),
        ("string", object),
        (ps.string, object),
        (np.dtype("S5"), object),
        (np.bytes_, object),
    ],
)
def test_dtypes(given: Any, dtype: Any) -> None:
    assert VarLenFeature(given).dtype == np.dtype(dtype)


@pytest.mark.parametrize(("given", "shape"), [((), ()), ([], ()), ([2, 3], (2, 3)), (4, (4,)), (np.array([5]), (5,))])
def test_shapes(given: Any, shape: tuple[int, ...]) -> None:
    assert FixedLenFeature(given, float).shape == shape


def test_defaults() -> None:
    assert FixedLenFeature([2, 2], float, [1, 2, 3, 4]).default_value.tolist() == [[1, 2], [3, 4]]
    assert FixedLenFeature([], bytes, "é").default_value[()] == "é".encode()
    assert FixedLenFeature([2], int, np.array([1, 2], np.uint8)).default_value.dtype == np.int64
    assert FixedLenSequenceFeature([], float, True).padding == 0
    assert FixedLenSequenceFeature([], bytes, True).padding == b""
    assert FixedLenSequenceFeature([3], int, True, -1).padding == -1


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "float64": (lambda: VarLenFeature(np.float64), "stores float32, int64 and bytes, not float64"),
    "none": (lambda: VarLenFeature(None), "not None"),
    "word": (lambda: VarLenFeature("number"), "expected float32, int64 or bytes, got 'number'"),
    "no shape": (lambda: FixedLenFeature(None, float), "shape: expected the number of values"),
    "unknown": (lambda: FixedLenFeature([None, 2], float), "see FixedLenSequenceFeature"),
    "negative": (lambda: FixedLenFeature([-1], float), "no dimension can be negative"),
    "half": (lambda: FixedLenFeature([1.5], float), "expected ints"),
    "size": (lambda: FixedLenFeature([3], float, [1, 2]), r"expected 3 values for shape \(3,\), got 2"),
    "float for int": (lambda: FixedLenFeature([], int, 1.5), "expected int64 values, got 1.5"),
    "number for bytes": (lambda: FixedLenFeature([], bytes, 1), "expected bytes, got 1"),
    "padding": (lambda: FixedLenSequenceFeature([], float, True, [1, 2]), "one value to pad with, got 2"),
    "splits": (lambda: RaggedFeature(float, row_splits_dtype=np.int16), "expected int32 or int64, got int16"),
    "value_key": (lambda: RaggedFeature(float, ""), "value_key: expected a name"),
    "partitions": (lambda: RaggedFeature(float, partitions="a"), "partitions: expected a list"),
    "partition": (lambda: RaggedFeature(float, partitions=["a"]), "expected one of RowSplits, RowLengths"),
    "no index": (lambda: SparseFeature("", "v", float, 3), "index_key, value_key: expected names, got ''"),
    "no value_key": (lambda: SparseFeature("i", None, float, 3), "index_key, value_key: expected names, got None"),
    "two sizes, one index": (lambda: SparseFeature("i", "v", float, [2, 3]), "size: expected an int"),
    "one size, two indices": (lambda: SparseFeature(["i", "j"], "v", float, 3), "size: expected a list"),
    "sizes": (lambda: SparseFeature(["i", "j"], "v", float, [3]), "size: expected one for each index_key"),
    "no indices": (lambda: SparseFeature([], "v", float, []), "size: expected one for each index_key"),
    "uniform": (lambda: RaggedFeature(float, partitions=[RaggedFeature.UniformRowLength(0)]), "at least 1, got 0"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    make, text = MISTAKES[name]
    with pytest.raises((ValueError, TypeError), match=text) as caught:
        make()
    assert isinstance(caught.value, ps.errors.PenstockError)


def test_tensorflows_partitions_are_taken() -> None:
    class Named:
        key = "lengths"

    Named.__name__ = "RowLengths"
    assert RaggedFeature(int, partitions=[Named()]).partitions == (RowLengths("lengths"),)
    Named.__name__ = "ValueRowIds"
    assert RaggedFeature(int, partitions=[Named()]).partitions == (RaggedFeature.ValueRowIds("lengths"),)
    Named.__name__ = "RowNumbers"
    with pytest.raises(ValueError, match="expected one of RowSplits"):
        RaggedFeature(int, partitions=[Named()])
