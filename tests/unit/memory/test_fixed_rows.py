"""Rows of a fixed size in a file: read one by one they are what the whole batch holds."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from penstock.leaf import Ragged, string
from penstock.memory.fixed_rows import FixedRows
from penstock.memory.ipc import IpcReader, IpcWriter, Stored


class Pair(NamedTuple):
    image: Any
    label: Any


RANDOM = np.random.default_rng(0)


def noise(*shape: int, dtype: Any = np.uint8) -> np.ndarray:
    return RANDOM.integers(0, 2, np.prod(shape) * np.dtype(dtype).itemsize, np.uint8).view(dtype).reshape(shape)


KINDS: dict[str, Any] = {
    "bytes": lambda i: noise(5000),
    "an image": lambda i: noise(30, 40, 5, dtype=np.float32),
    "float16": lambda i: noise(3000, dtype=np.float16),
    "booleans": lambda i: noise(6000).astype(np.bool_),
    "complex": lambda i: noise(1000, dtype=np.complex128),
    "complex64": lambda i: noise(1000, dtype=np.complex64),
    "dates": lambda i: noise(1000, dtype="M8[D]"),
    "times": lambda i: noise(1000, dtype="m8[us]"),
    "a tuple with numbers": lambda i: (noise(5000), np.int64(i), np.float32(i), np.bool_(i % 2)),
    "arrays between others": lambda i: (np.int16(i), noise(50, 50), np.complex64(i), noise(5000, dtype=np.int64)),
    "a dict": lambda i: {"b": noise(6000), "a": {"c": noise(3, 3), "d": np.datetime64(i, "s")}},
    "a named tuple": lambda i: Pair(noise(5000), np.uint8(i)),
    "an empty array beside": lambda i: (noise(5000), np.zeros((3, 0))),
}  # fmt: skip

OTHERS: dict[str, Any] = {
    "small ones": lambda i: noise(100),
    "unequal shapes": lambda i: noise(5000 + i),
    "an array of rank 0 beside": lambda i: (noise(5000), np.array(i)),
    "bytes beside": lambda i: (noise(5000), b"x" * i),
    "strings beside": lambda i: (noise(5000), np.array([b"a"], string)),
    "nothing beside": lambda i: (noise(5000), None),
    "records": lambda i: noise(1000, dtype=[("a", "i4"), ("b", "i2")]),
    "a ragged array": lambda i: Ragged(noise(5000), np.array([0, 2000, 5000])),
}  # fmt: skip


def written(path: Path, rows: list[Any], **options: Any) -> tuple[IpcReader, Stored]:
    writer = IpcWriter(path, **options)
    writer.write([rows[0]])  # so that the batch does not come first
    stored = writer.write(rows)
    reader = writer.reader()
    writer.close()
    return reader, stored


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_rows_read_one_by_one_are_those_of_the_batch(make: Any, tmp_path: Path) -> None:
    elements = [make(i) for i in range(7)]
    reader, stored = written(tmp_path / "a.arrow", elements)
    rows = FixedRows.of(reader, stored, elements)
    assert rows is not None
    whole = reader.read(stored)
    for first, count in ((0, 7), (0, 1), (6, 1), (2, 3)):
        columns = rows.kind.empty(count + 2, np.empty)
        for column in columns:
            column.reshape(-1).view(np.uint8)[:] = 77
        rows.read(reader, first, count, columns, 1)
        found = rows.kind.block(columns, count + 1).rows()[1:]
        assert repr(found) == repr(whole[first : first + count])
        np.testing.assert_equal(found, elements[first : first + count])
        # Not a byte more than was asked for.
        assert all((column[[0, -1]].reshape(-1).view(np.uint8) == 77).all() for column in columns)


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
def test_what_does_not_lie_row_by_row_is_read_as_a_whole(make: Any, tmp_path: Path) -> None:
    elements = [make(i) for i in range(7)]
    reader, stored = written(tmp_path / "a.arrow", elements)
    assert FixedRows.of(reader, stored, elements) is None


@pytest.mark.parametrize("nbytes, is_worth_it", [(100_000, False), (2_000_000, True)])
def test_one_alone_is_remembered_only_if_it_is_large(nbytes: int, is_worth_it: bool, tmp_path: Path) -> None:
    reader, stored = written(tmp_path / "a.arrow", [noise(nbytes)])
    assert (FixedRows.of(reader, stored, [noise(nbytes)]) is not None) == is_worth_it


def test_compressed_batches_are_read_as_a_whole(tmp_path: Path) -> None:
    elements = [np.random.default_rng(i).integers(0, 255, 5000, np.uint8) for i in range(3)]
    reader, stored = written(tmp_path / "a.arrow", elements, codec="lz4")
    assert FixedRows.of(reader, stored, elements) is None


def test_batches_of_one_kind_share_it(tmp_path: Path) -> None:
    elements = [KINDS["a dict"](i) for i in range(3)]
    reader, stored = written(tmp_path / "a.arrow", elements)
    first = FixedRows.of(reader, stored, elements)
    assert first is not None
    again = FixedRows.of(reader, stored, elements, first)
    assert again is not None
    assert again.kind is first.kind
