"""What functions make of memory that is no array's, or that nobody else holds, counts as theirs."""

import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.owned import owned

SIZE = 10_000


def sealed(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def views() -> list[Any]:
    window = np.frombuffer(bytes(SIZE), np.uint8).reshape(100, 100)[:50]
    return [
        window,
        (window, 1),
        {"a": window},
        np.asarray(memoryview(bytes(SIZE))),
        pa.array(np.arange(SIZE)).to_numpy(),
        (pa.array(np.arange(SIZE)).to_numpy()[:50], 1),
        sealed(np.from_dlpack(np.arange(SIZE))),
        sealed(np.arange(SIZE)[:50]),
        tuple(map(sealed, np.array_split(np.arange(SIZE), 2))),
        np.broadcast_to(np.arange(SIZE), (2, SIZE)),
        np.arange(SIZE)[:50],
        np.arange(SIZE).reshape(100, 100)[:, 1:].T,
        (np.arange(SIZE)[:50], 1),
        {"a": (np.arange(SIZE)[::2],)},
        np.array_split(np.arange(SIZE), 3)[0],
        (lambda array: (array[:50], array[10:60]))(np.arange(SIZE)),
        np.frombuffer(bytearray(SIZE), np.uint8)[:50],
        ps.Ragged(np.arange(SIZE)[:8], np.array([0, 3, 8])),
        ps.Ragged(np.frombuffer(bytes(8), np.uint8), np.array([0, 3, 8])),
        ps.Sparse(np.zeros((8, 1), np.int64), np.frombuffer(bytes(8), np.uint8), np.array([8])),
    ]


def arrays_of(element: Any) -> list[np.ndarray]:
    from penstock.element import arrays_in

    return arrays_in(element)


@pytest.mark.parametrize("number", range(len(views())))
def test_views_of_what_nobody_else_holds_are_copied(number: int) -> None:
    element = views()[number]
    result = owned(element)
    assert type(result) is type(element)
    assert all(array.base is None for array in arrays_of(result))
    for a, b in zip(arrays_of(element), arrays_of(result), strict=True):
        np.testing.assert_array_equal(a, b)


def test_other_elements_stay_as_they_are() -> None:
    array = np.arange(10)
    view = array[:5]
    view.flags.writeable = False
    for element in (array, (array, view), b"bytes", np.int64(1), {"a": view, "b": array}):
        assert owned(element) is element


def test_views_that_keep_no_more_alive_than_they_show_stay_as_they_are() -> None:
    for element in (
        np.arange(SIZE).reshape(100, 100).T,
        np.arange(SIZE)[1:],
        tuple(np.array_split(np.arange(SIZE), 3)),
        (lambda array: (array, array[:50]))(np.arange(SIZE)),
    ):
        assert owned(element) is element


def test_views_of_what_the_user_holds_are_not_copied(tmp_path: Path) -> None:
    table, inside = np.arange(SIZE), np.arange(SIZE)[10:]
    np.save(tmp_path / "a.npy", table)
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r+")
    for array in (table, inside, mapped):
        ds = ps.Dataset.range(3).map(lambda i, array=array: (array[i : i + 50], {"a": array[:10]}), stateful=True)
        assert all(np.shares_memory(x, array) and np.shares_memory(y["a"], array) for x, y in ds)


def test_windows_on_what_was_given_stay_where_they_are() -> None:
    column = pa.array(np.arange(SIZE)).to_numpy()
    row = column[:100]
    assert owned(part := row[3:], row) is part
    assert owned(part := row[3:], (np.int64(1), row)) is part
    assert owned(part := row[3:], {"x": (row,)}) is part
    assert owned(part := {"x": row[3:]}, {"x": row}) is part


def test_windows_on_what_was_made_for_the_function_are_copied() -> None:
    for given in (np.arange(SIZE), sealed(np.arange(SIZE)), np.arange(SIZE)[:50]):
        for around in (given, (given, 1), {"x": (given,)}):
            assert owned(sealed(given[:10]), around).base is None
    for given in (np.arange(SIZE), np.arange(SIZE).reshape(100, 100)):
        for around in (given, (given, 1), {"x": (given,)}):
            assert owned(given[:10], around).base is None


def test_mapped_files_and_repeated_numbers_are_not_copied(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(SIZE))
    part = np.asarray(np.load(tmp_path / "a.npy", mmap_mode="r")[:50])
    assert owned(part) is part
    repeated = np.broadcast_to(np.float32(1), (1000, 1000))
    assert owned(repeated) is repeated


@pytest.mark.parametrize("source", ["arrays", "arrow"])
def test_windows_on_a_source_are_delivered_uncopied_and_uncharged(source: str) -> None:
    array = np.arange(50 * SIZE)  # 4 MB
    column = pa.array(array)
    dataset = ps.Dataset.from_tensor_slices({"x": array})
    if source == "arrow":
        dataset, array = ps.Dataset.from_arrow(pa.table({"x": column})), column.to_numpy()
    batches = dataset.batch(SIZE).map(lambda row: (row["x"][1:], row), stateful=True).cache()
    with batches.run(memory=100 * SIZE) as run:
        assert all(np.shares_memory(x, array) and np.shares_memory(row["x"], array) for x, row in run)
    assert run.ledger.peak_bytes < 100 * SIZE < array.nbytes


FUNCTIONS = {
    "map": lambda ds: ds.map(lambda i: np.frombuffer(bytes([int(i)]) * SIZE, np.uint8)),
    "map to a tuple": lambda ds: ds.map(lambda i: (np.frombuffer(bytes([int(i)]) * SIZE, np.uint8), i)),
    "vectorized": lambda ds: ds.batch(1).map(
        lambda i: np.frombuffer(bytes(SIZE) * len(i), np.uint8).reshape(len(i), 1, SIZE), vectorized=True
    ),
    "scan": lambda ds: ds.scan(np.int64(0), lambda state, i: (state, np.frombuffer(bytes(SIZE), np.uint8))),
    "random_map": lambda ds: ds.random_map(lambda i, rng: np.frombuffer(rng.bytes(SIZE), np.uint8), seed=1),
}


def ragged(values: np.ndarray) -> ps.Ragged:
    return ps.Ragged(values, np.array([0, len(values)]))


CROPS = {
    "map": lambda ds, crop: ds.map(crop),
    "parallel": lambda ds, crop: ds.map(crop, num_parallel_calls=2),
    "two maps": lambda ds, crop: ds.map(lambda i: crop(i).base, stateful=True).map(lambda x: x[:10], stateful=True),
    "flat_map": lambda ds, crop: ds.flat_map(lambda i: ps.Dataset.range(1).map(crop)),
    "generator": lambda ds, crop: ps.Dataset.from_generator(lambda: (ragged(crop(i)) for i in range(50))),
    "scan": lambda ds, crop: ds.scan(np.int64(0), lambda state, i: (state, {"a": (crop(i), i)})),
    "random_map": lambda ds, crop: ds.random_map(lambda i, rng: (crop(i), i), seed=1),
}


@pytest.mark.parametrize("name", CROPS)
def test_no_operator_keeps_what_its_function_has_cropped(name: str) -> None:
    made: list[weakref.ref[np.ndarray]] = []

    def crop(i: Any) -> np.ndarray:
        array = np.full(SIZE, i)
        made.append(weakref.ref(array))
        return array[:10]

    with CROPS[name](ps.Dataset.range(50), crop).run(memory="4MB") as run:
        elements = list(run)
        assert len(elements) == len(made) == 50
        assert all(array() is None for array in made)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_a_cache_keeps_of_them_is_on_the_ledger(name: str) -> None:
    ds = FUNCTIONS[name](ps.Dataset.range(50)).cache()
    with ds.run(memory=10 * 50 * SIZE) as run:
        assert sum(1 for _ in run) == 50
        assert run.stats()["peak_bytes"] >= 49 * SIZE
    with FUNCTIONS[name](ps.Dataset.range(50)).cache().run(memory=20 * SIZE) as run:
        assert sum(1 for _ in run) == 50
        assert run.stats()["spilled_bytes"] >= 25 * SIZE


def test_a_source_of_bytes_is_a_window() -> None:
    """The user's own array stays where it is, whatever it looks at."""
    array = np.frombuffer(bytes(50 * SIZE), np.uint8).reshape(50, SIZE)
    batch = next(iter(ps.Dataset.from_tensor_slices(array).batch(10)))
    assert np.shares_memory(batch, array)


def test_a_read_only_part_of_what_somebody_holds_is_copied() -> None:
    """Who holds it may let go of it soon: a function that keeps the last file it read, say."""
    rows = np.arange(1000).reshape(100, 10)
    rows.flags.writeable = False
    part = owned({"row": rows[3]})["row"]
    assert part.base is None
    assert part.tolist() == list(range(30, 40))
    repeated = np.broadcast_to(rows[3], (1000, 10))
    assert owned(repeated) is repeated  # a copy would be a hundred times what is held
