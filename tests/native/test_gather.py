"""The gather kernel against NumPy's own indexing, and against hostile arguments."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock._native import gather

HOSTILE = [-1, 4, 2**63 - 1, -(2**63)]
# Values in a register, rows below a line, of whole lines and not, and rows too long to be copied four at a time.
ROW_BYTES = [0, 1, 2, 3, 4, 7, 8, 12, 16, 24, 33, 63, 64, 65, 100, 128, 1000, 3000, 4096, 32_768, 32_769, 40_000]


def table(num_rows: int, row_bytes: int) -> np.ndarray:
    return np.random.default_rng(num_rows * 1000 + row_bytes).integers(0, 256, (num_rows, row_bytes), dtype=np.uint8)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.integers(1, 30), st.sampled_from(ROW_BYTES) | st.integers(0, 3000), st.data())
def test_rows_come_as_numpy_picks_them(num_rows: int, row_bytes: int, data: st.DataObject) -> None:
    rows = table(num_rows, row_bytes)
    index = np.array(data.draw(st.lists(st.integers(0, num_rows - 1), max_size=40)), dtype=np.int64)
    start = data.draw(st.integers(0, index.size))
    stop = data.draw(st.integers(start, index.size))
    around = np.full((stop - start + 2, row_bytes), 7, np.uint8)
    gather(rows, index, start, around[1:-1])
    assert np.array_equal(around[1:-1], rows[index[start:stop]])
    assert (around[[0, -1]] == 7).all()


@pytest.mark.parametrize("row_bytes", ROW_BYTES)
def test_many_rows_of_every_size(row_bytes: int) -> None:
    rows = table(50, row_bytes)
    index = np.random.default_rng(0).integers(0, 50, 301)
    out = np.zeros((300, row_bytes), np.uint8)
    gather(rows, index, 1, out)
    assert np.array_equal(out, rows[index[1:]])


DTYPES = ["?", "i1", "<u2", ">i4", "f2", "f8", ">f8", "c8", "c16", "g", "M8[ns]", "m8[s]", "V5", "i4,f8", "S3", "U2"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("row_shape", [(), (1,), (5,), (4, 3, 2), (130,), (2, 0)])
def test_any_dtype_and_shape(dtype: str, row_shape: tuple[int, ...]) -> None:
    source = np.random.default_rng(3).integers(0, 256, (9, *row_shape, np.dtype(dtype).itemsize), dtype=np.uint8)
    if source.size == 0:
        rows = np.empty((9, *row_shape), dtype)
    else:
        rows = (source & 1).view(dtype)[..., 0]
    index = np.array([8, 0, 3, 3, 1, 7])
    out = np.empty((6, *row_shape), dtype)
    gather(rows, index, 0, out)
    assert out.tobytes() == rows[index].tobytes()


@pytest.mark.parametrize("offset", [1, 3, 8, 63])
def test_tables_and_results_may_lie_anywhere(offset: int) -> None:
    memory, room = bytearray(np.arange(5000, dtype=np.uint16).tobytes()), bytearray(4000)
    rows = np.frombuffer(memory, "<f8", 8 * 125, offset).reshape(8, 125)
    out = np.frombuffer(room, "<f8", 3 * 125, offset).reshape(3, 125)
    gather(rows, np.array([7, 0, 7]), 0, out)
    assert out.tobytes() == rows[[7, 0, 7]].tobytes()


def test_the_last_rows_of_a_mapped_file(tmp_path: Path) -> None:
    # What is asked for ahead must lie inside the table: behind a mapping there may be nothing.
    rows = table(64, 4096)
    rows.tofile(tmp_path / "rows")
    mapped = np.memmap(tmp_path / "rows", np.uint8, "r", shape=(64, 4096))
    index = np.arange(63, -1, -1)
    out = np.empty((32, 4096), np.uint8)
    gather(mapped, index, 0, out)
    assert np.array_equal(out, rows[index[:32]])


def test_read_only_sources_work_and_read_only_results_do_not() -> None:
    rows = table(4, 600)
    rows.flags.writeable = False
    out = np.empty((2, 600), np.uint8)
    gather(rows, np.array([3, 0]), 0, out)
    assert np.array_equal(out, rows[[3, 0]])
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        gather(rows, np.array([3, 0]), 0, out)


@pytest.mark.parametrize("bad", HOSTILE)
def test_an_index_that_names_no_row_is_refused_before_anything_moves(bad: int) -> None:
    out = np.full((3, 8), 7, np.uint8)
    with pytest.raises(IndexError, match=rf"index\[2\] is {bad}, not within \[0, 4\)"):
        gather(table(4, 8), np.array([9, 0, 1, bad], dtype=np.int64), 1, out)
    assert (out == 7).all()


@pytest.mark.parametrize("bad", HOSTILE)
@pytest.mark.parametrize("row_bytes", [8, 100, 4096, 40_000])
def test_indices_behind_the_batch_may_be_anything(bad: int, row_bytes: int) -> None:
    rows, out = table(4, row_bytes), np.empty((5, row_bytes), np.uint8)
    index = np.array([0, 3, 2, 1, 0, *[bad] * 100], dtype=np.int64)
    gather(rows, index, 0, out)
    assert np.array_equal(out, rows[index[:5]])


@pytest.mark.parametrize("shape", [(3, 7), (3, 9), (3,), (3, 8, 2)])
def test_rows_of_another_size_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="rows of one size, got 8 and"):
        gather(table(4, 8), np.arange(3), 0, np.empty(shape, np.uint8))


@pytest.mark.parametrize(("start", "num_rows"), [(0, 4), (1, 3), (3, 1), (4, 0), (2**62, 1)])
def test_too_few_indices_are_refused(start: int, num_rows: int) -> None:
    with pytest.raises(ValueError, match=rf"index must have {num_rows} numbers from {start} on"):
        gather(table(4, 8), np.arange(3), start, np.empty((num_rows, 8), np.uint8))
    with pytest.raises(ValueError, match="start must not be negative"):
        gather(table(4, 8), np.arange(3), -1, np.empty((1, 8), np.uint8))


@pytest.mark.parametrize("index", [np.arange(2, dtype=np.int32), np.arange(4)[::2], np.zeros((2, 1), np.int64), [0, 1]])
def test_other_indices_are_refused_never_copied(index: object) -> None:
    with pytest.raises(TypeError):
        gather(table(4, 8), index, 0, np.empty((2, 8), np.uint8))  # type: ignore[arg-type]  # wrong on purpose


def test_other_layouts_are_refused_never_copied() -> None:
    index, rows, out = np.arange(2), table(4, 8), np.empty((2, 8), np.uint8)
    with pytest.raises(ValueError, match="not C-contiguous"):
        gather(table(4, 16)[:, ::2], index, 0, out)
    with pytest.raises(ValueError, match="not C-contiguous"):
        gather(rows, index, 0, np.empty((8, 2), np.uint8).T)
    with pytest.raises(ValueError, match="a first axis, got a scalar"):
        gather(np.array(1), index, 0, out)
    with pytest.raises(TypeError):
        gather([[1]], index, 0, out)  # type: ignore[arg-type]  # wrong on purpose


def test_an_empty_table_has_no_rows_to_give() -> None:
    gather(np.empty((0, 8), np.uint8), np.empty(0, np.int64), 0, np.empty((0, 8), np.uint8))
    with pytest.raises(IndexError):
        gather(np.empty((0, 8), np.uint8), np.zeros(1, np.int64), 0, np.empty((1, 8), np.uint8))
