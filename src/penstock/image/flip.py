"""Mirror images: flip_left_right, flip_up_down, and both by chance."""

from __future__ import annotations

from typing import Any

import numpy as np

from .libraries import opencv
from .pixels import as_generator, as_images

__all__ = ["flip_left_right", "flip_up_down", "random_flip_left_right", "random_flip_up_down"]

_LEFT_RIGHT, _UP_DOWN = 1, 0  # OpenCV's numbers, and the axis of an image
_OPENCV_DTYPES = (np.uint8, np.int8, np.uint16, np.int16, np.int32, np.float32, np.float64)


def flip_left_right(image: Any) -> np.ndarray:
    """The image, or each image of a batch, with left and right exchanged.

    Args:
        image: (height, width, channels), or a batch.

    >>> import numpy as np, penstock as ps
    >>> ps.image.flip_left_right(np.arange(3).reshape(1, 3, 1)).ravel().tolist()
    [2, 1, 0]
    """
    return _flipped(as_images(image, or_masks=True), _LEFT_RIGHT)


def flip_up_down(image: Any) -> np.ndarray:
    """The image, or each image of a batch, with top and bottom exchanged.

    Args:
        image: (height, width, channels), or a batch.
    """
    return _flipped(as_images(image, or_masks=True), _UP_DOWN)


def random_flip_left_right(image: Any, rng: np.random.Generator) -> np.ndarray:
    """`flip_left_right` of every second image on average.

    Args:
        image: (height, width, channels), or a batch, of which each image has its own chance.
        rng: The generator that `random_map` hands over.
    """
    return _flipped_by_chance(as_images(image, or_masks=True), _LEFT_RIGHT, as_generator(rng))


def random_flip_up_down(image: Any, rng: np.random.Generator) -> np.ndarray:
    """`flip_up_down` of every second image on average.

    Args:
        image: (height, width, channels), or a batch, of which each image has its own chance.
        rng: The generator that `random_map` hands over.
    """
    return _flipped_by_chance(as_images(image, or_masks=True), _UP_DOWN, as_generator(rng))


def _flipped_by_chance(array: np.ndarray, axis: int, rng: np.random.Generator) -> np.ndarray:
    if array.ndim == 3:
        return _flipped(array, axis) if rng.random() < 0.5 else array
    result = array.copy()
    for number in np.flatnonzero(rng.random(len(array)) < 0.5):
        result[number] = _flipped(array[number], axis)
    return result


def _flipped(array: np.ndarray, axis: int) -> np.ndarray:
    if array.ndim == 4:
        return np.ascontiguousarray(np.flip(array, axis + 1))
    if array.size and 1 <= array.shape[2] <= 4 and array.dtype in _OPENCV_DTYPES:
        # Ten times as fast as NumPy, which moves one number at a time from right to left.
        flipped: np.ndarray = opencv().flip(np.ascontiguousarray(array), axis)
        return flipped.reshape(array.shape)
    return np.ascontiguousarray(np.flip(array, axis))
