"""Arrays as a source: aliased and never converted as a whole, whatever they are."""

import collections
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas
import polars
import pytest
import torch
import zarr

import penstock as ps
from penstock.testing import check_source

D = ps.Dataset
Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Example:
    image: Any
    label: Any


def rows() -> np.ndarray:
    return np.arange(60, dtype=np.float32).reshape(20, 3)


# --- zero copy ---


def memmap(tmp_path: Path) -> np.ndarray:
    array = np.lib.format.open_memmap(tmp_path / "rows.npy", mode="w+", dtype=np.float32, shape=(20, 3))
    array[:] = rows()
    return array


def read_only_memmap(tmp_path: Path) -> np.ndarray:
    np.save(tmp_path / "rows.npy", rows())
    return np.load(tmp_path / "rows.npy", mmap_mode="r")


ARRAYS: dict[str, Callable[[Path], np.ndarray]] = {
    "array": lambda path: rows(),
    "transposed": lambda path: np.ascontiguousarray(rows().T).T,
    "every second": lambda path: np.repeat(rows(), 2, axis=0)[::2],
    "backwards": lambda path: rows()[::-1],
    "memmap": memmap,
    "read-only memmap": read_only_memmap,
}


@pytest.mark.parametrize("make", ARRAYS.values(), ids=ARRAYS)
def test_neighbours_are_read_only_views_of_the_users_memory(make: Callable[[Path], np.ndarray], tmp_path: Path) -> None:
    array = make(tmp_path)
    for dataset, expected in ((D.from_tensor_slices(array), list(array)), (D.from_tensor_slices(array).batch(8), None)):
        found = list(dataset)
        for x in found:
            assert type(x) is np.ndarray
            assert np.shares_memory(x, array)
            assert not x.flags.writeable
        np.testing.assert_array_equal(np.concatenate([np.atleast_2d(x) for x in found]), array)
        assert expected is None or len(found) == len(expected)


@pytest.mark.parametrize("make", ARRAYS.values(), ids=ARRAYS)
@pytest.mark.parametrize("width", [3, 300])
def test_scattered_rows_are_gathered_into_memory_of_their_own(make: Any, width: int, tmp_path: Path) -> None:
    array = np.tile(make(tmp_path), (1, width // 3))
    found = list(D.from_tensor_slices(array).shuffle(seed=1).batch(8))
    for x in found:
        assert not np.shares_memory(x, array)
        assert x.flags.writeable
    joined = np.concatenate(found)
    np.testing.assert_array_equal(joined[np.argsort(joined[:, 0])], np.array(sorted(array.tolist()), np.float32))


def test_the_users_array_is_not_made_read_only() -> None:
    array = rows()
    list(D.from_tensor_slices(array).batch(4))
    list(D.from_tensors(array))
    array[0] = 1
    assert array.flags.writeable


def test_later_changes_show() -> None:
    array = rows()
    dataset = D.from_tensor_slices(array).batch(20)
    array[3] = -1
    (batch,) = dataset
    assert (batch[3] == -1).all()
    array[4] = -2
    assert (batch[4] == -2).all()
    (shuffled,) = D.from_tensor_slices(array).shuffle(seed=1).batch(20)
    array[:] = 0
    assert (shuffled == -2).any()


@pytest.mark.parametrize(
    "dtype", ["?", "u1", "i2", "f2", "f4", "f8", "c16", "M8[s]", "m8[ms]", ">i4", [("a", "i4"), ("b", "f8")]]
)
@pytest.mark.parametrize("width", [0, 1, 7, 600])
def test_dtypes_and_shapes_are_kept(dtype: Any, width: int) -> None:
    array = np.arange(10 * width).reshape(10, width).astype("i4").astype(dtype) if dtype != [("a", "i4"), ("b", "f8")] \
        else np.zeros((10, width), dtype)  # fmt: skip
    for dataset in (D.from_tensor_slices(array).batch(4), D.from_tensor_slices(array).shuffle(seed=3).batch(4)):
        found = np.concatenate(list(dataset))
        assert found.dtype == array.dtype or found.dtype.newbyteorder("=") == array.dtype.newbyteorder("=")
        assert sorted(x.tobytes() for x in found.astype(array.dtype)) == sorted(x.tobytes() for x in array)
        assert dataset.element_spec == ps.TensorSpec((None, width), array.dtype)


def test_scalars_of_a_flat_array_are_numpy_scalars() -> None:
    found = list(D.from_tensor_slices(np.arange(3, dtype=np.uint8)))
    assert [type(x) for x in found] == [np.uint8] * 3


def test_an_empty_array_gives_nothing() -> None:
    dataset = D.from_tensor_slices(np.zeros((0, 3)))
    assert (list(dataset), list(dataset.shuffle()), list(dataset.batch(2)), len(dataset)) == ([], [], [], 0)


# --- what NumPy can alias ---


class Interface:
    """An object with nothing but `__array_interface__`."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self.__array_interface__ = array.__array_interface__


class OnlyDlpack:
    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self._array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


class OnlyArray:
    """An object with nothing but `__array__`."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self._array


@pytest.mark.parametrize("wrap", [Interface, OnlyDlpack, OnlyArray, torch.from_numpy])
def test_objects_that_lend_their_memory_are_aliased(wrap: Callable[[Any], Any]) -> None:
    array = rows()
    (batch,) = D.from_tensor_slices(wrap(array)).batch(20)
    assert np.shares_memory(batch, array)
    assert not batch.flags.writeable
    np.testing.assert_array_equal(batch, array)


def test_torch_tensors_of_other_kinds_are_read() -> None:
    wants_gradient = torch.arange(6.0).reshape(3, 2).requires_grad_()
    (batch,) = D.from_tensor_slices(wants_gradient.detach()).batch(3)
    assert batch.tolist() == [[0, 1], [2, 3], [4, 5]]
    (batch,) = D.from_tensor_slices((torch.arange(3)[::1], torch.ones(3, dtype=torch.bool))).batch(3)
    assert (batch[0].tolist(), batch[1].dtype) == ([0, 1, 2], bool)


# --- what is read in slices ---


class Lazy:
    """An array on disk, so to speak: it may be sliced, remembers how, and must never be asked for the whole."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self.shape, self.dtype = array.shape, array.dtype
        self.slices: list[slice] = []

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, part: Any) -> np.ndarray:
        assert isinstance(part, slice), f"asked for {part!r}"
        assert part.step in (None, 1)
        assert 0 <= part.start < part.stop <= len(self._array)
        self.slices.append(part)
        return self._array[part].copy()

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise AssertionError("converted as a whole")

    def __iter__(self) -> Any:
        raise AssertionError("iterated as a whole")

    @property
    def num_read(self) -> int:
        return sum(part.stop - part.start for part in self.slices)


def test_a_lazy_array_is_read_by_the_batch_and_only_as_far_as_asked() -> None:
    lazy = Lazy(np.arange(1000))
    dataset = D.from_tensor_slices(lazy).batch(10)
    assert (len(dataset), dataset.element_spec) == (100, ps.TensorSpec((None,), np.int64))
    assert lazy.slices == []
    with dataset.run() as run:
        assert [next(run).tolist() for _ in range(3)] == [list(range(i, i + 10)) for i in (0, 10, 20)]
        assert lazy.num_read <= 160
        assert max(part.stop - part.start for part in lazy.slices) <= 10


def test_a_shuffled_lazy_array_is_read_in_rising_runs_of_neighbours() -> None:
    lazy = Lazy(np.arange(50) * 10)
    found = [batch.tolist() for batch in D.from_tensor_slices(lazy).shuffle(seed=1).batch(10).run()]
    assert sorted(x for batch in found for x in batch) == [i * 10 for i in range(50)]
    assert lazy.num_read == 50  # nothing is read for nothing
    plain = [batch.tolist() for batch in D.from_tensor_slices(np.arange(50) * 10).shuffle(seed=1).batch(10).run()]
    assert found == plain
    starts, at = [part.start for part in lazy.slices], 0
    for batch in found:
        runs = sum(1 for a, b in zip([-2, *sorted(batch)], sorted(batch), strict=False) if b != a + 10)
        assert starts[at : at + runs] == sorted(starts[at : at + runs])
        at += runs
    assert at == len(starts)


def test_lazy_and_plain_arrays_side_by_side() -> None:
    lazy = Lazy(np.arange(40).reshape(20, 2))
    dataset = D.from_tensor_slices({"lazy": lazy, "plain": np.arange(20)}).shuffle(7, seed=2).batch(6)
    for batch in dataset:
        np.testing.assert_array_equal(batch["lazy"][:, 0], batch["plain"] * 2)


def test_rows_that_cannot_be_read_fail_in_their_places() -> None:
    class Damaged(Lazy):
        def __getitem__(self, part: Any) -> np.ndarray:
            if part.start <= 3 < part.stop:
                raise OSError("row 3 cannot be read")
            return super().__getitem__(part)

    found = []
    with D.from_tensor_slices(Damaged(np.arange(6))).run() as run:
        while True:
            try:
                found.append(int(next(run)))
            except OSError as error:
                found.append(str(error))  # type: ignore[arg-type]
            except StopIteration:
                break
    assert found == [0, 1, 2, "row 3 cannot be read", 4, 5]


def hdf5(path: Path, array: np.ndarray) -> Any:
    return h5py.File(path / "rows.h5", "w").create_dataset("rows", data=array, chunks=(4, *array.shape[1:]))


def zarr_array(path: Path, array: np.ndarray) -> Any:
    stored = zarr.create_array(
        str(path / "rows.zarr"), shape=array.shape, dtype=array.dtype, chunks=(4, *array.shape[1:])
    )
    stored[:] = array
    return stored


@pytest.mark.parametrize("store", [hdf5, zarr_array])
@pytest.mark.parametrize("array", [rows(), np.arange(20, dtype=np.uint8)])
def test_stores_on_disk_give_what_arrays_give(store: Any, array: np.ndarray, tmp_path: Path) -> None:
    stored = store(tmp_path, array)
    for build in (
        lambda source: D.from_tensor_slices(source).batch(7),
        lambda source: D.from_tensor_slices((source, np.arange(20))).shuffle(seed=4).batch(7),
        lambda source: D.from_tensor_slices(source).shuffle(5, seed=4).repeat(2).shard(3, 1),
    ):
        assert repr(list(build(stored))) == repr(list(build(array)))
        assert build(stored).element_spec == build(array).element_spec


def test_strings_in_hdf5_are_bytes(tmp_path: Path) -> None:
    stored = h5py.File(tmp_path / "names.h5", "w").create_dataset(
        "names", data=["a", "bc", "é"], dtype=h5py.string_dtype()
    )
    assert list(D.from_tensor_slices(stored)) == [b"a", b"bc", "é".encode()]
    assert D.from_tensor_slices(stored).element_spec == ps.TensorSpec((), ps.string)


def test_what_is_read_from_a_store_is_on_the_ledger() -> None:
    lazy = Lazy(np.zeros((1000, 1000)))
    with D.from_tensor_slices(lazy).shuffle(seed=1).batch(100).run() as run:
        next(run)
        assert run.ledger.peak_bytes >= 800_000


# --- lists, nests and strings ---


@pytest.mark.parametrize("given, expected", [
    ([1, 2, 3], [1, 2, 3]),
    ([[1, 2], [3, 4]], [[1, 2], [3, 4]]),
    (["a", "bc"], [b"a", b"bc"]),
    ([b"a\0", b"\0"], [b"a\0", b"\0"]),
    (np.array(["é", "bc"]), ["é".encode(), b"bc"]),
    (np.array([b"a", b"bc"]), [b"a", b"bc"]),
    (np.array(["a", b"bc"], object), [b"a", b"bc"]),
    (np.array(["a", "bc"], dtype=np.dtypes.StringDType()), [b"a", b"bc"]),
    (range(3), [0, 1, 2]),
    ([True, False], [True, False]),
])  # fmt: skip
@pytest.mark.parametrize("shuffled", [True, False])
def test_lists_and_strings(given: Any, expected: list[Any], shuffled: bool) -> None:
    dataset = D.from_tensor_slices(given)
    found = list(dataset.shuffle(seed=1) if shuffled else dataset)
    plain = [x.tolist() if isinstance(x, (np.ndarray, np.generic)) else x for x in found]
    assert (sorted(plain) if shuffled else plain) == (sorted(expected) if shuffled else expected)
    (batch,) = dataset.batch(10)
    assert batch.tolist() == expected
    assert batch.dtype == (object if isinstance(expected[0], bytes) else np.asarray(given).dtype)


def test_columns_of_a_pandas_table() -> None:
    """Text in them is there as an array of objects only when it is asked for."""
    table = pandas.DataFrame({"age": [22, 38], "sex": ["male", "female"], "class": ["Third", "First"]})
    table["class"] = table["class"].astype("category")
    assert list(D.from_tensor_slices(dict(table))) == [
        {"age": 22, "sex": b"male", "class": b"Third"},
        {"age": 38, "sex": b"female", "class": b"First"},
    ]
    for values in (table["sex"], polars.Series(["male", "female"])):
        assert list(D.from_tensor_slices(values)) == [b"male", b"female"]


@pytest.mark.parametrize("nest", [
    lambda x, y: (x, y),
    lambda x, y: {"x": x, "y": (y,)},
    lambda x, y: Pair(x, {"y": y}),
    lambda x, y: Example(x, y),
    lambda x, y: (x, Example(x, Pair(x, y))),
    lambda x, y: collections.OrderedDict(b=x, a=y),
])  # fmt: skip
def test_nests_of_every_kind_are_sliced_together(nest: Callable[[Any, Any], Any]) -> None:
    x, y = rows(), np.arange(20)
    dataset = D.from_tensor_slices(nest(x, y))
    for i, element in enumerate(dataset):
        assert type(element) is type(nest(0, 0))
        assert repr(element) == repr(nest(x[i], y[i]))
    (batch,) = dataset.batch(20)
    assert repr(batch) == repr(nest(x, y))
    check_source(dataset)


def test_rows_of_unequal_length() -> None:
    ragged = ps.Ragged(np.arange(6), np.array([0, 2, 2, 6]))
    dataset = D.from_tensor_slices((ragged, np.arange(3)))
    assert [(x.tolist(), int(i)) for x, i in dataset] == [([0, 1], 0), ([], 1), ([2, 3, 4, 5], 2)]
    assert sorted(len(x) for x, _ in dataset.shuffle(seed=1)) == [0, 2, 4]
    assert dataset.element_spec == (ps.TensorSpec((None,), np.int64), ps.TensorSpec((), np.int64))
    check_source(dataset)


@pytest.mark.parametrize("tensors, kind, text", [
    ((np.zeros(3), np.zeros(4)), ValueError, "equal first dimensions, got .*3, 4"),
    ({"a": np.zeros(3), "b": [1, 2]}, ValueError, "equal first dimensions, got .*3.*2"),
    (np.float64(3), ValueError, "got a scalar"),
    ("text", ValueError, "got a scalar"),
    (None, TypeError, "got None; leave it out"),
    ((np.zeros(3), 5), ValueError, "got a scalar: 5"),
    ([[1], [2, 3]], TypeError, "expected something that NumPy can hold"),
    (np.array([1, None]), TypeError, "object array holding NoneType, int"),
    ((), TypeError, "at least one array"),
    ({}, TypeError, "at least one array"),
    (D.range(3), TypeError, "got a dataset"),
    (ps.Sparse(np.zeros((0, 1), int), np.zeros(0), np.array([3])), TypeError, "to_dense"),
    (object(), TypeError, "expected numbers, strings or arrays"),
    ((i for i in range(3)), TypeError, r"got generator .* one after the other: use from_generator\(lambda: …\)"),
    ((np.zeros(3), iter([1, 2, 3])), TypeError, "got list_iterator .*use from_generator"),
    (pandas.Series(["a", None]), TypeError, "object array holding .*str"),
])  # fmt: skip
def test_what_cannot_be_sliced_is_refused_with_the_users_line(tensors: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=rf"from_tensor_slices at test_arrays\.py:\d+: .*{text}"):
        D.from_tensor_slices(tensors)


# --- one element ---


def test_from_tensors_gives_the_whole_as_it_is() -> None:
    array = rows()
    ((x, name),) = D.from_tensors((array, "text"))
    assert np.shares_memory(x, array)
    assert not x.flags.writeable
    assert name == b"text"
    assert len(D.from_tensors(array)) == 1
    assert D.from_tensors((array, 1)).element_spec == (ps.TensorSpec((20, 3), np.float32), ps.TensorSpec((), np.int64))
    assert len(list(D.from_tensors(array).repeat(3))) == 3


def test_from_tensors_refuses_what_holds_nothing() -> None:
    with pytest.raises(TypeError, match=r"from_tensors at test_arrays\.py:\d+: .* must hold something"):
        D.from_tensors(())
