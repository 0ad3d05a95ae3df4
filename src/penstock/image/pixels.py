"""What functions on pixels ask of their arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import BadArgument, BadType

__all__ = ["as_dtype", "as_generator", "as_images"]


def as_images(images: Any, or_masks: bool = False) -> np.ndarray:
    """An image or a batch of images, as an array of numbers; `or_masks`: or of booleans."""
    array = np.asarray(images)
    if array.dtype.kind not in ("uifb" if or_masks else "uif"):
        raise BadType(
            f"expected an array of numbers, got {array.dtype}; encoded images are read by ps.image.decode_image"
        )
    if array.ndim not in (3, 4):
        raise BadArgument(
            f"expected (height, width, channels), or (number, height, width, channels), got shape {array.shape}"
        )
    return array


def as_dtype(dtype: Any) -> np.dtype[Any]:
    """NumPy's dtype, of whatever names one, TensorFlow's included."""
    try:
        made: np.dtype[Any] = np.dtype(getattr(dtype, "as_numpy_dtype", dtype))
    except TypeError as error:
        raise BadType(f"dtype: expected one of NumPy's or TensorFlow's, got {dtype!r:.60}: {error}") from None
    return made


def as_generator(rng: Any) -> np.random.Generator:
    """The generator to draw from: there is no hidden one, or runs could not be repeated."""
    if not isinstance(rng, np.random.Generator):
        raise BadType(
            f"rng: expected a numpy.random.Generator, such as random_map hands over, got {type(rng).__name__}"
        )
    return rng
