"""Rows that are made as they are read, of stores and of text: on the ledger, and never more than there is room for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr

import penstock as ps
from penstock import Dataset as D

COUNT, WIDTH = 400, 25_000
NUMBERS = (np.arange(COUNT * WIDTH) % 251).astype(np.uint8).reshape(COUNT, WIDTH)
TEXT = np.array([b"%05d" % i + b"x" * (i % 995) for i in range(2000)], "S1000")


class Store:
    """Numbers that are copied when they are sliced; remembers the largest part, and what is alive of all of them."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self.shape, self.dtype = array.shape, array.dtype
        self.most_bytes = 0
        self.parts: list[tuple[int, int]] = []

    def __getitem__(self, part: slice) -> np.ndarray:
        found = self._array[part].copy()
        self.most_bytes = max(self.most_bytes, found.nbytes)
        self.parts.append((part.start, part.stop))
        return found


ORDERS: dict[str, Callable[[Any], Any]] = {
    "in order": lambda d: d,
    "shuffled": lambda d: d.shuffle(seed=1),
    "neighbours in another order": lambda d: d.shuffle(2, seed=1),
    "some twice": lambda d: d.take(50).repeat(3).shuffle(8, seed=1),
    "every third": lambda d: d.shard(3, 1),
}


def total(x: Any) -> Any:
    return x.astype(np.int64).sum()


@pytest.mark.parametrize("memory", ["1MB", "4MB"])
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_a_read_is_limited_by_the_budget_and_on_the_ledger(order: Callable[[Any], Any], memory: str) -> None:
    store = Store(NUMBERS)
    with order(D.from_tensor_slices(store)).map(total).batch(COUNT).run(memory=memory) as run:
        (found,) = run
        assert run.ledger.peak_bytes >= 2 * store.most_bytes  # as the store gives them, and in their slot
        assert run.ledger.peak_bytes <= run.ledger.budget_bytes
    (expected,) = order(D.from_tensor_slices(NUMBERS)).map(total).batch(COUNT)
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_what_there_is_room_for_is_read_at_once(order: Callable[[Any], Any]) -> None:
    store = Store(np.arange(60) * 10)
    found = list(order(D.from_tensor_slices(store)).batch(16))
    assert repr(found) == repr(list(order(D.from_tensor_slices(np.arange(60) * 10)).batch(16)))
    if order is ORDERS["in order"]:
        assert store.parts == [(0, 16), (16, 32), (32, 48), (48, 60)]


def h5(path: Path, array: np.ndarray) -> Any:
    return h5py.File(path / "rows.h5", "w").create_dataset("rows", data=array)


def zarr_array(path: Path, array: np.ndarray) -> Any:
    stored = zarr.create_array(str(path / "rows.zarr"), shape=array.shape, dtype=array.dtype, chunks=(4, WIDTH))
    stored[:] = array
    return stored


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("make", [h5, zarr_array, lambda path, array: Store(array)], ids=["h5py", "zarr", "a store"])
def test_the_minimum_of_a_store_is_enough(make: Any, order: Callable[[Any], Any], tmp_path: Path) -> None:
    rows = NUMBERS[:24]
    stored = make(tmp_path, rows)
    for build in (lambda d: d, lambda d: d.map(total), lambda d: d.batch(4), lambda d: d.filter(np.any).shuffle(3, 1)):
        dataset = build(order(D.from_tensor_slices((stored, np.arange(len(rows))))).map(lambda x, i: x))
        minimum = dataset.explain(sample=100).to_dict()["minimum_bytes"]
        assert minimum >= WIDTH
        with dataset.run(memory=minimum) as run:
            found = [repr(element) for element in run]
            assert run.ledger.peak_bytes <= minimum
        assert found == [repr(element) for element in build(order(D.from_tensor_slices(rows)))]


@pytest.mark.parametrize("width", [3, 60_000, 200_000])
def test_rows_of_any_size_come_out_of_hdf5(width: int, tmp_path: Path) -> None:
    """Large ones are read to their place, small ones by way of a copy."""
    rows = np.random.default_rng(1).integers(0, 255, (30, width), np.uint8)
    stored = h5(tmp_path, rows)
    for order in ORDERS.values():
        for memory in ("1MB", "64MB"):
            with order(D.from_tensor_slices(stored)).run(memory=memory) as run:
                found = [x.tobytes() for x in run]
            assert found == [x.tobytes() for x in order(D.from_tensor_slices(rows))]


def test_a_store_that_gives_another_type_than_it_says_is_refused() -> None:
    store = Store(np.arange(4.0))
    store.dtype = np.dtype(np.int16)
    with D.from_tensor_slices(store).run() as run, pytest.raises(ps.errors.SpecMismatch, match="expected int16, as St"):
        next(run)


def test_rows_that_cannot_be_read_fail_in_their_places_in_any_order() -> None:
    class Damaged(Store):
        def __getitem__(self, part: slice) -> np.ndarray:
            if any(part.start <= i < part.stop for i in (3, 40, 41, 42, 59)):
                raise OSError("cannot be read")
            return super().__getitem__(part)

    store = Damaged(np.arange(60))
    for order in ORDERS.values():
        good = [int(x) for x in order(D.from_tensor_slices(np.arange(60))) if x not in (3, 40, 41, 42, 59)]
        assert [int(x) for x in order(D.from_tensor_slices(store)).ignore_errors()] == good
    with D.from_tensor_slices(store).skip(3).run() as run, pytest.raises(OSError) as caught:
        next(run)
    assert any("element 3" in note for note in caught.value.__notes__)


# --- text ---

TEXTS: dict[str, Any] = {
    "bytes": TEXT,
    "text": TEXT.astype("U1000"),
    "text of any length": TEXT.astype("U1000").astype(np.dtypes.StringDType()),
    "several in a row": TEXT.reshape(1000, 2),
    "every second": TEXT[::2],
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_strings_are_on_the_ledger(text: np.ndarray, order: Callable[[Any], Any]) -> None:
    def check(x: Any) -> Any:
        nonlocal held
        held = max(held, run.ledger.charged_bytes)
        return np.int64(len(x) if type(x) is bytes else sum(map(len, x.tolist())))

    held = 0
    with order(D.from_tensor_slices(text)).map(check).batch(len(text)).run(memory="600KB") as run:
        (found,) = run
        assert 2_000 < held <= run.ledger.peak_bytes <= 600_000
    (expected,) = order(D.from_tensor_slices(text.astype(object))).map(check).batch(len(text)).run()
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_minimum_of_strings_is_enough(text: np.ndarray) -> None:
    expected = [np.asarray(row).astype(object).tolist() for row in text[:50].astype("S1000")]
    orders = [lambda d: d, lambda d: d.shuffle(seed=1, reshuffle_each_iteration=False)]
    for build in (*orders, lambda d: d.batch(3), lambda d: d.batch(3).unbatch()):
        dataset = build(D.from_tensor_slices(text[:50]))
        plan = dataset.explain(sample=100).to_dict()
        assert plan["complete"]
        with dataset.run(memory=plan["minimum_bytes"]) as run:
            found = list(run)
            assert run.ledger.peak_bytes <= plan["minimum_bytes"]
        assert repr(found) == repr(list(dataset.run()))
    assert [x if type(x) is bytes else x.tolist() for x in D.from_tensor_slices(text[:50])] == expected


def test_batches_of_strings_are_no_views_of_the_users_array() -> None:
    plan = D.from_tensor_slices(TEXT).batch(100).explain(sample=200).to_dict()
    assert plan["minimum_bytes"] >= 100 * 500


def test_strings_of_any_length_in_a_store(tmp_path: Path) -> None:
    lengths = [1, 2, 1, 3, 100_000, 2, 50_000, 1] * 20
    stored = h5py.File(tmp_path / "text.h5", "w").create_dataset("text", (160,), h5py.string_dtype())
    for i, length in enumerate(lengths):
        stored[i] = "é" * length
    for order in ORDERS.values():
        with order(D.from_tensor_slices((stored, np.arange(160)))).run(memory="3MB") as run:
            for text, i in run:
                assert text == ("é" * lengths[i]).encode()
            assert run.ledger.peak_bytes >= 200_000


def test_arrays_of_any_length_in_a_store(tmp_path: Path) -> None:
    stored = h5py.File(tmp_path / "lists.h5", "w").create_dataset("lists", (9,), h5py.vlen_dtype(np.int32))
    for i in range(9):
        stored[i] = np.arange(i + 1)
    assert [x.tolist() for x in D.from_tensor_slices(stored)] == [list(range(i + 1)) for i in range(9)]


def test_text_that_cannot_be_encoded_fails_in_its_place() -> None:
    text = np.array(["a", "b", "\ud800", "d"])
    assert list(D.from_tensor_slices(text).ignore_errors()) == [b"a", b"b", b"d"]


# --- in datasets that functions make ---


@pytest.mark.parametrize("make", [lambda: Store(NUMBERS[:60]), lambda: TEXT[:600]], ids=["a store", "strings"])
def test_datasets_of_them_that_functions_return(make: Callable[[], Any]) -> None:
    source = make()
    inner = D.from_tensor_slices(source)
    expected = [repr(x) for _ in range(3) for x in inner]
    for build in (lambda d: d, lambda d: d.batch(7).unbatch(), lambda d: d.repeat(1)):
        with D.range(3).flat_map(lambda i, b=build: b(inner)).run(memory="1MB") as run:
            assert [repr(x) for x in run] == expected
            assert run.ledger.peak_bytes <= 1_000_000
    found = D.range(3).interleave(lambda i: inner, cycle_length=3).run(memory="2MB")
    assert sorted(map(repr, found)) == sorted(expected)


def test_positions_in_a_store_are_exact_where_blocks_are_short() -> None:
    dataset = D.from_tensor_slices(Store(NUMBERS[:40])).map(total)
    expected = list(dataset)
    with dataset.run(memory="300KB") as run:
        for i in range(40):
            assert next(run) == expected[i]
            with dataset.run(memory="300KB") as resumed:
                resumed.load_state_dict(run.state_dict())
                assert list(resumed) == expected[i + 1 :]
