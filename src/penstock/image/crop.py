"""Parts of images: central_crop, crop_to_bounding_box, random_crop.

Results are copies. A view would keep the whole image in memory, and no budget would know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import BadArgument
from .pixels import as_generator, as_images

__all__ = ["central_crop", "crop_to_bounding_box", "random_crop"]


def central_crop(image: Any, central_fraction: float) -> np.ndarray:
    """The middle of an image or of each image of a batch.

    Args:
        image: (height, width, channels), or a batch.
        central_fraction: The share of height and width that is kept: above 0, at most 1.

    >>> import numpy as np, penstock as ps
    >>> ps.image.central_crop(np.zeros((8, 6, 3)), 0.5).shape
    (4, 4, 3)
    """
    if not 0.0 < central_fraction <= 1.0:
        raise BadArgument(f"central_fraction: expected above 0 and at most 1, got {central_fraction}")
    array = as_images(image, or_masks=True)
    if central_fraction == 1.0:
        return array
    height, width = array.shape[-3:-1]
    top, left = (int((extent - extent * central_fraction) / 2) for extent in (height, width))
    return array[..., top : height - top, left : width - left, :].copy()


def crop_to_bounding_box(
    image: Any, offset_height: int, offset_width: int, target_height: int, target_width: int
) -> np.ndarray:
    """A rectangle of an image or of each image of a batch.

    Args:
        image: (height, width, channels), or a batch.
        offset_height: Rows above the rectangle.
        offset_width: Columns left of it.
        target_height: Its rows.
        target_width: Its columns.
    """
    array = as_images(image, or_masks=True)
    height, width = array.shape[-3:-1]
    for offset, extent, whole, name in (
        (offset_height, target_height, height, "height"),
        (offset_width, target_width, width, "width"),
    ):
        if offset < 0 or extent < 1 or offset + extent > whole:
            raise BadArgument(
                f"offset_{name} and target_{name}: expected a part of an image of {name} {whole}, "
                f"got {extent} from {offset} on"
            )
    rows = slice(offset_height, offset_height + target_height)
    columns = slice(offset_width, offset_width + target_width)
    return array[..., rows, columns, :].copy()


def random_crop(value: Any, size: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    """A part of an array of any rank, every place equally likely.

    Args:
        value: An array.
        size: The shape of the result, for all dimensions: (224, 224, 3) for an image.
        rng: The generator that `random_map` hands over.

    >>> import numpy as np, penstock as ps
    >>> ps.image.random_crop(np.arange(5), [2], np.random.default_rng(1)).tolist()
    [1, 2]
    """
    rng = as_generator(rng)
    array = np.asarray(value)
    shape = tuple(int(extent) for extent in size)
    if len(shape) != array.ndim or any(not 0 <= part <= whole for part, whole in zip(shape, array.shape, strict=False)):
        raise BadArgument(f"size: expected a part of shape {array.shape}, got {shape}")
    starts = [int(rng.integers(whole - part + 1)) for part, whole in zip(shape, array.shape, strict=True)]
    return array[tuple(slice(start, start + part) for start, part in zip(starts, shape, strict=True))].copy()
