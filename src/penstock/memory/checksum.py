"""The checksum of a batch in an Arrow file: of its head, in which it stands as a text, and of its buffers.

The head says where the buffers begin, so a head that is damaged makes other elements of buffers that are not. Before it
is computed the text is all question marks. Files of versions before have checksums of the buffers alone.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["CHECKSUM_KEY", "UNKNOWN_CHECKSUM", "has_right_body", "has_right_checksum", "with_checksum"]

#: Where it stands in the metadata of a head.
CHECKSUM_KEY = "penstock.crc32"
UNKNOWN_CHECKSUM = b"batch:????????"
_TEXT = b"batch:%08x"
_BODY_TEXT = b"crc32:%08x"
_CONTINUES = 0xFFFFFFFF


def with_checksum(head: bytes, body: Sequence[Any]) -> bytes:
    """The head of a batch, without the eight bytes in front that say how long it is, with its text filled in."""
    checksum = zlib.crc32(head, zlib.crc32(struct.pack("<II", _CONTINUES, len(head))))
    for part in body:
        checksum = zlib.crc32(part, checksum)
    return head.replace(UNKNOWN_CHECKSUM, _TEXT % checksum)


def has_right_checksum(batch: np.ndarray) -> bool:
    """Whether a whole batch has a checksum, and is as it was when that was computed."""
    head, text = _head_of(batch), b""
    if (found := head.find(_TEXT[:6])) >= 0:
        text = head[found : found + len(UNKNOWN_CHECKSUM)]
        head = head[:found] + UNKNOWN_CHECKSUM + head[found + len(UNKNOWN_CHECKSUM) :]
    return text == _TEXT % zlib.crc32(batch.data[len(head) :], zlib.crc32(head))


def has_right_body(batch: np.ndarray) -> bool:
    """The same for a batch of earlier versions; one without a checksum is taken as it is."""
    head = _head_of(batch)
    found = head.find(_BODY_TEXT[:6])
    text = head[found : found + len(UNKNOWN_CHECKSUM)]
    return found < 0 or text == _BODY_TEXT % zlib.crc32(batch.data[len(head) :])


def _head_of(batch: np.ndarray) -> bytes:
    return batch[: 8 + int(batch[4:8].view("<u4")[0])].tobytes() if batch.nbytes >= 8 else b""
