"""Encoded images to pixels: decode_jpeg, decode_png, decode_bmp, decode_gif, decode_image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import BadArgument, FormatError
from .bmp import read_bmp
from .contents import MAX_PIXELS, as_contents, format_of, refuse_unknown
from .convert import convert_image_dtype
from .crop import crop_to_bounding_box
from .gif import read_gif
from .jpeg import read_jpeg
from .pixels import as_dtype
from .png import read_png

__all__ = ["decode_and_crop_jpeg", "decode_bmp", "decode_gif", "decode_image", "decode_jpeg", "decode_png"]

_UINT8 = np.dtype(np.uint8)


def decode_jpeg(
    contents: Any,
    channels: int = 0,
    ratio: int = 1,
    *,
    fancy_upscaling: bool = True,
    dct_method: str = "INTEGER_ACCURATE",
    max_pixels: int = MAX_PIXELS,
) -> np.ndarray:
    """The pixels of a JPEG file, as uint8.

    Args:
        contents: The file's bytes. A PNG, or a GIF of one frame, is read too, as in TensorFlow: files are often
            misnamed.
        channels: 0 for those of the file, 1 for grey, 3 for RGB. CMYK becomes RGB.
        ratio: 2, 4 or 8 decode to a half, a quarter, an eighth of the size, in about half of the time and less. Other
            pixels than a decode and a resize would give.
        fancy_upscaling: Smooth colours where the file has fewer of them than pixels.
        dct_method: "INTEGER_ACCURATE", or "INTEGER_FAST": a few levels off, hardly faster, and TensorFlow's default.
        max_pixels: The most pixels that a header may claim.

    Orientation in EXIF is ignored, as in TensorFlow. A file that is cut short is a `FormatError`.

    >>> import numpy as np, penstock as ps
    >>> encoded = ps.image.encode_jpeg(np.zeros((4, 6, 3), np.uint8))
    >>> ps.image.decode_jpeg(encoded, ratio=2).shape
    (2, 3, 3)
    """
    contents = as_contents(contents)
    if contents[:3] == b"\xff\xd8\xff":
        return read_jpeg(contents, channels, ratio, fancy_upscaling, dct_method, max_pixels)
    if format_of(contents) == "PNG":
        if ratio != 1:
            raise BadArgument(f"ratio: expected 1 for a PNG, got {ratio}")
        return read_png(contents, channels, _UINT8, max_pixels)
    if format_of(contents) == "GIF":
        if ratio != 1:
            raise BadArgument(f"ratio: expected 1 for a GIF, got {ratio}")
        return _only_frame(contents, channels, max_pixels)
    raise refuse_unknown(contents, "a JPEG or a PNG")


def decode_and_crop_jpeg(
    contents: Any,
    crop_window: Sequence[int],
    channels: int = 0,
    ratio: int = 1,
    *,
    fancy_upscaling: bool = True,
    dct_method: str = "INTEGER_ACCURATE",
    max_pixels: int = MAX_PIXELS,
) -> np.ndarray:
    """The pixels of a JPEG within a window: `decode_jpeg` and `crop_to_bounding_box` in one.

    Args:
        contents: The file's bytes.
        crop_window: (offset_height, offset_width, target_height, target_width), in the pixels of the result of
            `decode_jpeg`.
        channels, ratio, fancy_upscaling, dct_method, max_pixels: See `decode_jpeg`.

    The whole image is decoded for a moment. Pixels are those of the whole image, where TensorFlow's differ a little at
    the window's right edge.
    """
    window = [int(number) for number in crop_window]
    if len(window) != 4:
        raise BadArgument(
            f"crop_window: expected (offset_height, offset_width, target_height, target_width), got {window}"
        )
    options: dict[str, Any] = {"fancy_upscaling": fancy_upscaling, "dct_method": dct_method, "max_pixels": max_pixels}
    return crop_to_bounding_box(decode_jpeg(contents, channels, ratio, **options), *window)


def decode_png(contents: Any, channels: int = 0, dtype: Any = np.uint8, *, max_pixels: int = MAX_PIXELS) -> np.ndarray:
    """The pixels of a PNG file, bit for bit those of tf.io.decode_png.

    Args:
        contents: The file's bytes. A JPEG, or a GIF of one frame, is read too, as in TensorFlow.
        channels: 0 for those of the file, 1 for grey, 3 for RGB, 4 for RGB with alpha.
        dtype: uint8 or uint16. Files of 16 bits lose the lower half in uint8; files of 8 bits are scaled to uint16.
        max_pixels: The most pixels that a header may claim.

    >>> import numpy as np, penstock as ps
    >>> encoded = ps.image.encode_png(np.full((2, 2, 1), 7, np.uint8))
    >>> ps.image.decode_png(encoded, channels=3)[0, 0].tolist()
    [7, 7, 7]
    """
    contents = as_contents(contents)
    dtype = as_dtype(dtype)
    if dtype not in (np.uint8, np.uint16):
        raise BadArgument(f"dtype: expected uint8 or uint16, got {dtype}")
    found = format_of(contents)
    if found == "PNG":
        return read_png(contents, channels, dtype, max_pixels)
    if found == "JPEG":
        return _as_dtype(read_jpeg(contents, channels, 1, True, "", max_pixels), dtype)
    if found == "GIF":
        return _as_dtype(_only_frame(contents, channels, max_pixels), dtype)
    raise refuse_unknown(contents, "a PNG or a JPEG")


def decode_bmp(contents: Any, channels: int = 0, *, max_pixels: int = MAX_PIXELS) -> np.ndarray:
    """The pixels of an uncompressed BMP file of 8, 24 or 32 bits, as uint8.

    Args:
        contents: The file's bytes.
        channels: 0 for those of the file, 3 for RGB, 4 for RGB with alpha.
        max_pixels: The most pixels that a header may claim.

    A palette is looked up: TensorFlow gives the numbers in it instead.
    """
    contents = as_contents(contents)
    if format_of(contents) != "BMP":
        raise refuse_unknown(contents, "a BMP")
    return read_bmp(contents, channels, max_pixels)


def decode_gif(contents: Any, *, max_pixels: int = MAX_PIXELS) -> np.ndarray:
    """All frames of a GIF file, as uint8: (number, height, width, 3).

    Args:
        contents: The file's bytes. A JPEG or a PNG is one frame, as in TensorFlow.
        max_pixels: The most pixels that all frames together may have.
    """
    contents = as_contents(contents)
    found = format_of(contents)
    if found == "GIF":
        return read_gif(contents, max_pixels)
    if found == "JPEG":
        return read_jpeg(contents, 3, 1, True, "", max_pixels)[None]
    if found == "PNG":
        return read_png(contents, 3, _UINT8, max_pixels)[None]
    raise refuse_unknown(contents, "a GIF")


def decode_image(
    contents: Any,
    channels: int | None = None,
    dtype: Any = np.uint8,
    expand_animations: bool = True,
    *,
    max_pixels: int = MAX_PIXELS,
) -> np.ndarray:
    """The pixels of a JPEG, PNG, BMP or GIF file.

    Args:
        contents: The file's bytes.
        channels: None or 0 for those of the file; else as in the decoder of the file's format.
        dtype: uint8, uint16 or float32; float32 is between 0 and 1.
        expand_animations: Whether a GIF has four dimensions, the first being its frames. If not, it is its first frame.
        max_pixels: The most pixels that a header may claim.

    >>> import numpy as np, penstock as ps
    >>> encoded = ps.image.encode_png(np.full((2, 2, 3), 255, np.uint8))
    >>> float(ps.image.decode_image(encoded, dtype=np.float32).max())
    1.0
    """
    contents = as_contents(contents)
    channels = channels or 0
    dtype = as_dtype(dtype)
    if dtype not in (np.uint8, np.uint16, np.float32):
        raise BadArgument(f"dtype: expected uint8, uint16 or float32, got {dtype}")
    found = format_of(contents)
    if found == "JPEG":
        return _as_dtype(read_jpeg(contents, channels, 1, True, "", max_pixels), dtype)
    if found == "PNG":
        # Of 16 bits per colour none are lost on the way to float32.
        stored = np.dtype(np.uint16) if dtype == np.float32 else dtype
        return _as_dtype(read_png(contents, channels, stored, max_pixels), dtype)
    if found == "BMP":
        return _as_dtype(read_bmp(contents, channels, max_pixels), dtype)
    if found == "GIF":
        _check_gif_channels(channels)
        frames = read_gif(contents, max_pixels)
        return _as_dtype(frames if expand_animations else frames[0].copy(), dtype)
    raise refuse_unknown(contents, "a JPEG, PNG, BMP or GIF")


def _only_frame(contents: bytes, channels: int, max_pixels: int) -> np.ndarray:
    """The pixels of a GIF that is one image; of a moving one nobody knows which is meant."""
    _check_gif_channels(channels)
    frames = read_gif(contents, max_pixels)
    if len(frames) > 1:
        raise FormatError(f"expected one image, got a GIF of {len(frames):,} frames, which decode_gif gives")
    return frames.reshape(frames.shape[1:])


def _check_gif_channels(channels: int) -> None:
    if channels not in (0, 3):
        raise BadArgument(f"channels: expected 0 or 3 for a GIF, got {channels}")


def _as_dtype(pixels: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    return pixels if pixels.dtype == dtype else convert_image_dtype(pixels, dtype)
