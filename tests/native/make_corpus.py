"""Writes the corpus of the fuzz tests and of `make sanitize`: small records, right and wrong, one for each habit.

Run it from the root of the repository: `python -m tests.native.make_corpus`.
"""

from __future__ import annotations

import struct
from pathlib import Path

from tests.native import wire
from tests.native.wire import entry, example, field, floats, ints, sequence_example, steps, strings

FOLDER = Path(__file__).parent / "corpus"
PAIR = struct.pack("<2f", 1, 2)


def one(feature: bytes) -> bytes:
    """A message that is an Example, and as a SequenceExample has both a context and a list."""
    return sequence_example(entry(b"a", feature), entry(b"a", steps(feature, feature)))


CASES = {
    "empty": b"",
    "no_features": b"\x0a\x00",
    "packed_floats": one(floats(1, 2)),
    "unpacked_floats": one(wire.unpacked_floats(1, 2)),
    "packed_ints": one(ints(1, -1, 300)),
    "unpacked_ints": one(wire.unpacked_ints(1, -1)),
    "strings": one(strings(b"p", b"", b"qq")),
    "three_keys": example(entry(b"a", floats(1)), entry(b"b", ints(2)), entry(b"\xc3\xa9", strings(b"c"))),
    "empty_feature": one(b""),
    "empty_list": one(b"\x12\x00"),
    "empty_chunk": one(b"\x12\x02\x0a\x00"),
    "seven_bytes_of_floats": one(field(2, field(1, b"1234567"))),
    "chunk_too_long": one(field(2, b"\x0a\x0c" + PAIR)),
    "list_too_long": one(b"\x12\x20\x0a\x08" + PAIR),
    "list_too_short": one(b"\x12\x06\x0a\x08" + PAIR),
    "two_chunks": one(field(2, field(1, PAIR) + field(1, PAIR))),
    "two_kinds": one(floats(1, 2) + ints(3)),
    "varint_of_ten_bytes": one(field(3, field(1, b"\x01" + b"\x81" * 9 + b"\x7f"))),
    "varint_of_eleven_bytes": one(field(3, field(1, b"\x01" + b"\x81" * 10 + b"\x01"))),
    "varint_cut": one(field(3, field(1, b"\x01\x81"))),
    "string_too_long": one(field(1, b"\x0a\x01p\x0a\x09q")),
    "length_2_32": one(b"\x12\xff\xff\xff\xff\x0f" + PAIR),
    "length_2_63": one(b"\x0a" + b"\xff" * 9 + b"\x7f"),
    "same_key_twice": example(entry(b"a", floats(1, 2)), entry(b"a", floats(3, 4))),
    "full_then_empty": example(entry(b"a", floats(1, 2)), entry(b"a", b"")),
    "merged": one(floats(1, 2)) + one(floats(3, 4)),
    "value_before_key": example(field(1, field(2, floats(1, 2)) + field(1, b"a"))),
    "no_value": example(field(1, field(1, b"a"))),
    "two_keys_no_value": example(field(1, field(1, b"a") + field(1, b"b"))),
    "unknown_kind": one(b"\x22\x01\x01"),
    "unknown_fields": b"\x18\x05\x21" + b"8" * 8 + b"\x1d4444" + b"\x1a\x02??" + one(floats(1, 2)),
    "unknown_too_long": one(floats(1, 2)) + b"\x1a\x7f?",
    "group": b"\x1b\x1c" + one(floats(1, 2)),
    "tag_of_zero": b"\x00\x00" + one(floats(1, 2)),
    "tag_of_two_bytes": example(field(1, b"\x8a\x00\x01a" + field(2, floats(1, 2)))),
    "steps_of_no_length": sequence_example(lists=entry(b"a", steps(b"", floats(1), b""))),
    "step_too_long": sequence_example(lists=entry(b"a", b"\x0a\x7f" + floats(1, 2))),
    "step_of_one_byte": sequence_example(lists=entry(b"a", b"\x0a\x01\x12\x00")),
    "step_of_two_bytes": sequence_example(lists=entry(b"a", b"\x0a\x02\x12\x80\x00")),
    "step_within_a_step": sequence_example(lists=entry(b"a", b"\x0a\x04\x12\x00\x0a\x00")),
    "step_too_short": sequence_example(lists=entry(b"a", b"\x0a\x03" + floats(1))),
    "framed": bytes.fromhex("0300000000000000"),
}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, record in CASES.items():
        (FOLDER / name).write_bytes(record)


if __name__ == "__main__":
    main()
