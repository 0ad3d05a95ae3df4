"""The gather kernel against NumPy's own indexing, and against hostile arguments."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock._native import gather


def table(num_rows: int, row_bytes: int) -> np.ndarray:
    return np.random.default_rng(num_rows * 1000 + row_bytes).integers(0, 256, (num_rows, row_bytes), dtype=np.uint8)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.integers(1, 50), st.integers(0, 3000), st.data())
def test_rows_come_as_numpy_picks_them(num_rows: int, row_bytes: int, data: st.DataObject) -> None:
    rows = table(num_rows, row_bytes)
    index = np.array(data.draw(st.lists(st.integers(0, num_rows - 1), max_size=40)), dtype=np.int64)
    out = np.zeros((index.size, row_bytes), np.uint8)
    gather(rows, index, out)
    assert np.array_equal(out, rows[index])


def test_read_only_sources_work_and_read_only_results_do_not() -> None:
    rows = table(4, 600)
    rows.flags.writeable = False
    out = np.empty((2, 600), np.uint8)
    gather(rows, np.array([3, 0]), out)
    assert np.array_equal(out, rows[[3, 0]])
    out.flags.writeable = False
    with pytest.raises(TypeError):
        gather(rows, np.array([3, 0]), out)


@pytest.mark.parametrize("bad", [-1, 4, 2**63 - 1, -(2**63)])
def test_an_index_that_names_no_row_is_refused_before_anything_moves(bad: int) -> None:
    out = np.full((3, 8), 7, np.uint8)
    with pytest.raises(IndexError, match=rf"index\[2\] is {bad}, not within \[0, 4\)"):
        gather(table(4, 8), np.array([0, 1, bad], dtype=np.int64), out)
    assert (out == 7).all()


@pytest.mark.parametrize("shape", [(2, 8), (4, 8), (3, 7), (3, 9)])
def test_a_result_of_another_shape_is_refused(shape: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="one row of 8 bytes for each of the 3 indices"):
        gather(table(4, 8), np.arange(3), np.empty(shape, np.uint8))


@pytest.mark.parametrize(
    ("rows", "index", "out"),
    [
        (np.zeros((4, 8), np.int8), np.arange(2), np.empty((2, 8), np.uint8)),
        (np.zeros((4, 16), np.uint8)[:, ::2], np.arange(2), np.empty((2, 8), np.uint8)),
        (np.zeros(32, np.uint8), np.arange(2), np.empty((2, 8), np.uint8)),
        (np.zeros((4, 8), np.uint8), np.arange(2, dtype=np.int32), np.empty((2, 8), np.uint8)),
        (np.zeros((4, 8), np.uint8), np.arange(4)[::2], np.empty((2, 8), np.uint8)),
        (np.zeros((4, 8), np.uint8), [0, 1], np.empty((2, 8), np.uint8)),
    ],
)
def test_other_dtypes_and_layouts_are_refused_never_copied(rows: object, index: object, out: object) -> None:
    with pytest.raises(TypeError):
        gather(rows, index, out)  # type: ignore[arg-type]


def test_an_empty_table_has_no_rows_to_give() -> None:
    gather(np.empty((0, 8), np.uint8), np.empty(0, np.int64), np.empty((0, 8), np.uint8))
    with pytest.raises(IndexError):
        gather(np.empty((0, 8), np.uint8), np.zeros(1, np.int64), np.empty((1, 8), np.uint8))
