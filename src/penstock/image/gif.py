"""GIF: OpenCV's decoder, behind a walk over the file's blocks.

The walk finds how many frames there are before any is decoded, and whether the file is whole. It also finds what frames
say of what comes after them: each is drawn over the one before, as in TensorFlow, whether or not that should be wiped.
"""

from __future__ import annotations

import struct

import numpy as np

from ..errors import FormatError
from .contents import check_pixels
from .libraries import opencv, without_log

__all__ = ["read_gif"]

_IMAGE, _EXTENSION, _TRAILER = 0x2C, 0x21, 0x3B
# An extension that says how the next frame is drawn, and of its flags those on what becomes of it: it may stay.
_DRAWING, _AFTERWARDS, _STAYS = 0xF9, 0b11100, 0b00100


def read_gif(contents: bytes, max_pixels: int) -> np.ndarray:
    """The frames of a GIF: (number, height, width, 3)."""
    try:
        num_frames, flags_at = _frames(contents)
    except IndexError:
        raise FormatError(f"expected a whole GIF, got {len(contents):,} bytes that end before its last block") from None
    if num_frames == 0:
        raise FormatError("expected a GIF with a frame, got one without")
    width, height = struct.unpack_from("<HH", contents, 6)
    check_pixels("GIF", height, width, max_pixels, num_frames)
    encoded = np.frombuffer(contents, np.uint8)
    if flags_at:
        encoded = encoded.copy()
        encoded[flags_at] = encoded[flags_at] & (0xFF ^ _AFTERWARDS) | _STAYS
    cv2 = opencv()
    try:
        with without_log():
            is_read, animation = cv2.imdecodeanimation(encoded, 0, num_frames)
    except cv2.error as error:
        raise FormatError(f"expected a GIF, got {len(contents):,} bytes: {error}") from None
    if not is_read or len(animation.frames) != num_frames:
        raise FormatError(f"expected a GIF, got {len(contents):,} bytes whose pixels cannot be decompressed")
    frames = np.empty((num_frames, height, width, 3), np.uint8)
    for frame, pixels in zip(frames, animation.frames, strict=True):
        frame[...] = pixels[..., 2::-1]
        if pixels.shape[2] == 4:  # where no frame has drawn yet TensorFlow has black
            frame *= pixels[..., 3:] > 0
    return frames


def _frames(contents: bytes) -> tuple[int, list[int]]:
    """How many images there are up to the trailer, and where their flags are. IndexError where the file ends before."""
    place = 13 + _table_bytes(contents[10])
    num_frames = 0
    flags_at: list[int] = []
    while (kind := contents[place]) != _TRAILER:
        if kind == _IMAGE:
            num_frames += 1
            place += 10 + _table_bytes(contents[place + 9]) + 1
        elif kind == _EXTENSION:
            if contents[place + 1] == _DRAWING and contents[place + 2]:
                flags_at.append(place + 3)
            place += 2
        else:
            raise FormatError(f"expected a GIF, got one with an unknown block 0x{kind:02x} at byte {place:,}")
        while num_bytes := contents[place]:
            place += num_bytes + 1
        place += 1
    return num_frames, flags_at


def _table_bytes(flags: int) -> int:
    return 3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0
