"""The bilinear kernel against the same arithmetic in NumPy, to the last bit, and against hostile arguments."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock._native import resize_bilinear

DTYPES = (np.uint8, np.int8, np.uint16, np.int16, np.int32, np.float32, np.float64)


def taps(num_in: int, num_out: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    half = np.float32(0.5)
    centers = (np.arange(num_out, dtype=np.float32) + half) * (np.float32(num_in) / np.float32(num_out)) - half
    lower = np.floor(centers)
    return np.maximum(lower, 0).astype(int), np.minimum(np.ceil(centers), num_in - 1).astype(int), centers - lower


def resized(image: np.ndarray, height: int, width: int) -> np.ndarray:
    levels = image.astype(np.float32)
    above, below, down = taps(image.shape[0], height)
    left, right, across = taps(image.shape[1], width)
    across, down = across[None, :, None], down[:, None, None]
    rows = [levels[y][:, left] + (levels[y][:, right] - levels[y][:, left]) * across for y in (above, below)]
    result: np.ndarray = rows[0] + (rows[1] - rows[0]) * down
    return result


def pixels(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return (np.random.default_rng(0).random(shape) * 127).astype(dtype)


sides = st.integers(1, 40)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(sides, sides, st.integers(1, 6), sides, sides, st.sampled_from(DTYPES))
def test_every_bit_is_that_of_the_plain_arithmetic(
    height: int, width: int, channels: int, new_height: int, new_width: int, dtype: Any
) -> None:
    image = pixels((height, width, channels), dtype)
    around = np.full((new_height + 2, new_width, channels), 7, np.float32)
    resize_bilinear(image, around[1:-1])
    assert np.array_equal(around[1:-1], resized(image, new_height, new_width))
    assert (around[[0, -1]] == 7).all()


def test_rows_may_lie_apart_and_upside_down() -> None:
    image = pixels((20, 15, 3), np.uint8)
    for view in (image[::2], image[::-1], image[3:9], image[5:6]):
        out = np.empty((7, 9, 3), np.float32)
        resize_bilinear(view, out)
        assert np.array_equal(out, resized(view, 7, 9))


def out_of(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


@pytest.mark.parametrize(
    "image,out,complaint",
    [
        (pixels((4, 4, 3), np.int64), out_of(2, 2, 3), "8 or 16 bits"),
        (pixels((4, 4, 3), ">i4"), out_of(2, 2, 3), "8 or 16 bits"),
        (pixels((4, 4, 3), np.uint8), out_of(2, 2, 3, dtype=np.float64), "out must be float32"),
        (pixels((4, 4, 3), np.uint8), out_of(2, 2, 1), "channels the same"),
        (pixels((4, 4), np.uint8), out_of(2, 2), "height, width, channels"),
        (pixels((4, 0, 3), np.uint8), out_of(2, 2, 3), "must have pixels"),
        (pixels((4, 4, 3), np.uint8), out_of(0, 2, 3), "must have pixels"),
        (pixels((4, 4, 3), np.uint8)[:, ::2], out_of(2, 2, 3), "contiguous"),
        (pixels((4, 4, 3), np.uint8)[..., ::-1], out_of(2, 2, 3), "contiguous"),
        (np.zeros(49, np.uint8)[1:].view(np.float32).reshape(2, 2, 3), out_of(2, 2, 3), "aligned|8 or 16 bits"),
    ],
)
def test_what_is_refused(image: np.ndarray, out: np.ndarray, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        resize_bilinear(image, out)


def test_out_must_be_writeable_and_contiguous() -> None:
    out = out_of(4, 4, 3)
    for refused in (out[::2], np.broadcast_to(np.float32(0), (2, 2, 3))):
        with pytest.raises(ValueError, match=r"contiguous|writ|read-only"):
            resize_bilinear(pixels((4, 4, 3), np.uint8), refused)
