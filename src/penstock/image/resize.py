"""resize: bilinear, nearest and area, with pixels centred at halves as in tf.image.resize.

Except for nearest neighbours, everything is computed in float32. Bilinear is our own kernel (native/resize.cpp): to the
last bit what TensorFlow gives, and faster than a conversion to floats and OpenCV (figures in docs/adr/0010).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._native import resize_bilinear
from ..errors import BadArgument
from .libraries import opencv
from .pixels import as_images

__all__ = ["resize"]


def resize(
    images: Any,
    size: Sequence[int],
    method: str = "bilinear",
    preserve_aspect_ratio: bool = False,
    antialias: bool = False,
) -> np.ndarray:
    """The image, or each image of a batch, in another size.

    Args:
        images: (height, width, channels), or a batch.
        size: (new_height, new_width).
        method: "bilinear", "nearest" or "area".
        preserve_aspect_ratio: Whether `size` is the most that height and width may have, one of them less if need be.
        antialias: Whether "bilinear" looks at all pixels when it makes an image smaller, not only at the nearest four.
            Slower.

    Returns:
        float32 with the levels of `images` (0 to 255 for uint8); in the dtype of `images` for "nearest".

    >>> import numpy as np, penstock as ps
    >>> ps.image.resize(np.array([[[0], [100]]], np.uint8), (1, 4)).ravel().tolist()
    [0.0, 25.0, 75.0, 100.0]
    """
    array = as_images(images)
    height, width = array.shape[-3:-1]
    if 0 in array.shape[-3:]:
        raise BadArgument(f"images: expected pixels, got shape {array.shape}")
    new_height, new_width = _checked_size(size)
    if preserve_aspect_ratio:
        new_height, new_width = _fitted(height, width, new_height, new_width)
    resize_one = _function(method, antialias, height >= new_height and width >= new_width)
    if array.ndim == 3:
        return resize_one(array, new_height, new_width)
    dtype = array.dtype if method == "nearest" else np.dtype(np.float32)
    result = np.empty((len(array), new_height, new_width, array.shape[3]), dtype)
    for number, image in enumerate(array):
        result[number] = resize_one(image, new_height, new_width)
    return result


_ResizeOne = Callable[[np.ndarray, int, int], np.ndarray]


def _function(method: str, antialias: bool, is_smaller: bool) -> _ResizeOne:
    """How to resize one image. OpenCV's "area" is TensorFlow's only where no side grows."""
    if method == "nearest":
        return _nearest
    if method == "bilinear":
        return functools.partial(_weighted, _triangle_weights) if antialias else _bilinear
    if method == "area":
        return _area if is_smaller else functools.partial(_weighted, _area_weights)
    raise BadArgument(f"method: expected 'bilinear', 'nearest' or 'area', got {method!r}")


def _checked_size(size: Sequence[int]) -> tuple[int, int]:
    numbers = [int(number) for number in size]
    if len(numbers) != 2 or min(numbers) < 1:
        raise BadArgument(f"size: expected (new_height, new_width), both at least 1, got {size}")
    return numbers[0], numbers[1]


def _fitted(height: int, width: int, most_height: int, most_width: int) -> tuple[int, int]:
    """The largest size of the same proportions, rounded as TensorFlow does, half to even."""
    scale = min(np.float32(most_height) / np.float32(height), np.float32(most_width) / np.float32(width))
    return max(1, round(float(scale * np.float32(height)))), max(1, round(float(scale * np.float32(width))))


# --- by our own kernel ------------------------------------------------------------------------------------------

_KERNEL_DTYPES = frozenset(
    np.dtype(kind) for kind in (np.uint8, np.int8, np.uint16, np.int16, np.int32, np.float32, np.float64)
)


def _bilinear(image: np.ndarray, height: int, width: int) -> np.ndarray:
    if image.shape[:2] == (height, width):  # also that infinities stay: the kernel takes differences of neighbours
        return image.astype(np.float32, order="C")
    result = np.empty((height, width, image.shape[2]), np.float32)
    resize_bilinear(_with_whole_rows(image), result)
    return result


def _with_whole_rows(image: np.ndarray) -> np.ndarray:
    """The image in a dtype that the kernel knows, the values of each row side by side. Mostly it is already."""
    if image.dtype not in _KERNEL_DTYPES:
        return image.astype(np.float32, order="C")
    if image.strides[1:] != (image.shape[2] * image.itemsize, image.itemsize) or not image.flags.aligned:
        return image.copy(order="C")
    return image


# --- by OpenCV --------------------------------------------------------------------------------------------------

# Values that are converted to floats at once: 16 MB of them.
_MOST_FLOATS = 4_000_000
# More channels than OpenCV's fast paths know are resized by fours.
_MOST_CHANNELS = 4


def _by_opencv(image: np.ndarray, height: int, width: int, interpolation: int) -> np.ndarray:
    channels = image.shape[2]
    levels = _in_floats(image)
    resize = opencv().resize
    if channels <= _MOST_CHANNELS:
        resized: np.ndarray = resize(levels, (width, height), interpolation=interpolation)
        return resized.reshape(height, width, channels)
    result = np.empty((height, width, channels), np.float32)
    for first in range(0, channels, _MOST_CHANNELS):
        part = np.ascontiguousarray(levels[..., first : first + _MOST_CHANNELS])
        result[..., first : first + _MOST_CHANNELS] = resize(
            part, (width, height), interpolation=interpolation
        ).reshape(height, width, part.shape[2])
    return result


class _Scratch(threading.local):
    """Room for one image as floats, for each thread that resizes.

    A new array for each image would be new memory from the system each time, where the allocator has been told to
    give back what is freed (memory/allocator.py): the page faults then take longer than the resize.
    """

    def __init__(self) -> None:
        self.floats = np.empty(0, np.float32)

    def room_for(self, shape: tuple[int, ...], size: int) -> np.ndarray:
        if self.floats.size < size:
            self.floats = np.empty(size, np.float32)
        return self.floats[:size].reshape(shape)


_scratch = _Scratch()
# Values for which a thread keeps room: 4 MB of floats.
_MOST_KEPT = 1_000_000


def _in_floats(image: np.ndarray) -> np.ndarray:
    """The image as float32; if it was something else, to be used before the next call."""
    if image.dtype == np.float32 or image.size > _MOST_KEPT:
        return np.ascontiguousarray(image, dtype=np.float32)
    levels = _scratch.room_for(image.shape, image.size)
    np.copyto(levels, image)
    return levels


def _is_large(image: np.ndarray, height: int) -> bool:
    """Whether to bring rows down to their new number in NumPy first.

    A photograph of 12 megapixels need not become 144 MB of floats for a moment. Below, OpenCV alone is faster.
    """
    return image.size > _MOST_FLOATS and image.shape[0] >= 2 * height


def _area(image: np.ndarray, height: int, width: int) -> np.ndarray:
    if _is_large(image, height):
        image = _along(0, _area_weights, image, height)
    return _by_opencv(image, height, width, opencv().INTER_AREA)


# --- by NumPy ---------------------------------------------------------------------------------------------------


def _nearest(image: np.ndarray, height: int, width: int) -> np.ndarray:
    rows, columns = _nearest_places(image.shape[0], height), _nearest_places(image.shape[1], width)
    return np.take(np.take(image, rows, axis=0), columns, axis=1)


def _nearest_places(num_in: int, num_out: int) -> np.ndarray:
    """The pixel under the centre of each new pixel, in TensorFlow's float32."""
    scale = np.float32(num_in) / np.float32(num_out)
    centers = (np.arange(num_out, dtype=np.float32) + np.float32(0.5)) * scale
    places: np.ndarray = np.minimum(np.floor(centers).astype(np.intp), num_in - 1)
    return places


#: For each new pixel the pixels that it is made of, and how much of each: both (num_out, num_taps).
_Weights = tuple[np.ndarray, np.ndarray]


_WeightsOf = Callable[[int, int], _Weights]


def _weighted(weights: _WeightsOf, image: np.ndarray, height: int, width: int) -> np.ndarray:
    return _along(1, weights, _along(0, weights, image, height), width)


@np.errstate(invalid="ignore")  # infinities of both signs in one pixel
def _along(axis: int, weights: _WeightsOf, image: np.ndarray, num_out: int) -> np.ndarray:
    """Weighted sums along rows or columns, tap by tap: a product of matrices would start BLAS's own threads."""
    places, shares = weights(image.shape[axis], num_out)
    shape = [1, 1, 1]
    shape[axis] = num_out
    result = np.zeros((*image.shape[:axis], num_out, *image.shape[axis + 1 :]), np.float32)
    for tap in range(places.shape[1]):
        part = np.take(image, places[:, tap], axis=axis).astype(np.float32, copy=False)
        unused = shares[:, tap] == 0
        if unused.any():  # infinities and NaNs of which nothing is taken: not even nothing times them
            part[(slice(None),) * axis + (unused,)] = 0
        part *= shares[:, tap].reshape(shape)
        result += part
    return result


def _area_weights(num_in: int, num_out: int) -> _Weights:
    """The share of each old pixel that a new one covers."""
    scale = num_in / num_out
    starts = np.arange(num_out) * scale
    ends = starts + scale
    places = np.floor(starts).astype(np.intp)[:, None] + np.arange(int(np.ceil(scale)) + 1)
    covered = np.minimum(ends[:, None], places + 1) - np.maximum(starts[:, None], places)
    covered[covered < 1e-6] = 0  # less is rounding
    return np.clip(places, 0, num_in - 1), (covered / scale).astype(np.float32)


def _triangle_weights(num_in: int, num_out: int) -> _Weights:
    """A triangle over each new pixel, as wide as two new pixels where they are larger than the old ones."""
    scale = num_in / num_out
    reach = max(scale, 1.0)
    centers = (np.arange(num_out) + 0.5) * scale
    first = np.ceil(centers - reach - 0.5).astype(np.intp)
    places = first[:, None] + np.arange(int(np.ceil(2 * reach)) + 1)
    shares = np.maximum(0.0, 1.0 - np.abs(places + 0.5 - centers[:, None]) / reach)
    shares[(places < 0) | (places >= num_in)] = 0.0
    shares /= shares.sum(axis=1, keepdims=True)
    return np.clip(places, 0, num_in - 1), shares.astype(np.float32)
