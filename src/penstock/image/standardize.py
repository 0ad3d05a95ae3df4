"""per_image_standardization: mean 0, variance 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import BadArgument
from .pixels import as_images

__all__ = ["per_image_standardization"]


def per_image_standardization(image: Any) -> np.ndarray:
    """The image, or each image of a batch, less its mean and divided by its standard deviation, as float32.

    The divisor is at least 1 / sqrt(number of values), so that an image of one colour becomes 0.

    Args:
        image: (height, width, channels), or a batch.

    >>> import numpy as np, penstock as ps
    >>> ps.image.per_image_standardization(np.array([[[0], [255]]], np.uint8)).ravel().tolist()
    [-1.0, 1.0]
    """
    levels = as_images(image).astype(np.float32, copy=False)
    if not all(levels.shape[-3:]):
        raise BadArgument(f"image: expected one with pixels, got shape {levels.shape}")
    whole = (-3, -2, -1)
    centered: np.ndarray = levels - levels.mean(axis=whole, keepdims=True)
    variance = np.square(centered).mean(axis=whole, keepdims=True)
    least = 1.0 / np.sqrt(np.float32(np.prod(levels.shape[-3:])))
    centered /= np.maximum(np.sqrt(variance), least)
    return centered
