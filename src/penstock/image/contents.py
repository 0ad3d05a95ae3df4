"""Encoded images before they are decoded: which format they are in, and whether their size is plausible."""

from __future__ import annotations

from typing import Any

from ..errors import BadArgument, BadType, FormatError

__all__ = ["MAX_PIXELS", "as_contents", "check_pixels", "format_of", "refuse_unknown"]

#: Pixels that an encoded image may have unless `max_pixels` says otherwise: 300 MB of 8-bit RGB. A header of a few
#: bytes can claim any size, and what it claims would be allocated before the rest of the file proves it wrong.
MAX_PIXELS = 100_000_000

_MAGIC = (
    ("JPEG", b"\xff\xd8\xff"),
    ("PNG", b"\x89PNG\r\n\x1a\n"),
    ("GIF", b"GIF8"),
    ("BMP", b"BM"),
)


def as_contents(contents: Any) -> bytes:
    """The bytes of an encoded image."""
    if isinstance(contents, bytes):
        return contents
    try:
        view = memoryview(contents)
    except TypeError:
        raise BadType(f"contents: expected the bytes of an image file, got {type(contents).__name__}") from None
    return bytes(view)


def format_of(contents: bytes) -> str | None:
    """The format that the first bytes tell of, or None."""
    for name, magic in _MAGIC:
        if contents.startswith(magic):
            return name
    return None


def refuse_unknown(contents: bytes, expected: str) -> FormatError:
    """The error for bytes that begin like no format that was expected."""
    found = format_of(contents)
    if not contents:
        got = "0 bytes"
    elif found is not None:
        got = f"a {found}"
    else:
        got = f"{len(contents):,} bytes that begin with {contents[:8]!r}"
    return FormatError(f"expected {expected}, got {got}")


def check_pixels(name: str, height: int, width: int, max_pixels: int, num_frames: int = 1) -> None:
    """Refuses an image of more pixels than the caller allows, before anything is allocated for them."""
    if max_pixels < 1:
        raise BadArgument(f"max_pixels: expected at least 1, got {max_pixels}")
    if height < 1 or width < 1:
        raise FormatError(f"expected a {name} with pixels, got a header that says {height} × {width}")
    num_pixels = height * width * num_frames
    if num_pixels > max_pixels:
        frames = f"{num_frames:,} frames of " if num_frames > 1 else ""
        raise FormatError(
            f"expected a {name} of at most {max_pixels:,} pixels, got a header that says "
            f"{frames}{height:,} × {width:,} = {num_pixels:,}; if that is true, pass max_pixels={num_pixels}"
        )
