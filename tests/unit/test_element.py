"""Elements: what becomes of what users give, and nests taken apart and put together."""

import collections
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.element import LEAF, Failed, Structure, detach, nbytes_of, normalize
from penstock.errors import BadType
from penstock.leaf import Ragged, Sparse, as_leaf, dtype_of, is_dataset, leaf_bytes, shape_of, string


class Pair(NamedTuple):
    first: Any
    second: Any


class Tensor:
    """A framework's tensor: it lends its memory through DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class Refusing(Tensor):
    """A tensor that will not lend its memory (it wants its gradient, or its dtype is unknown to DLPack)."""

    def __dlpack__(self, **kwargs: Any) -> Any:
        raise BufferError("not exportable")

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.array.copy()


@dataclasses.dataclass
class Example:
    image: Any
    label: Any


@pytest.mark.parametrize("value, expected", [
    (True, np.bool_(True)),
    (3, np.int64(3)),
    (-(2**63), np.int64(-(2**63))),
    (2**63, np.uint64(2**63)),
    (2.5, np.float64(2.5)),
    (1j, np.complex128(1j)),
    ("é", "é".encode()),
    (b"x", b"x"),
    (np.str_("a"), b"a"),
    (np.bytes_(b"a"), b"a"),
    (np.float16(2), np.float16(2)),
    (np.array(7, np.uint8), np.uint8(7)),
    (np.array("text"), b"text"),
])  # fmt: skip
def test_scalars_become_numpy_scalars_or_bytes(value: Any, expected: Any) -> None:
    leaf = as_leaf(value)
    assert type(leaf) is type(expected)
    assert leaf == expected


@pytest.mark.parametrize("value, dtype, items", [
    ([1, 2], np.int64, [1, 2]),
    ([[1.0], [2.0]], np.float64, [[1.0], [2.0]]),
    (["a", "bc"], object, [b"a", b"bc"]),
    ([b"a", b"\0\0"], object, [b"a", b"\0\0"]),
    (np.array(["é", ""]), object, ["é".encode(), b""]),
    (np.array([b"a", b"bc"]), object, [b"a", b"bc"]),
    (np.array(["a", b"b"], object), object, [b"a", b"b"]),
    (np.array([np.str_("a")], object), object, [b"a"]),
    (range(3), np.int64, [0, 1, 2]),
    (Tensor(np.array([1, 2], np.int16)), np.int16, [1, 2]),
    (Refusing(np.array([1, 2], np.int16)), np.int16, [1, 2]),
    (np.ma.masked_array([1, 2]), np.int64, [1, 2]),
    ([], np.float64, []),
])  # fmt: skip
def test_what_numpy_can_hold_becomes_a_plain_array(value: Any, dtype: Any, items: list[Any]) -> None:
    leaf = as_leaf(value)
    assert type(leaf) is np.ndarray
    assert leaf.dtype == dtype
    assert leaf.tolist() == items


def test_arrays_and_tensors_are_aliased() -> None:
    array = np.zeros(3)
    assert as_leaf(array) is array
    assert np.shares_memory(as_leaf(Tensor(array)), array)


def test_what_is_a_leaf_already_stays_as_it_is() -> None:
    ragged = Ragged(np.arange(2), np.array([0, 2]))
    sparse = Sparse(np.zeros((1, 1), np.int64), np.ones(1), np.array([2]))
    dataset = ps.Dataset.range(3)
    for leaf in (ragged, sparse, dataset, None, np.float32(1), b"x"):
        assert as_leaf(leaf) is leaf


@pytest.mark.parametrize("value", [
    object(), {1, 2}, [[1], [2, 3]], np.array([1, None], object), np.array([[1], "a"], object), len,
])  # fmt: skip
def test_what_numpy_cannot_hold_is_refused_by_type(value: Any) -> None:
    with pytest.raises(ps.errors.BadType, match=r"expected .* got"):
        as_leaf(value)


def test_a_refusal_shows_little_of_a_large_value() -> None:
    with pytest.raises(TypeError) as caught:
        as_leaf([[0] * 1000, [0]])
    assert len(str(caught.value)) < 300


def test_lists_are_arrays_and_other_nests_are_structure() -> None:
    element = normalize(([1, 2], {"a": 1, "b": ("x", [True])}, Pair(1, 2.0), Example(None, [[1]])))
    assert (
        str(Structure.of(element)) == "(·, {'a': ·, 'b': (·, ·)}, Pair(first=·, second=·), Example(image=·, label=·))"
    )
    assert element[0].tolist() == [1, 2]
    assert type(element[1]["a"]) is np.int64
    assert element[1]["b"][0] == b"x"
    assert type(element[2]) is Pair
    assert type(element[2].second) is np.float64
    assert type(element[3]) is Example
    assert element[3].image is None
    assert element[3].label.shape == (1, 1)


@pytest.mark.parametrize("nest", [
    collections.OrderedDict([("b", 1), ("a", 2)]),
    collections.defaultdict(int, {"b": 1}),
])  # fmt: skip
def test_kinds_of_dict_are_kept(nest: Any) -> None:
    element = normalize(nest)
    assert type(element) is type(nest)
    assert element == nest
    assert list(element) == list(nest)


LEAVES = st.integers(-5, 5).map(np.int64) | st.just(b"x") | st.none()


def nests_of(inner: Any) -> Any:
    keys = st.sampled_from("abc") | st.integers(0, 2)
    tuples, dicts = st.lists(inner, max_size=3).map(tuple), st.dictionaries(keys, inner, max_size=3)
    return tuples | dicts | st.builds(Pair, inner, inner) | st.builds(Example, inner, inner)


NESTS = st.recursive(LEAVES, nests_of, max_leaves=8)


@settings(derandomize=True, deadline=None)
@given(nest=NESTS)
def test_flatten_and_unflatten_are_inverse(nest: Any) -> None:
    structure = Structure.of(nest)
    leaves = structure.flatten(nest)
    assert len(leaves) == structure.num_leaves
    assert structure.unflatten(leaves) == nest
    assert structure.unflatten(iter(leaves)) == nest
    assert structure.map(lambda leaf: leaf, nest) == nest
    assert Structure.of(structure.unflatten([None] * len(leaves))) == structure
    assert hash(Structure.of(nest)) == hash(structure)
    assert normalize(nest) == nest


@settings(derandomize=True, deadline=None)
@given(first=NESTS, second=NESTS)
def test_flatten_refuses_exactly_what_has_another_structure(first: Any, second: Any) -> None:
    structure = Structure.of(first)
    if Structure.of(second) == structure:
        assert len(structure.flatten(second)) == structure.num_leaves
    else:
        with pytest.raises(ps.errors.SpecMismatch, match=r"expected .* got"):
            structure.flatten(second)


def test_dicts_are_equal_whatever_the_order_of_their_keys() -> None:
    structure = Structure.of({"a": 1, "b": (2, 3)})
    other = {"b": (20, 30), "a": 10}
    assert structure == Structure.of(other)
    assert structure.flatten(other) == [10, 20, 30]
    assert list(structure.unflatten([1, 2, 3])) == ["a", "b"]


def test_a_mismatch_names_both_sides() -> None:
    with pytest.raises(ps.errors.SpecMismatch, match=r"expected \{'a': ·\}, got \{'b': ·, 'c': ·\}"):
        Structure.of((1, {"a": 1})).flatten((1, {"b": 1, "c": 2}))
    with pytest.raises(ps.errors.SpecMismatch, match=r"expected ·, got \(·,\)"):
        LEAF.flatten((1,))


def test_the_commonest_nests_are_known() -> None:
    assert LEAF.is_leaf
    assert not LEAF.is_flat_tuple
    assert Structure.of((1, 2)).is_flat_tuple
    assert not Structure.of((1, (2,))).is_flat_tuple
    assert not Structure.of(Pair(1, 2)).is_flat_tuple
    assert not Structure.of({"a": 1}).is_flat_tuple


def test_ragged_rows() -> None:
    ragged = Ragged(np.arange(5), np.array([0, 2, 2, 5]))
    assert len(ragged) == 3
    assert ragged.to_list() == [[0, 1], [], [2, 3, 4]]
    assert ragged[-1].tolist() == [2, 3, 4]
    assert ragged.shape == (3, None)
    assert ragged.dtype == np.int64
    assert ragged.nbytes == 5 * 8 + 4 * 8
    for row in (3, -4):
        with pytest.raises(IndexError, match=f"row {row} of a Ragged with 3 rows"):
            ragged[row]


def test_ragged_rows_of_ragged_rows() -> None:
    inner = Ragged(np.arange(6), np.array([0, 1, 3, 3, 6]))
    outer = Ragged(inner, np.array([0, 1, 1, 4]))
    assert outer.to_list() == [[[0]], [], [[1, 2], [], [3, 4, 5]]]
    assert outer[2].to_list() == [[1, 2], [], [3, 4, 5]]
    assert outer[2].row_splits.tolist() == [0, 2, 2, 5]
    assert outer.shape == (3, None, None)


def test_sparse_to_dense() -> None:
    sparse = Sparse(np.array([[0, 1], [2, 0]]), np.array([5, 6], np.int8), np.array([3, 2]))
    assert sparse.to_dense().tolist() == [[0, 5], [0, 0], [6, 0]]
    assert sparse.to_dense(-1).tolist() == [[-1, 5], [-1, -1], [6, -1]]
    assert sparse.to_dense().dtype == np.int8
    for outside in ([0, -1], [3, 0]):
        with pytest.raises(IndexError):
            ps.Sparse(np.array([outside]), np.array([5]), np.array([3, 2])).to_dense()
    assert (sparse.shape, sparse.dtype, sparse.nbytes) == ((3, 2), np.int8, 4 * 8 + 2 + 2 * 8)


def test_bytes_of_elements() -> None:
    assert nbytes_of(np.zeros((3, 2), np.float32)) == 24
    assert nbytes_of((np.zeros(3), {"a": np.int16(1)})) == 26
    assert nbytes_of(None) == 0
    assert nbytes_of(Failed(ValueError())) == 0
    # Strings count as what they occupy, not as the pointers to them.
    assert leaf_bytes(b"x" * 1000) > 1000
    assert leaf_bytes(np.array([b"x" * 1000, b"y" * 500], object)) > 1516
    assert nbytes_of(np.array([b"x" * 1000], object)) > 1008


def test_shape_and_dtype_of_leaves() -> None:
    assert (shape_of(b"x"), dtype_of(b"x")) == ((), string)
    assert (shape_of(None), shape_of(np.int8(1)), dtype_of(np.int8(1))) == ((), (), np.int8)


def test_detached_elements_pin_no_larger_buffer() -> None:
    block = np.arange(10.0).reshape(5, 2)
    kept = detach((block[1], {"a": block[2]}))
    assert kept[0].base is None
    assert kept[1]["a"].base is None
    block[:] = 0
    assert (kept[0].tolist(), kept[1]["a"].tolist()) == ([2, 3], [4, 5])


def test_detach_leaves_alone_what_pins_nothing_of_ours() -> None:
    users = np.arange(10.0)
    users.flags.writeable = False
    view, owner = users[2:4], np.zeros(3)
    assert detach(view) is view
    assert detach(owner) is owner
    assert detach(b"x") == b"x"


def test_datasets_mark_themselves() -> None:
    assert is_dataset(ps.Dataset.range(3))
    assert not is_dataset(ps.Dataset)
    assert not is_dataset([1])


def test_failed_shows_its_error() -> None:
    assert repr(Failed(KeyError("a"))) == "Failed(KeyError('a'))"


MASKED = np.ma.array([1, 2, 3], mask=[False, True, False])


@pytest.mark.parametrize(
    "make",
    [
        lambda: ps.Dataset.from_tensor_slices(MASKED),
        lambda: ps.Dataset.from_tensors({"x": MASKED}),
        lambda: list(ps.Dataset.range(2).map(lambda x: MASKED)),
        lambda: list(ps.Dataset.from_generator(lambda: iter([MASKED]))),
    ],
)
def test_masked_values_are_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(BadType, match=r"at test_element.py:.*got a masked one: 1 of its 3 values are masked.*filled"):
        make()


def test_masked_arrays_without_masked_values_are_arrays() -> None:
    whole = np.ma.array([1, 2, 3], mask=[False] * 3)
    assert [int(x) for x in ps.Dataset.from_tensor_slices(whole)] == [1, 2, 3]
    assert type(as_leaf(whole)) is np.ndarray


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict])
def test_elements_share_their_keys(kind: Any) -> None:
    """Keys that are made for each element would be memory that nobody counts."""
    first, second = (normalize(kind([("".join(["ke", "y"]), number), (7, number)])) for number in range(2))
    assert type(first) is kind
    assert list(first) == ["key", 7]
    assert all(a is b for a, b in zip(first, second, strict=True))


def test_ragged_and_sparse_of_lists_and_tuples_are_those_of_arrays() -> None:
    sparse = normalize(ps.Sparse([[0, 1], [1, 2]], [5, 6], (2, 3)))  # type: ignore[arg-type]
    assert sparse.to_dense().tolist() == [[0, 5, 0], [0, 0, 6]]
    assert normalize(ps.Sparse([], [], (2, 3))).to_dense().tolist() == [[0, 0, 0], [0, 0, 0]]  # type: ignore[arg-type]
    ragged = normalize(ps.Ragged(ps.Ragged(["a", "é"], (0, 1, 2)), [0, 2]))  # type: ignore[arg-type]
    assert ragged.to_list() == [[[b"a"], ["é".encode()]]]
    for part in (sparse.indices, sparse.values, sparse.dense_shape, ragged.row_splits, ragged.values.row_splits):
        assert type(part) is np.ndarray


@pytest.mark.parametrize("indices, values", [([[0, 1]], [5]), ([[0]], 5), ([[0], [1]], [5])])
def test_sparse_whose_parts_do_not_fit_is_refused(indices: Any, values: Any) -> None:
    with pytest.raises(ps.errors.BadType, match=r"an index of 1 numbers for each, got values of shape .* and indices"):
        normalize(ps.Sparse(indices, values, (4,)))  # type: ignore[arg-type]
