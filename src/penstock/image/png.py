"""PNG: libpng through OpenCV, given only what it needs.

Chunks and their checksums are looked at first. What is truncated or damaged is refused here, with a reason, because
libpng would write to stderr and OpenCV would only say None. Chunks that do not make pixels (colour profiles, text,
orientation, animation) are left out: TensorFlow ignores them, and libpng warns of many.
"""

from __future__ import annotations

import dataclasses
import struct
import zlib
from typing import Any

import numpy as np

from ..errors import BadArgument, FormatError
from .contents import check_pixels
from .libraries import opencv

__all__ = ["read_png", "write_png"]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# By colour type: the bit depths that the format allows.
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_RGB, _PALETTE, _GRAY_ALPHA = 2, 3, 4
_WITHOUT_COLOR = (0, 4)


@dataclasses.dataclass
class _Chunks:
    """A PNG taken apart: its header, its transparent colour, and the bytes that OpenCV is given."""

    height: int
    width: int
    depth: int
    color_type: int
    transparent: bytes
    essential: bytes


def read_png(contents: bytes, channels: int, dtype: np.dtype[Any], max_pixels: int) -> np.ndarray:
    """The pixels of a PNG, as uint8 or uint16."""
    if channels not in (0, 1, 3, 4):
        raise BadArgument(f"channels: expected 0, 1, 3 or 4, got {channels}")
    chunks = _chunks(contents, max_pixels)
    cv2 = opencv()
    try:
        # As they are, which is blue first; but plain colours can be had red first at once.
        is_rgb = chunks.color_type == _RGB
        flags = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_ANYDEPTH if is_rgb else cv2.IMREAD_UNCHANGED
        pixels = cv2.imdecode(np.frombuffer(chunks.essential, np.uint8), flags)
    except cv2.error as error:
        raise FormatError(f"expected a PNG, got {len(contents):,} bytes: {error}") from None
    if pixels is None:
        raise FormatError(f"expected a PNG, got {len(contents):,} bytes whose pixels cannot be decompressed")
    if not is_rgb:
        pixels = _in_file_channels(pixels, chunks)
    if channels:
        pixels = _in_channels(pixels, channels, chunks)
    return _in_dtype(pixels, dtype)


def _chunks(contents: bytes, max_pixels: int) -> _Chunks:
    """Reads the chunks once, from first to last."""
    if len(contents) < 33 or contents[12:16] != b"IHDR":
        raise FormatError(f"expected a PNG, got {len(contents):,} bytes without a header")
    width, height, depth, color_type, compression, filters, interlace = struct.unpack_from(">IIBBBBB", contents, 16)
    if depth not in _DEPTHS.get(color_type, ()) or compression or filters or interlace > 1:
        raise FormatError(f"expected a PNG, got a header with colour type {color_type} and {depth} bits")
    check_pixels("PNG", height, width, max_pixels)
    view = memoryview(contents)
    kept: list[Any] = [_SIGNATURE]
    transparent = b""
    has_palette = has_pixels = False
    place = len(_SIGNATURE)
    while True:
        if place + 12 > len(contents):
            raise FormatError(f"expected a whole PNG, got {len(contents):,} bytes that end within a chunk")
        (num_bytes,) = struct.unpack_from(">I", contents, place)
        name = contents[place + 4 : place + 8]
        end = place + 12 + num_bytes
        if end > len(contents):
            raise FormatError(
                f"expected a whole PNG, got {len(contents):,} bytes, of which chunk {name!r} alone needs {end:,}"
            )
        is_essential = name in (b"IHDR", b"PLTE", b"IDAT", b"IEND") or (name == b"tRNS" and color_type == _PALETTE)
        if is_essential or name == b"tRNS":
            (checksum,) = struct.unpack_from(">I", contents, end - 4)
            if zlib.crc32(view[place + 4 : end - 4]) != checksum:
                raise FormatError(f"expected a PNG, got one whose chunk {name!r} at byte {place:,} fails its checksum")
        if name == b"tRNS" and color_type != _PALETTE:
            transparent = contents[place + 8 : end - 4]
        if is_essential:
            kept.append(view[place:end])
            has_palette |= name == b"PLTE"
            has_pixels |= name == b"IDAT"
        place = end
        if name == b"IEND":
            break
    if not has_pixels or (color_type == _PALETTE and not has_palette):
        raise FormatError(
            f"expected a PNG, got one without {'pixels' if has_palette or not has_pixels else 'a palette'}"
        )
    return _Chunks(height, width, depth, color_type, transparent, b"".join(kept))


def _in_file_channels(pixels: np.ndarray, chunks: _Chunks) -> np.ndarray:
    """OpenCV's pixels (blue first, grey with alpha as colour) as the file has them."""
    if pixels.ndim == 2:
        return pixels[..., None]
    if chunks.color_type == _GRAY_ALPHA:
        return np.ascontiguousarray(pixels[..., 2:])
    cv2 = opencv()
    swapped: np.ndarray = cv2.cvtColor(pixels, cv2.COLOR_BGRA2RGBA if pixels.shape[2] == 4 else cv2.COLOR_BGR2RGB)
    return swapped


def _in_channels(pixels: np.ndarray, channels: int, chunks: _Chunks) -> np.ndarray:
    found = pixels.shape[2]
    if found == channels:
        return pixels
    has_color = chunks.color_type not in _WITHOUT_COLOR
    if channels == 1:
        return _gray(pixels) if has_color else np.ascontiguousarray(pixels[..., :1])
    if channels == 4 and found != 2:
        alpha = _alpha(pixels, chunks)
    else:
        alpha = pixels[..., -1:]
    color = pixels[..., :3] if has_color else np.repeat(pixels[..., :1], 3, axis=2)
    return np.ascontiguousarray(color) if channels == 3 else np.concatenate((color, alpha), axis=2)


def _gray(pixels: np.ndarray) -> np.ndarray:
    """libpng's grey, in its fixed-point numbers."""
    red, green, blue = (pixels[..., i : i + 1].astype(np.uint32) for i in range(3))
    half = 1 << 14 if pixels.dtype == np.uint16 else 0  # libpng rounds 16 bits, and cuts 8
    return ((red * 9797 + green * 19234 + blue * 3737 + half) >> 15).astype(pixels.dtype)


def _alpha(pixels: np.ndarray, chunks: _Chunks) -> np.ndarray:
    """Opaque, but for the one colour that the file may name as transparent."""
    most = np.iinfo(pixels.dtype).max
    num_values = 1 if chunks.color_type in _WITHOUT_COLOR else 3
    if len(chunks.transparent) < 2 * num_values:
        return np.full((*pixels.shape[:2], 1), most, pixels.dtype)
    color = np.array(struct.unpack_from(f">{num_values}H", chunks.transparent))
    if chunks.depth < 8:
        color = color * (255 // (2**chunks.depth - 1))
    is_transparent = np.all(pixels == color, axis=2, keepdims=True)
    return np.where(is_transparent, 0, most).astype(pixels.dtype)


def _in_dtype(pixels: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    if pixels.dtype == dtype:
        return pixels
    if dtype == np.uint8:
        return (pixels >> 8).astype(np.uint8)
    return pixels.astype(np.uint16) * 257


def write_png(image: np.ndarray, compression: int) -> bytes:
    """A PNG with these pixels: (height, width, 1 to 4), uint8 or uint16."""
    if image.shape[2] == 2:
        return _write_gray_alpha(image, compression)
    cv2 = opencv()
    if image.shape[2] > 1:
        image = cv2.cvtColor(image, cv2.COLOR_RGBA2BGRA if image.shape[2] == 4 else cv2.COLOR_RGB2BGR)
    options = [] if compression < 0 else [cv2.IMWRITE_PNG_COMPRESSION, compression]
    _, encoded = cv2.imencode(".png", image, options)
    contents: bytes = encoded.tobytes()
    return contents


def _write_gray_alpha(image: np.ndarray, compression: int) -> bytes:
    """Grey with alpha, which OpenCV cannot write: rows as they are, without prediction."""
    height, width, _ = image.shape
    values = np.ascontiguousarray(image, dtype=image.dtype.newbyteorder(">")).view(np.uint8).reshape(height, -1)
    rows = np.zeros((height, values.shape[1] + 1), np.uint8)  # each row begins with the number of its filter: none
    rows[:, 1:] = values
    header = struct.pack(">IIBBBBB", width, height, 8 * image.dtype.itemsize, _GRAY_ALPHA, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), compression)), (b"IEND", b""))
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
