"""BMP: rows of plain bytes, read by NumPy alone."""

from __future__ import annotations

import struct

import numpy as np

from ..errors import BadArgument, FormatError
from .contents import check_pixels

__all__ = ["read_bmp"]

_FILE_HEADER = 14
_BITFIELDS = 3


def read_bmp(contents: bytes, channels: int, max_pixels: int) -> np.ndarray:
    """The pixels of an uncompressed BMP of 8, 24 or 32 bits."""
    if channels not in (0, 3, 4):
        raise BadArgument(f"channels: expected 0, 3 or 4 for a BMP, got {channels}")
    if len(contents) < _FILE_HEADER + 40:
        raise FormatError(f"expected a BMP, got {len(contents):,} bytes, fewer than its header has")
    start, header_bytes, width, height, _, bits, compression = struct.unpack_from("<IIiiHHI", contents, 10)
    if bits not in (8, 24, 32) or compression not in (0, _BITFIELDS) or (compression and bits != 32):
        raise FormatError(
            f"expected an uncompressed BMP of 8, 24 or 32 bits, got {bits} bits, compression {compression}"
        )
    check_pixels("BMP", abs(height), width, max_pixels)
    if compression and header_bytes >= 52 and struct.unpack_from("<III", contents, 54) != (0xFF0000, 0xFF00, 0xFF):
        raise FormatError("expected a BMP with blue, green and red in this order, got one with others")
    row_bytes = (width * bits // 8 + 3) // 4 * 4  # rows begin at multiples of four bytes
    needed = row_bytes * abs(height)
    if start + needed > len(contents):
        raise FormatError(f"expected a whole BMP of {start + needed:,} bytes, got {len(contents):,}")
    rows = np.frombuffer(contents, np.uint8, needed, start).reshape(abs(height), row_bytes)
    pixels = rows[:, : width * bits // 8].reshape(abs(height), width, bits // 8)
    if height > 0:  # the usual case: the last row comes first
        pixels = pixels[::-1]
    if bits == 8:
        pixels = _looked_up(pixels[..., 0], contents[_FILE_HEADER + header_bytes : start])
    return _in_channels(pixels, channels)


def _looked_up(indices: np.ndarray, palette_bytes: bytes) -> np.ndarray:
    """Pixels by their numbers in the palette; blue first, or grey where the palette is a scale of greys."""
    palette = np.zeros((256, 4), np.uint8)
    known = np.frombuffer(palette_bytes[: 1024 - len(palette_bytes) % 4], np.uint8)
    known = known[: known.size // 4 * 4].reshape(-1, 4)
    palette[: len(known)] = known
    greys = np.arange(len(known), dtype=np.uint8)
    if (known[:, :3] == greys[:, None]).all():
        return indices[..., None]
    pixels: np.ndarray = palette[indices][..., :3]
    return pixels


def _in_channels(pixels: np.ndarray, channels: int) -> np.ndarray:
    """Blue, green, red (and alpha) as red, green, blue, with as many channels as were asked for."""
    found = pixels.shape[2]
    channels = channels or found
    result = np.empty((*pixels.shape[:2], channels), np.uint8)
    if found == 1:
        result[..., : min(channels, 3)] = pixels
    else:
        result[..., :3] = pixels[..., 2::-1]
    if channels == 4:
        result[..., 3] = pixels[..., 3] if found == 4 else 255
    return result
