"""Specs: what is known of elements, merged and described."""

import collections
import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import BadType, SpecMismatch
from penstock.leaf import Ragged, Sparse
from penstock.spec import (
    UNSEEN,
    DatasetSpec,
    NoneSpec,
    RaggedSpec,
    SparseSpec,
    Spec,
    TensorSpec,
    describe,
    element_bytes,
    map_specs,
    merge,
    spec_leaves,
    spec_of,
    structure_of_spec,
)

Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Example:
    image: Any
    label: Any


class TfLike:
    """A dtype of TensorFlow: it knows NumPy's."""

    def __init__(self, dtype: Any) -> None:
        self.as_numpy_dtype = dtype


INT = TensorSpec((), np.int64)
ROWS = TensorSpec((None, 3), np.float32)
RAGGED = Ragged(np.arange(3.0), np.array([0, 1, 3]))
SPARSE = Sparse(np.array([[0, 1]]), np.array([2.0]), np.array([1, 4]))


@pytest.mark.parametrize("given_dtype, dtype", [
    ("float32", np.float32), (np.uint8, np.uint8), (float, np.float64), (TfLike(np.int16), np.int16),
    (np.dtype(">i4"), ">i4"), (bytes, object), (str, object), ("S5", object), ("U", object), (object, object),
    (TfLike(object), object), (ps.string, object),
])  # fmt: skip
def test_dtypes_of_all_kinds_are_understood(given_dtype: Any, dtype: Any) -> None:
    assert TensorSpec((), given_dtype).dtype == np.dtype(dtype)


@pytest.mark.parametrize("given_shape, shape", [
    (None, None), ((), ()), ([2, None], (2, None)), (3, (3,)), ((np.int64(2), -1), (2, None)), (iter([4]), (4,)),
])  # fmt: skip
def test_shapes_of_all_kinds_are_understood(given_shape: Any, shape: Any) -> None:
    assert TensorSpec(given_shape, np.int8).shape == shape


def test_negative_dimensions_are_refused() -> None:
    with pytest.raises(SpecMismatch, match=r"dimensions >= 0 or None, got \(2, -3\)"):
        TensorSpec((2, -3))


def test_specs_are_values() -> None:
    assert TensorSpec((2,), np.int8) == TensorSpec([2], "int8")
    assert hash(TensorSpec((2,), np.int8)) == hash(TensorSpec([2], "int8"))
    assert TensorSpec((2,), np.int8) != RaggedSpec((2,), np.int8)
    assert NoneSpec() == NoneSpec()
    assert DatasetSpec(INT) == DatasetSpec(TensorSpec((), "int64"))


def test_specs_as_text() -> None:
    assert repr(ROWS) == "TensorSpec(shape=(None, 3), dtype=float32)"
    assert repr(RaggedSpec((2, None), "S1")) == "RaggedSpec(shape=(2, None), dtype=string)"
    assert str(ROWS) == "?×3 float32"
    assert str(INT) == "int64"
    assert str(TensorSpec(None, bytes)) == "? string"
    assert describe((INT, {"a": ROWS}, NoneSpec())) == "(int64, {'a': ?×3 float32}, None)"
    assert describe(DatasetSpec((INT,))) == "Dataset[(int64,)]"
    assert describe(DatasetSpec(UNSEEN)) == "Dataset[?]"
    assert str(Spec(INT, 1_000_000)) == "1,000,000 of int64"
    assert str(Spec(UNSEEN, ps.INFINITE)) == "infinite of ?"
    assert str(Spec(Pair(INT, ROWS))) == "unknown of Pair(a=int64, b=?×3 float32)"


@pytest.mark.parametrize("leaf, spec", [
    (np.float16(1), TensorSpec((), np.float16)),
    (np.zeros((2, 0), bool), TensorSpec((2, 0), bool)),
    (b"x", TensorSpec((), bytes)),
    (np.array([b"x"], object), TensorSpec((1,), bytes)),
    (None, NoneSpec()),
    (RAGGED, RaggedSpec((2, None), np.float64)),
    (SPARSE, SparseSpec((1, 4), np.float64)),
    (ps.Dataset.range(3), DatasetSpec(INT)),
])  # fmt: skip
def test_each_kind_of_leaf_has_its_spec_and_fits_no_other(leaf: Any, spec: Any) -> None:
    assert spec_of(leaf) == spec
    assert spec.holds(leaf)
    others = [TensorSpec((7,), "i1"), NoneSpec(), DatasetSpec(INT), RaggedSpec((2, None), "i1"), SparseSpec((9,), "i1")]
    assert not any(other.holds(leaf) for other in others if type(other) is not type(spec))


def test_the_spec_of_a_nest_is_a_nest_of_specs() -> None:
    element = (
        np.int64(1),
        {"b": None, "a": np.zeros(3, np.float32)},
        Pair(b"", RAGGED),
        Example(SPARSE, np.bool_(True)),
    )
    spec = spec_of(element)
    assert spec == (
        INT,
        {"b": NoneSpec(), "a": TensorSpec((3,), np.float32)},
        Pair(TensorSpec((), bytes), RaggedSpec((2, None), np.float64)),
        Example(SparseSpec((1, 4), np.float64), TensorSpec((), bool)),
    )
    assert structure_of_spec(spec).num_leaves == len(spec_leaves(spec)) == 7
    assert map_specs(lambda leaf: leaf, spec) == spec


def test_mapping_over_what_is_unseen_leaves_it_so() -> None:
    assert map_specs(lambda leaf: INT, UNSEEN) is UNSEEN
    assert map_specs(lambda leaf: ROWS, (INT, INT)) == (ROWS, ROWS)


def test_what_is_no_spec_is_refused() -> None:
    with pytest.raises(BadType, match="expected a nest of TensorSpec, got int 3"):
        spec_leaves((INT, 3))


@pytest.mark.parametrize("spec, nbytes", [
    (INT, 8), (TensorSpec((2, 3), np.float32), 24), ((INT, {"a": TensorSpec((0,))}), 8), (NoneSpec(), 0),
    (ROWS, None), (TensorSpec(None), None), (TensorSpec((2,), bytes), None), ((INT, DatasetSpec(INT)), None),
    (UNSEEN, None),
])  # fmt: skip
def test_bytes_are_known_where_shapes_are(spec: Any, nbytes: int | None) -> None:
    assert element_bytes(spec) == nbytes


# --- merging ---

DIMS = st.lists(st.integers(0, 3) | st.none(), max_size=3).map(tuple) | st.none()


def nests_of_specs(inner: Any) -> Any:
    return st.tuples(inner, inner) | st.dictionaries(st.sampled_from("ab"), inner, min_size=1)


LEAF_SPECS = st.builds(TensorSpec, DIMS, st.sampled_from(["int8", "float32", "S1"])) | st.just(NoneSpec())
SPECS = st.recursive(LEAF_SPECS, nests_of_specs, max_leaves=3)


@settings(derandomize=True, deadline=None)
@given(spec=SPECS)
def test_merging_with_itself_changes_nothing(spec: Any) -> None:
    assert merge(spec, spec) == spec


@settings(derandomize=True, deadline=None)
@given(first=SPECS, second=SPECS)
def test_merging_is_symmetric(first: Any, second: Any) -> None:
    try:
        merged = merge(first, second)
    except SpecMismatch:
        with pytest.raises(SpecMismatch):
            merge(second, first)
    else:
        assert merge(second, first) == merged
        assert merge(merged, first) == merged


@pytest.mark.parametrize("first, second, merged", [
    ((2, 3), (2, 4), (2, None)), ((2,), (2, 1), None), ((None,), (2,), (None,)), (None, (2,), None),
])  # fmt: skip
def test_merged_shapes_know_what_both_know(first: Any, second: Any, merged: Any) -> None:
    assert merge(TensorSpec(first, "i1"), TensorSpec(second, "i1")) == TensorSpec(merged, "i1")


def test_merging_goes_by_key() -> None:
    first = {"a": TensorSpec((1,), "i1"), "b": TensorSpec((2,), "f4")}
    second = {"b": TensorSpec((3,), "f4"), "a": TensorSpec((1,), "i1")}
    assert merge(first, second) == {"a": TensorSpec((1,), "i1"), "b": TensorSpec((None,), "f4")}


def test_merging_with_what_is_unseen_is_unseen() -> None:
    assert merge(UNSEEN, INT) is UNSEEN
    assert merge(INT, UNSEEN) is UNSEEN
    assert merge(DatasetSpec(INT), DatasetSpec(UNSEEN)) == DatasetSpec(UNSEEN)


@pytest.mark.parametrize("first, second, text", [
    (INT, TensorSpec((), "i4"), "expected int64, got int32: dtypes int64 and int32"),
    (INT, (INT,), r"expected int64, got \(int64,\)"),
    ((INT, INT), (INT, NoneSpec()), r"expected \(int64, int64\), got \(int64, None\)"),
    ({"a": INT}, {"b": INT}, "expected {'a': int64}, got {'b': int64}"),
    (TensorSpec((), "i1"), RaggedSpec((2, None), "i1"), "expected int8, got 2×. int8"),
])  # fmt: skip
def test_what_cannot_be_merged_is_named(first: Any, second: Any, text: str) -> None:
    with pytest.raises(SpecMismatch, match=text):
        merge(first, second)


# --- ragged and sparse ---

DEEP = Ragged(Ragged(np.arange(6.0), np.array([0, 2, 4, 6])), np.array([0, 1, 3]))  # 1 and 2 rows of 2
PAIRS = Ragged(np.zeros((3, 2)), np.array([0, 1, 3]))


@pytest.mark.parametrize("leaf, shape, fits", [
    (RAGGED, None, True),
    (RAGGED, (None, None), True),
    (RAGGED, (2, None), True),
    (RAGGED, (3, None), False),
    (RAGGED, (2, 2), False),
    (RAGGED, (None, None, None), False),
    (RAGGED, (None,), False),
    (Ragged(np.arange(4.0), np.array([0, 2, 4])), (2, 2), True),
    (PAIRS, (None, None, 2), True),
    (PAIRS, (None, None, None), True),
    (PAIRS, (None, None, 3), False),
    (DEEP, (2, None, 2), True),
    (DEEP, (None, None, 3), False),
    (DEEP, (None, None), False),
])  # fmt: skip
def test_what_a_ragged_spec_holds(leaf: Ragged, shape: Any, fits: bool) -> None:
    assert RaggedSpec(shape, np.float64).holds(leaf) == fits


def test_the_bytes_of_ragged_and_sparse_elements_depend_on_what_is_in_them() -> None:
    assert element_bytes(RaggedSpec((2, 3), np.int32)) is None
    assert element_bytes((INT, SparseSpec((2, 3), np.int32))) is None


def test_more_elements_than_int64_counts_have_no_end() -> None:
    assert Spec(UNSEEN, 2**63 - 1).cardinality == 2**63 - 1
    assert Spec(UNSEEN, 2**63).cardinality == ps.INFINITE
    many = ps.Dataset.range(10**9).repeat(10**12)
    assert many.cardinality() == ps.INFINITE
    assert [int(x) for x in many.skip(3).take(2)] == [3, 4]
    with pytest.raises(ValueError, match="cannot shuffle an infinite dataset as a whole"):
        many.shuffle()
