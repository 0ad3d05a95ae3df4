"""JPEG: libjpeg-turbo through simplejpeg, which is bit for bit what TensorFlow's own libjpeg-turbo gives.

simplejpeg is strict: a file that libjpeg merely warns about (data that end early and would leave the rest grey) is an
error here, and nothing is written to stderr. One warning is let pass, as too many photographs earn it: bytes between
the last pixel and the end marker. By then the image is whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..errors import BadArgument, FormatError
from .contents import check_pixels
from .libraries import simplejpeg

__all__ = ["read_jpeg", "write_jpeg"]

_DCT_METHODS = {"": False, "INTEGER_ACCURATE": False, "INTEGER_FAST": True}
_BEFORE_THE_END = "extraneous bytes before marker 0xd9"
_APP14, _START_OF_SCAN = 0xEE, 0xDA
# 0xC4, 0xC8 and 0xCC lie among the starts of frames, and are none.
_STARTS_OF_FRAME = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_COLORSPACES = {1: "Gray", 3: "YCbCr", 4: "CMYK"}


def read_jpeg(
    contents: bytes, channels: int, ratio: int, fancy_upscaling: bool, dct_method: str, max_pixels: int
) -> np.ndarray:
    """The pixels of a JPEG."""
    if channels not in (0, 1, 3):
        raise BadArgument(f"channels: expected 0, 1 or 3 for a JPEG, got {channels}")
    if ratio not in (1, 2, 4, 8):
        raise BadArgument(f"ratio: expected 1, 2, 4 or 8, got {ratio}")
    if dct_method not in _DCT_METHODS:
        raise BadArgument(f"dct_method: expected 'INTEGER_ACCURATE' or 'INTEGER_FAST', got {dct_method!r}")
    height, width, colorspace = _header(contents)
    check_pixels("JPEG", height, width, max_pixels)
    options: dict[str, Any] = {"fastdct": _DCT_METHODS[dct_method], "fastupsample": not fancy_upscaling}
    if ratio > 1:
        options.update(min_height=-(-height // ratio), min_width=-(-width // ratio))
    if colorspace in ("CMYK", "YCCK"):
        if channels == 1:
            raise FormatError(
                "channels=1: expected a JPEG in grey or colour, got one in CMYK; decode it with channels=3"
            )
        return _rgb_of_cmyk(_decode(contents, "CMYK", options), is_inverted=_has_adobe_marker(contents))
    is_gray = channels == 1 or (channels == 0 and colorspace == "Gray")
    return _decode(contents, "GRAY" if is_gray else "RGB", options)


def _header(contents: bytes) -> tuple[int, int, str]:
    try:
        height, width, colorspace, _ = simplejpeg().decode_jpeg_header(contents, strict=False)
    except ValueError as error:
        raise FormatError(
            f"expected a JPEG, got {len(contents):,} bytes whose header cannot be read ({error})"
        ) from None
    except KeyError:
        # Colours at a resolution that simplejpeg has no name for. It decodes what libjpeg-turbo knows all the same.
        return _frame_header(contents)
    return height, width, colorspace


def _decode(contents: bytes, colorspace: str, options: dict[str, Any]) -> np.ndarray:
    decode = simplejpeg().decode_jpeg
    try:
        pixels: np.ndarray = decode(contents, colorspace, **options)
    except ValueError as error:
        # libjpeg tells of its first warning only. This one cannot be followed by another: the end is reached.
        if _BEFORE_THE_END not in str(error):
            raise FormatError(f"expected a whole JPEG, got {len(contents):,} bytes: {error}") from None
        pixels = decode(contents, colorspace, strict=False, **options)
    return pixels


def _rgb_of_cmyk(cmyk: np.ndarray, is_inverted: bool) -> np.ndarray:
    """TensorFlow's arithmetic; Adobe's programs, and those that follow them, store the inks inverted."""
    if not is_inverted:
        cmyk = 255 - cmyk
    product = cmyk[..., :3].astype(np.uint16) * cmyk[..., 3:]
    rgb: np.ndarray = (product // 255).astype(np.uint8)
    return rgb


def _has_adobe_marker(contents: bytes) -> bool:
    """Whether one of the segments before the pixels is Adobe's. A search would also look into thumbnails."""
    return any(marker == _APP14 and contents.startswith(b"Adobe", start) for marker, start in _segments(contents))


def _frame_header(contents: bytes) -> tuple[int, int, str]:
    """Height, width and colours as the file itself says."""
    for marker, start in _segments(contents):
        if marker in _STARTS_OF_FRAME and start + 6 <= len(contents):
            height, width, components = struct.unpack_from(">HHB", contents, start + 1)
            return height, width, _COLORSPACES.get(components, "unknown")
    raise FormatError(f"expected a JPEG, got {len(contents):,} bytes without a size")


def _segments(contents: bytes) -> Iterator[tuple[int, int]]:
    """The marker of each segment before the pixels, and where its data begin."""
    place = 2
    while place + 4 <= len(contents) and contents[place] == 0xFF:
        marker = contents[place + 1]
        if marker == 0xFF:  # a fill byte
            place += 1
            continue
        if marker == _START_OF_SCAN:
            return
        yield marker, place + 4
        place += 2 + int.from_bytes(contents[place + 2 : place + 4], "big")


def write_jpeg(image: np.ndarray, quality: int, chroma_downsampling: bool) -> bytes:
    """A JPEG with these pixels: (height, width, 1 or 3), uint8."""
    is_gray = image.shape[2] == 1
    subsampling = "Gray" if is_gray else "420" if chroma_downsampling else "444"
    encoded: bytes = simplejpeg().encode_jpeg(
        np.ascontiguousarray(image), quality, "GRAY" if is_gray else "RGB", subsampling
    )
    return encoded
