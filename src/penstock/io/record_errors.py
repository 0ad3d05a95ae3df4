"""What can be wrong with a TFRecord file, in words: which file, which record, at which byte, what was expected."""

from __future__ import annotations

from ..errors import FormatError

__all__ = ["FRAME_BYTES", "HEADER_BYTES", "Stop", "damaged", "truncated"]

#: Length and its checksum, before the data of a record.
HEADER_BYTES = 12
#: These, and the checksum of the data behind it.
FRAME_BYTES = 16


class Stop:
    """Why no record was found: the numbers of `scan_records`."""

    END = 0
    HEADER_INCOMPLETE = 1
    DATA_INCOMPLETE = 2
    BAD_LENGTH = 3
    BAD_DATA = 4


def damaged(path: str, number: int, offset: int, why: int, expected: int, got: int) -> FormatError:
    """A checksum that does not fit."""
    what = "length" if why == Stop.BAD_LENGTH else "data"
    rest = "; what follows cannot be read" if why == Stop.BAD_LENGTH else ""
    return FormatError(
        f"{path}: record {number:,} at byte {offset:,} is damaged: its {what} has the checksum {got:#010x}, expected "
        f"{expected:#010x}{rest}"
    )


def truncated(path: str, number: int, offset: int, length: int | None, left: int) -> FormatError:
    """A file that ends within a record; `length` is None where not even that is there."""
    if length is None:
        expected = f"a header of {HEADER_BYTES} bytes"
    else:
        expected = f"{length + FRAME_BYTES:,} bytes"
    return FormatError(
        f"{path}: expected {expected} for record {number:,} at byte {offset:,}, the file ends after {left:,} bytes"
    )
