"""Checksums and framing against plain-Python twins, and against hostile bytes."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock._native import RecordBuffer, crc32c, crc32c_portable, frame_record, frame_records, scan_records

END, HEADER_INCOMPLETE, DATA_INCOMPLETE, BAD_LENGTH, BAD_DATA = range(5)


def twin_crc(data: bytes) -> int:
    """Bit by bit, as it is defined."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(crc: int) -> int:
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32


def frame(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked(twin_crc(length))) + data + struct.pack("<I", masked(twin_crc(data)))


def scan(
    data: bytes, start: int = 0, length: bool = True, content: bool = True, most: int = 100
) -> tuple[list[bytes], tuple[int, ...]]:
    offsets, lengths = np.empty(most, np.int64), np.empty(most, np.int64)
    count, *rest = scan_records(data, start, length, content, offsets, lengths)
    places = zip(offsets[:count].tolist(), lengths[:count].tolist(), strict=True)
    return [data[at : at + size] for at, size in places], tuple(rest)


# --- checksums ---


@pytest.mark.parametrize(
    ("data", "crc"),
    [  # RFC 3720, B.4
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
        (b"123456789", 0xE3069283),
        (b"", 0),
    ],
)
def test_known_checksums(data: bytes, crc: int) -> None:
    assert crc32c(data) == crc32c_portable(data) == twin_crc(data) == crc


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.binary(max_size=300), st.integers(0, 8))
def test_checksums_at_any_place(data: bytes, start: int) -> None:
    assert crc32c(memoryview(data)[start:]) == crc32c_portable(memoryview(data)[start:]) == twin_crc(data[start:])


@pytest.mark.parametrize("size", [767, 768, 769, 1535, 1536, 2304, 3071, 3072, 3073, 6143, 6144, 10_000, 100_001])
def test_lanes_join(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    assert crc32c(data) == crc32c_portable(data)
    data[size // 2] ^= 1
    assert crc32c(data) == crc32c_portable(data)


# --- framing ---


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.lists(st.binary(max_size=100), max_size=6), st.integers(0, 9))
def test_frames_are_the_twins_and_are_found_again(records: list[bytes], start: int) -> None:
    expected = b"".join(frame(record) for record in records)
    out = bytearray(b"?" * (start + len(expected) + 3))
    assert frame_records(records, out, start) == start + len(expected)
    assert out == b"?" * start + expected + b"???"
    found, (offset, stop, *_) = scan(bytes(out[: start + len(expected)]), start)
    assert (found, offset, stop) == (records, start + len(expected), END)


def test_records_of_a_buffer_are_framed() -> None:
    buffer = b"abcdef"
    out = bytearray(2 * 16 + 5)
    frame_records((buffer, np.array([1, 0]), np.array([2, 3])), out, 0)
    assert out == frame(b"bc") + frame(b"abc")


@pytest.mark.parametrize("size", [0, 1, 5000, 100_000])
def test_one_record_is_framed(size: int) -> None:
    out = bytearray(size + 20)
    assert frame_record(b"x" * size, out, 3) == size + 19
    again = bytearray(size + 20)
    frame_records([b"x" * size], again, 3)
    assert out == again
    with pytest.raises(ValueError, match=f"out must have {size + 16} bytes from 5 on"):
        frame_record(b"x" * size, out, 5)
    with pytest.raises(TypeError):
        frame_record("x", out, 0)  # type: ignore[arg-type]  # wrong on purpose


def test_a_buffer_takes_records_as_long_as_there_is_room() -> None:
    memory = bytearray(16 + 16 + 3 + 18)
    buffer = RecordBuffer(memory)
    assert buffer.add(b"")
    assert buffer.add(b"abc")
    assert not buffer.add(b"def")
    assert buffer.add(b"gh")
    assert not buffer.add(b"")
    assert buffer.take() == len(memory)
    assert memory == frame(b"") + frame(b"abc") + frame(b"gh")
    assert buffer.take() == 0
    assert buffer.add(b"again")
    assert memory[: buffer.take()] == frame(b"again")


def test_a_buffer_takes_bytes_and_nothing_else() -> None:
    class Subclass(bytes):
        pass

    memory = bytearray(100)
    buffer = RecordBuffer(memory)
    for other in ("x", bytearray(b"x"), memoryview(b"x"), None, 1, Subclass(b"x")):
        assert not buffer.add(other)
    assert buffer.take() == 0
    with pytest.raises(BufferError):  # what the buffer writes to stays where it is
        memory.clear()
    with pytest.raises((BufferError, TypeError)):
        RecordBuffer(b"read-only")  # type: ignore[arg-type]  # wrong on purpose


def test_a_scan_goes_on_where_it_stopped() -> None:
    data = b"".join(frame(bytes([number]) * number) for number in range(7))
    found: list[bytes] = []
    offset = 0
    while offset < len(data):
        part, (offset, stop, *_) = scan(data, offset, most=2)
        assert stop == END
        found += part
    assert found == [bytes([number]) * number for number in range(7)]


def test_a_buffer_that_ends_inside_of_a_record() -> None:
    data = frame(b"first") + frame(b"second")
    begin = len(frame(b"first"))
    for end in range(begin, len(data)):
        found, (offset, stop, expected, got) = scan(data[:end])
        assert (found, offset) == ([b"first"], begin)
        left = end - begin
        if left == 0:
            assert stop == END
        elif left < 12:
            assert (stop, expected, got) == (HEADER_INCOMPLETE, 12, left)
        else:
            assert (stop, expected, got) == (DATA_INCOMPLETE, 6, left - 12)


@pytest.mark.parametrize("at", range(26))
def test_every_changed_byte_is_found(at: int) -> None:
    data = bytearray(frame(b"0123456789"))
    data[at] ^= 0x10
    found, (offset, stop, expected, got) = scan(frame(b"ok") + bytes(data))
    assert (found, offset) == ([b"ok"], 18)
    assert stop == (BAD_LENGTH if at < 12 else BAD_DATA)
    covered = bytes(data[:8]) if at < 12 else bytes(data[12:22])
    stored = data[8:12] if at < 12 else data[22:26]
    assert (expected, got) == (int.from_bytes(stored, "little"), masked(twin_crc(covered)))


def test_checks_can_be_left_out() -> None:
    data = bytearray(frame(b"0123456789"))
    data[8] ^= 1
    data[15] ^= 1
    assert scan(bytes(data))[1][1] == BAD_LENGTH
    assert scan(bytes(data), length=False)[1][1] == BAD_DATA
    assert scan(bytes(data), length=False, content=False)[0] == [bytes(data[12:22])]


@pytest.mark.parametrize("length", [2**63, 2**63 - 1, 2**64 - 1, 2**64 - 16, 2**32, 11])
def test_a_length_beyond_the_end_is_told_and_nothing_more(length: int) -> None:
    header = struct.pack("<Q", length)
    data = header + struct.pack("<I", masked(twin_crc(header))) + b"0123456789" + b"1234"
    for check in (True, False):
        found, rest = scan(data, length=check)
        assert found == []
        assert rest == (0, DATA_INCOMPLETE, length, 14)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.binary(max_size=80), st.booleans(), st.booleans())
def test_any_bytes(data: bytes, length: bool, content: bool) -> None:
    found, (offset, stop, *_) = scan(data, 0, length, content)
    assert sum(len(record) + 16 for record in found) == offset <= len(data)
    assert (stop == END) == (offset == len(data))


def test_arguments_are_checked() -> None:
    offsets, lengths = np.empty(2, np.int64), np.empty(2, np.int64)
    with pytest.raises(IndexError, match="start is 4, behind the 3 bytes"):
        scan_records(b"abc", 4, True, True, offsets, lengths)
    with pytest.raises(ValueError, match="negative"):
        scan_records(b"abc", -1, True, True, offsets, lengths)
    with pytest.raises(ValueError, match="of one length, got 2 and 1"):
        scan_records(b"abc", 0, True, True, offsets, lengths[:1])
    with pytest.raises(TypeError):
        scan_records(b"abc", 0, True, True, offsets.astype(np.int32), lengths)
    with pytest.raises(ValueError, match="must have 18 bytes from 1 on, got 18"):
        frame_records([b"ab"], bytearray(18), 1)
    with pytest.raises(BufferError):
        frame_records([b"ab"], b"0" * 18, 0)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(TypeError, match="record 0 must be bytes"):
        frame_records(["ab"], bytearray(18), 0)  # type: ignore[list-item]  # wrong on purpose
