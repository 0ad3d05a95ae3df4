"""Protobuf messages by hand, right and wrong: what the tests of the Example kernels are fed with."""

from __future__ import annotations

import random
import struct


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def floats(*values: float) -> bytes:
    return field(2, field(1, struct.pack(f"<{len(values)}f", *values)))


def unpacked_floats(*values: float) -> bytes:
    return field(2, b"".join(b"\x0d" + struct.pack("<f", value) for value in values))


def ints(*values: int) -> bytes:
    return field(3, field(1, b"".join(varint(value % 2**64) for value in values)))


def unpacked_ints(*values: int) -> bytes:
    return field(3, b"".join(b"\x08" + varint(value % 2**64) for value in values))


def strings(*values: bytes) -> bytes:
    return field(1, b"".join(field(1, value) for value in values))


def entry(key: bytes, value: bytes) -> bytes:
    return field(1, field(1, key) + field(2, value))


def example(*entries: bytes) -> bytes:
    return field(1, b"".join(entries))


def steps(*features: bytes) -> bytes:
    return b"".join(field(1, feature) for feature in features)


def sequence_example(context: bytes = b"", lists: bytes = b"") -> bytes:
    return field(1, context) + field(2, lists)


def _feature(rng: random.Random) -> bytes:
    count = rng.randrange(4)
    numbers = [rng.choice([0, 1, 300, -1]) for _ in range(count)]
    return rng.choice(
        [
            floats(*numbers),
            unpacked_floats(*numbers),
            ints(*numbers),
            unpacked_ints(*numbers),
            strings(*[b"x" * rng.randrange(3) for _ in range(count)]),
            floats(1, 2),
            ints(1, 2),
            strings(b"p", b"q"),
            b"",
        ]
    )


def _key(rng: random.Random) -> bytes:
    return rng.choice([b"a", b"a", b"b", b"", b"aa"])


def random_example(rng: random.Random) -> bytes:
    """An Example that is right but may have any features, some keys twice."""
    parts = range(rng.choice([1, 1, 1, 2]))
    return b"".join(example(*[entry(_key(rng), _feature(rng)) for _ in range(rng.randrange(4))]) for _ in parts)


def random_sequence_example(rng: random.Random) -> bytes:
    context = b"".join(entry(_key(rng), _feature(rng)) for _ in range(rng.randrange(3)))
    lists = [steps(*[_feature(rng) for _ in range(rng.randrange(4))]) for _ in range(rng.randrange(3))]
    return sequence_example(context, b"".join(entry(_key(rng), part) for part in lists))


_TAGS = [0, 1, 2, 3, 4, 5, 8, 10, 13, 16, 17, 18, 21, 26, 34, 127, 128]


def damaged(rng: random.Random, record: bytes) -> bytes:
    """The record with a few bytes changed, lost, doubled or added; sometimes none."""
    data = bytearray(record)
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        if not data:
            break
        at = rng.randrange(len(data))
        match rng.randrange(6):
            case 0:
                data[at] = rng.choice(_TAGS)
            case 1:
                data[at] = (data[at] + rng.choice([-2, -1, 1, 2, 4])) % 256
            case 2:
                del data[at]
            case 3:
                data.insert(at, rng.choice(_TAGS))
            case 4:
                del data[at:]
            case _:
                data[at:at] = data[at : rng.randrange(at, len(data) + 1)]
    return bytes(data)


def claims_much(record: bytes) -> bool:
    """Whether it may hold a length of 2**21 or more: TensorFlow sets memory aside for some of them, and dies."""
    run = 0
    for byte in record:
        run = run + 1 if byte >= 0x80 else 0
        if run >= 3:
            return True
    return False
