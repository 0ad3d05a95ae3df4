"""Pixels to encoded images: encode_jpeg, encode_png."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import BadArgument, BadType
from .jpeg import write_jpeg
from .png import write_png

__all__ = ["encode_jpeg", "encode_png"]

_CHANNELS_BY_FORMAT = {"": (1, 3), "grayscale": (1,), "rgb": (3,)}


def encode_jpeg(image: Any, format: str = "", quality: int = 95, *, chroma_downsampling: bool = True) -> bytes:
    """A JPEG file with these pixels.

    Args:
        image: (height, width, 1 or 3), uint8.
        format: "" to go by the channels, "grayscale" or "rgb" to insist.
        quality: 0 to 100.
        chroma_downsampling: Whether colours are stored at half the size each way.

    >>> import numpy as np, penstock as ps
    >>> ps.image.encode_jpeg(np.zeros((4, 4, 3), np.uint8))[:2]
    b'\\xff\\xd8'
    """
    if format not in _CHANNELS_BY_FORMAT:
        raise BadArgument(f"format: expected '', 'grayscale' or 'rgb', got {format!r}")
    if not 0 <= quality <= 100:
        raise BadArgument(f"quality: expected 0 to 100, got {quality}")
    pixels = _checked(image, (np.uint8,), _CHANNELS_BY_FORMAT[format])
    return write_jpeg(pixels, max(quality, 1), chroma_downsampling)


def encode_png(image: Any, compression: int = -1) -> bytes:
    """A PNG file with these pixels.

    Args:
        image: (height, width, 1 to 4), uint8 or uint16.
        compression: 0 (none) to 9 (smallest), -1 for the library's choice.

    >>> import numpy as np, penstock as ps
    >>> pixels = np.arange(12, dtype=np.uint16).reshape(2, 2, 3)
    >>> ps.image.decode_png(ps.image.encode_png(pixels), dtype=np.uint16).tolist() == pixels.tolist()
    True
    """
    if not -1 <= compression <= 9:
        raise BadArgument(f"compression: expected -1 to 9, got {compression}")
    return write_png(_checked(image, (np.uint8, np.uint16), (1, 2, 3, 4)), compression)


def _checked(image: Any, dtypes: tuple[Any, ...], channels: tuple[int, ...]) -> np.ndarray:
    pixels = np.asarray(image)
    if pixels.dtype not in dtypes:
        names = " or ".join(np.dtype(dtype).name for dtype in dtypes)
        raise BadType(f"image: expected {names}, got {pixels.dtype}; ps.image.convert_image_dtype converts")
    if pixels.ndim != 3 or pixels.shape[2] not in channels or 0 in pixels.shape:
        numbers = " or ".join(str(number) for number in channels)
        raise BadArgument(f"image: expected (height, width, {numbers}), got shape {pixels.shape}")
    return pixels
