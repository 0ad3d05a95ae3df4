"""Brightness and contrast, given or by chance."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import BadArgument
from .convert import convert_image_dtype, in_float
from .pixels import as_generator, as_images

__all__ = ["adjust_brightness", "adjust_contrast", "random_brightness", "random_contrast"]


def adjust_brightness(image: Any, delta: float) -> np.ndarray:
    """The image with `delta` added to each value, in the same dtype.

    Args:
        image: An array of any shape.
        delta: As a share of the whole range: 0.1 is 25 levels of uint8. Integers stop at the ends of their range,
            floats do not.

    >>> import numpy as np, penstock as ps
    >>> ps.image.adjust_brightness(np.array([0, 100, 250], np.uint8), 0.1).tolist()
    [25, 125, 255]
    """
    array = np.asarray(image)
    levels = in_float(array)
    return convert_image_dtype(levels + levels.dtype.type(delta), array.dtype, saturate=True)


def random_brightness(image: Any, max_delta: float, rng: np.random.Generator) -> np.ndarray:
    """`adjust_brightness` by a number between -max_delta and max_delta.

    Args:
        image: An array of any shape.
        max_delta: Not negative.
        rng: The generator that `random_map` hands over.
    """
    if max_delta < 0:
        raise BadArgument(f"max_delta: expected 0 or more, got {max_delta}")
    return adjust_brightness(image, as_generator(rng).uniform(-max_delta, max_delta))


def adjust_contrast(images: Any, contrast_factor: float) -> np.ndarray:
    """Each channel of each image moved away from its mean: (x - mean) * contrast_factor + mean.

    Args:
        images: (height, width, channels), or a batch.
        contrast_factor: 1 changes nothing, 0 leaves the mean only.

    >>> import numpy as np, penstock as ps
    >>> ps.image.adjust_contrast(np.array([[[100], [200]]], np.uint8), 0.5).ravel().tolist()
    [125, 175]
    """
    array = as_images(images)
    if not array.size:  # no pixels, no mean
        return array.copy()
    *batch, height, width, channels = array.shape
    # Rows as a whole: NumPy is slow where it works on a few channels at a time.
    rows = in_float(array).astype(np.float32, copy=False).reshape(*batch, height, width * channels)
    columns = rows.mean(axis=-2).reshape(*batch, width, channels)
    mean = np.tile(columns.mean(axis=-2, keepdims=True), width).reshape(*batch, 1, width * channels)
    changed = rows - mean
    changed *= np.float32(contrast_factor)
    changed += mean
    return convert_image_dtype(changed.reshape(array.shape), array.dtype, saturate=True)


def random_contrast(image: Any, lower: float, upper: float, rng: np.random.Generator) -> np.ndarray:
    """`adjust_contrast` by a factor between lower and upper.

    Args:
        image: (height, width, channels), or a batch.
        lower: Not negative.
        upper: Above lower.
        rng: The generator that `random_map` hands over.
    """
    if not 0 <= lower < upper:
        raise BadArgument(f"lower and upper: expected 0 <= lower < upper, got {lower} and {upper}")
    return adjust_contrast(image, as_generator(rng).uniform(lower, upper))
