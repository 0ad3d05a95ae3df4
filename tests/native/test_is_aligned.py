"""is_aligned against NumPy's own account of where arrays lie."""

from __future__ import annotations

import numpy as np
import pytest

from penstock._native import is_aligned


def _begins_at(offset: int, like: np.ndarray) -> np.ndarray:
    """A copy that begins so many bytes behind a multiple of 64."""
    memory = np.empty(like.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    copy = memory[start : start + like.nbytes].view(like.dtype).reshape(like.shape)
    copy[...] = like
    return copy


@pytest.mark.parametrize("offset", [0, 1, 8, 16, 32, 63])
@pytest.mark.parametrize("alignment", [1, 16, 64])
def test_where_it_begins(offset: int, alignment: int) -> None:
    array = _begins_at(offset, np.arange(12, dtype=np.uint8).reshape(3, 4))
    assert is_aligned(array, alignment) == (array.ctypes.data % alignment == 0)


def test_one_that_lies_otherwise_is_not() -> None:
    array = _begins_at(0, np.arange(1024, dtype=np.float32).reshape(32, 32))
    assert is_aligned(array, 64)
    assert not is_aligned(array.T, 64)
    assert not is_aligned(array[:, :16], 64)
    assert is_aligned(array[4:], 64)


def test_arrays_of_other_classes(tmp_path: pytest.TempPathFactory) -> None:
    mapped = np.memmap(f"{tmp_path}/numbers", np.float32, "w+", shape=(100,))
    assert is_aligned(mapped, 64)
    assert is_aligned(np.ma.masked_array(np.zeros(3)), 1)


@pytest.mark.parametrize("wrong", [b"abc", [1, 2], None, np.float32(1)])
def test_what_is_no_array(wrong: object) -> None:
    with pytest.raises(TypeError):
        is_aligned(wrong, 64)  # type: ignore[arg-type]


def test_bad_alignments() -> None:
    with pytest.raises(ValueError, match="must not be 0"):
        is_aligned(np.zeros(1), 0)
    with pytest.raises(TypeError):
        is_aligned(np.zeros(1), -1)
