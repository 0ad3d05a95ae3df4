"""Signatures: values that fit are converted, others refused; in TensorFlow's specs: see adapters/test_tf_specs.py."""

import collections
from typing import Any

import numpy as np
import pytest

from penstock.errors import BadType, SpecMismatch
from penstock.leaf import Ragged, Sparse
from penstock.signature import check_element, own_signature
from penstock.spec import RaggedSpec, SparseSpec, TensorSpec

INT = TensorSpec((), np.int64)
RAGGED = Ragged(np.arange(3.0), np.array([0, 1, 3]))
SPARSE = Sparse(np.array([[0, 1]]), np.array([2.0]), np.array([1, 4]))


@pytest.mark.parametrize("spec, value, expected", [
    (INT, 3, np.int64(3)),
    (INT, 2.0, np.int64(2)),
    (TensorSpec((), "f4"), 2, np.float32(2)),
    (TensorSpec((), "f4"), 0.1, np.float32(0.1)),
    (TensorSpec((), bytes), "a", b"a"),
    (TensorSpec((None,), "u1"), [1, 2], np.array([1, 2], np.uint8)),
    (TensorSpec((2,), "i8"), (1, 2), np.array([1, 2])),
    (TensorSpec(None, "i8"), [[1]], np.array([[1]])),
])  # fmt: skip
def test_values_are_converted_where_nothing_is_lost(spec: Any, value: Any, expected: Any) -> None:
    checked = check_element(spec, value)
    assert type(checked) is type(expected)
    np.testing.assert_array_equal(checked, expected)
    assert spec.holds(checked)


@pytest.mark.parametrize("spec, value, text", [
    (INT, 2.7, "expected int64, got float64 with a value that int64 cannot hold"),
    (TensorSpec((), "u1"), 256, "uint8 cannot hold"),
    (TensorSpec((), "u1"), -1, "uint8 cannot hold"),
    (INT, float("nan"), "cannot hold"),
    (INT, "a", "expected int64, got string"),
    (TensorSpec((), bytes), 1, "expected string, got int64"),
    (TensorSpec((), bool), 1, "expected bool, got int64"),
    (INT, True, "expected int64, got bool"),
    (TensorSpec((2,), "i8"), [1, 2, 3], "expected 2 int64, got 3 int64"),
    (TensorSpec((None,), "i8"), 1, r"expected \? int64, got int64"),
    ((INT, INT), (1, 2, 3), r"signature is \(int64, int64\)"),
    ({"a": INT}, {"b": 1}, "signature is {'a': int64}"),
    (RaggedSpec((None, None), "f8"), np.zeros(2), r"expected ragged \?×\? float64, got 2 float64"),
    (RaggedSpec((3, None), "f8"), RAGGED, r"expected ragged 3×\? float64, got ragged 2×\? float64"),
    (RaggedSpec((None, None), "u1"), Ragged(np.array([1, -1]), np.array([0, 2])), "uint8 cannot hold"),
    (TensorSpec((None, None), "f8"), RAGGED, r"expected \?×\? float64, got ragged 2×\? float64"),
    (SparseSpec((None, None), "f8"), RAGGED, r"expected sparse \?×\? float64, got ragged 2×\? float64"),
    (INT, None, "expected int64, got"),
])  # fmt: skip
def test_values_that_do_not_fit_are_refused(spec: Any, value: Any, text: str) -> None:
    with pytest.raises(SpecMismatch, match=text):
        check_element(spec, value)


def test_a_list_fits_a_tuple_of_the_signature() -> None:
    assert check_element((INT, (INT, INT)), [1, [2, 3]]) == (1, (2, 3))


def test_nests_are_checked_leaf_by_leaf() -> None:
    checked = check_element({"a": TensorSpec((), "f4"), "b": RaggedSpec((None, None), "f8")}, {"a": 1, "b": RAGGED})
    assert type(checked["a"]) is np.float32
    assert checked["b"] is RAGGED


def test_ragged_and_sparse_values_are_converted_where_nothing_is_lost() -> None:
    ragged = check_element(RaggedSpec((2, None), "i2"), RAGGED)
    assert (ragged.dtype, ragged.to_list()) == (np.int16, [[0], [1, 2]])
    sparse = check_element((SparseSpec((1, 4), "i2"),), (SPARSE,))[0]
    assert (sparse.dtype, sparse.to_dense().tolist()) == (np.int16, [[0, 2, 0, 0]])


@pytest.mark.parametrize("signature_kind", [dict, collections.OrderedDict])
@pytest.mark.parametrize("value_kind", [dict, collections.OrderedDict, collections.ChainMap])
def test_dicts_are_of_the_signatures_kind(signature_kind: Any, value_kind: Any) -> None:
    signature = own_signature(signature_kind({"b": INT, "a": (INT, INT)}))
    checked = check_element(signature, value_kind({"a": [1, 2], "b": 3}))
    assert type(checked) is signature_kind
    assert list(checked.items()) == [("b", 3), ("a", (1, 2))]


@pytest.mark.parametrize("nothing", [(), {}, {"a": ()}])
def test_a_signature_has_a_spec(nothing: Any) -> None:
    with pytest.raises(BadType, match="output_signature: expected at least one TensorSpec, got none"):
        own_signature(nothing)


def test_what_is_no_spec() -> None:
    with pytest.raises(BadType, match="output_signature: expected a nest of TensorSpec, got int 3"):
        own_signature((INT, 3))
