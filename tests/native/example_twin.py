"""The Example kernels in plain Python: what TensorFlow's parsers accept, written for reading rather than speed."""

from __future__ import annotations

import struct
from typing import Any

BYTES, FLOATS, INTS = 1, 2, 3


class Bad(Exception):
    """The bytes are refused."""


class Reader:
    """A part of a record. A part that claims to be longer than what holds it ends there."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def done(self) -> bool:
        return self.at == len(self.data)

    def rest(self) -> bytes:
        return self.data[self.at :]

    def varint(self) -> int:
        value = 0
        for i, byte in enumerate(self.rest()[:10]):
            value |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                self.at += i + 1
                return value % 2**64
        raise Bad

    def length(self) -> int:
        return self.varint() % 2**32

    def expect(self, tag: int) -> None:
        if self.rest()[:1] != bytes([tag]):
            raise Bad
        self.at += 1

    def take(self, size: int) -> bytes:
        if size > len(self.rest()):
            raise Bad
        self.at += size
        return self.data[self.at - size : self.at]

    def cut(self, size: int) -> bytes:
        return self.take(min(size, len(self.rest())))

    def skip(self, tag: int) -> None:
        match tag & 7:
            case 0:
                self.varint()
            case 1:
                self.take(8)
            case 5:
                self.take(4)
            case 2:
                self.cut(self.length())
            case _:
                raise Bad


def entries(record: bytes, maps: set[int], in_order: bool) -> list[tuple[int, bytes, bytes]]:
    """(field, key, value) of every entry of the maps in these fields."""
    found = []
    message = Reader(record)
    while not message.done():
        tag = message.rest()[0]
        if tag not in {number << 3 | 2 for number in maps}:
            message.skip(message.length())
            continue
        message.at += 1
        part = Reader(message.cut(message.length()))
        while not part.done():
            part.expect(0x0A)
            one = Reader(part.cut(part.length()))
            values = {10: b"", 18: b""}
            for expected in (10, 18):
                kind = one.rest()[0] if in_order and not one.done() else one.length()
                if kind not in values or (in_order and kind != expected):
                    raise Bad
                one.at += in_order
                values[kind] = one.take(one.length())
            if not one.done():
                raise Bad
            found.append((tag >> 3, values[10], values[18]))
    return found


def values_of(reader: Reader, kind: int, strict: bool) -> list[Any]:
    """The list that begins behind its tag. `strict`: as SequenceExamples are read."""
    size = reader.length()
    part = Reader(reader.rest()[:size])
    out: list[Any] = []
    if size and part.done() and strict and kind != BYTES:
        raise Bad
    if kind != BYTES and part.rest()[:1] == b"\x0a":
        part.at += 1
        size = part.length()
        if kind == INTS:
            chunk = Reader(part.cut(size))
            while not chunk.done():
                out.append(chunk.varint())
        else:
            size = min(size, len(part.rest())) if strict else size // 4 * 4
            if size % 4:
                raise Bad
            out = list(struct.unpack(f"<{size // 4}f", part.take(size)))
    else:
        while not part.done():
            part.expect({BYTES: 0x0A, FLOATS: 0x0D, INTS: 0x08}[kind])
            if kind == BYTES:
                out.append(part.take(part.length()))
            else:
                out.append(part.varint() if kind == INTS else struct.unpack("<f", part.take(4))[0])
    reader.at += part.at
    return [value - 2**64 if kind == INTS and value >= 2**63 else value for value in out]


def feature_of_example(record: bytes, key: bytes, kind: int, empty_replaces: bool) -> list[Any] | None:
    """The values under a key; None where it is missing or has no list."""
    found = None
    for _, name, value in entries(record, {1}, in_order=False):
        if name == key and (value or empty_replaces):
            if value and value[0] not in (0x0A, 0x12, 0x1A):
                raise Bad
            found = value
    if not found:
        return None
    if found[0] != kind << 3 | 2:
        raise Bad
    return values_of(Reader(found[1:]), kind, strict=False)


def feature_of_context(record: bytes, key: bytes, kind: int) -> list[Any] | None:
    """The same of the context of a SequenceExample; None only where it is missing."""
    found = None
    for number, name, value in entries(record, {1, 2}, in_order=True):
        if number == 1 and name == key:
            found = value
    if not found:
        return found if found is None else []
    reader = Reader(found)
    reader.expect(kind << 3 | 2)
    return values_of(reader, kind, strict=True)


def feature_list(record: bytes, key: bytes, kind: int) -> list[list[Any]] | None:
    """The steps of a feature list; None where it is missing."""
    found = None
    for number, name, value in entries(record, {1, 2}, in_order=True):
        if number == 2 and name == key:
            found = value
    if found is None:
        return None
    reader = Reader(found)
    out = []
    while not reader.done():
        reader.expect(0x0A)
        size = reader.length()
        if size == 0:
            out.append([])
            continue
        step = Reader(reader.rest()[: None if size == 2 else size])
        step.expect(kind << 3 | 2)
        if size == 2 and step.length() != 0:
            raise Bad
        out.append([] if size == 2 else values_of(step, kind, strict=True))
        reader.at += step.at
    return out
