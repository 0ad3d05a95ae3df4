"""Between dtypes, and between grey and colour: convert_image_dtype, rgb_to_grayscale, grayscale_to_rgb."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import BadArgument, BadType
from .pixels import as_dtype

__all__ = ["convert_image_dtype", "grayscale_to_rgb", "in_float", "rgb_to_grayscale"]

_LUMA = (0.2989, 0.5870, 0.1140)


def convert_image_dtype(image: Any, dtype: Any, saturate: bool = False) -> np.ndarray:
    """The same picture in another dtype: integers cover their whole range, floats 0 to 1.

    Args:
        image: An array of any shape.
        dtype: Any integer or floating dtype.
        saturate: Whether what lies outside the new range is put to its ends. Without, it wraps around.

    >>> import numpy as np, penstock as ps
    >>> ps.image.convert_image_dtype(np.array([0, 255], np.uint8), np.float32).tolist()
    [0.0, 1.0]
    """
    array = np.asarray(image)
    dtype = as_dtype(dtype)
    if dtype.kind not in "uif" or array.dtype.kind not in "uif":
        raise BadType(f"expected integer or floating dtypes, got {array.dtype} to {dtype}")
    if array.dtype == dtype:
        return array
    if array.dtype.kind == "f":
        return array.astype(dtype) if dtype.kind == "f" else _integers(array, dtype, saturate)
    if dtype.kind == "f":
        # float16 does not hold all integers, and is made of float32 here.
        wide = np.promote_types(dtype, np.float32)
        scale = wide.type(1.0 / np.iinfo(array.dtype).max)
        scaled: np.ndarray = np.multiply(array, scale, dtype=wide, casting="unsafe")
        return scaled.astype(dtype, copy=False)
    return _rescaled(array, dtype, saturate)


def _integers(array: np.ndarray, dtype: np.dtype[Any], saturate: bool) -> np.ndarray:
    """Floats as integers. Half a step more than the largest: each integer gets the same share of 0 to 1."""
    wide = np.promote_types(array.dtype, np.float32)
    return _cast(array * wide.type(np.iinfo(dtype).max + 0.5), dtype, saturate)


def _rescaled(array: np.ndarray, dtype: np.dtype[Any], saturate: bool) -> np.ndarray:
    """Integers as other integers, by a power of two."""
    most_in, most_out = int(np.iinfo(array.dtype).max), int(np.iinfo(dtype).max)
    if most_in > most_out:
        return _cast(array // array.dtype.type((most_in + 1) // (most_out + 1)), dtype, saturate)
    result = _cast(array, dtype, saturate)
    result *= dtype.type((most_out + 1) // (most_in + 1))
    return result


def _cast(array: np.ndarray, dtype: np.dtype[Any], saturate: bool) -> np.ndarray:
    if not saturate:
        # What is out of range has no meaning here, as in TensorFlow; NumPy would warn of it.
        with np.errstate(invalid="ignore"):
            return array.astype(dtype)
    limits = np.iinfo(dtype)
    if array.dtype.kind == "f":
        # The largest float that does not exceed the largest integer: 2**31 - 1 itself is no float32.
        most = array.dtype.type(limits.max)
        if int(most) > limits.max:
            most = np.nextafter(most, array.dtype.type(0))
        least = array.dtype.type(limits.min)
    else:
        own = np.iinfo(array.dtype)
        least, most = max(limits.min, own.min), min(limits.max, own.max)
    result: np.ndarray = np.clip(array, least, most).astype(dtype)
    return result


def in_float(image: np.ndarray) -> np.ndarray:
    """An image in the dtype that TensorFlow computes in: float16 and float32 as they are, others as float32."""
    return image if image.dtype in (np.float16, np.float32) else convert_image_dtype(image, np.float32)


def rgb_to_grayscale(images: Any) -> np.ndarray:
    """The brightness of colours, in one channel and the same dtype.

    Args:
        images: (..., 3).

    >>> import numpy as np, penstock as ps
    >>> ps.image.rgb_to_grayscale(np.array([[[255, 0, 0]]], np.uint8)).tolist()
    [[[76]]]
    """
    array = np.asarray(images)
    if array.ndim < 1 or array.shape[-1] != 3:
        raise BadArgument(f"images: expected 3 channels in the last dimension, got shape {array.shape}")
    colors = in_float(array)
    red, green, blue = (colors.dtype.type(weight) for weight in _LUMA)
    gray = colors[..., :1] * red
    gray += colors[..., 1:2] * green
    gray += colors[..., 2:] * blue
    return convert_image_dtype(gray, array.dtype)


def grayscale_to_rgb(images: Any) -> np.ndarray:
    """Grey as a colour: the one channel three times.

    Args:
        images: (..., 1).
    """
    array = np.asarray(images)
    if array.ndim < 2 or array.shape[-1] != 1:
        raise BadArgument(f"images: expected 1 channel in the last of two or more dimensions, got shape {array.shape}")
    return np.repeat(array, 3, axis=-1)
