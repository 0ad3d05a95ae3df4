"""Checksums of batches: whatever byte of a file changes, it is found, or changes nothing."""

import contextlib
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.errors import FormatError
from penstock.memory.batch_index import BatchIndex
from penstock.memory.checksum import UNKNOWN_CHECKSUM
from penstock.memory.ipc import IpcReader, IpcWriter, Kind
from penstock.testing import same

ROWS = [{"a": np.full(1 + n % 3, n, np.int32), "s": b"abc" * n, "b": np.bool_(n % 2)} for n in range(8)]


def write(path: Path, *batches: Sequence[Any], codec: str | None = None, lists_batches: bool = True) -> None:
    writer = IpcWriter(path, checksums=True, codec=codec, lists_batches=lists_batches)
    for rows in batches:
        writer.write(rows)
    writer.close()


def read(path: Path, lists_batches: bool = True) -> list[Any]:
    """As a saved set reads it, and as a cache does."""
    reader = IpcReader(path, lists_batches=lists_batches)
    stored = reader.batches
    if not lists_batches:
        BatchIndex.of_file(reader)
        stored = [found.stored for found in reader.batches_in_footer()]
    return [row for one in stored for row in reader.read(one, decompressing=lambda nbytes: contextlib.nullcontext())]


@pytest.mark.parametrize(("codec", "lists_batches"), [(None, True), (None, False), ("zstd", True)])
def test_each_byte_matters_or_does_not(tmp_path: Path, codec: str | None, lists_batches: bool) -> None:
    path = tmp_path / "a.arrow"
    write(path, ROWS[:5], ROWS[5:], codec=codec, lists_batches=lists_batches)
    whole = path.read_bytes()
    assert same(read(path, lists_batches), ROWS)
    heads = [place for stored in IpcReader(path).batches for place in range(stored.offset, stored.offset + 480)]
    places = {*heads, *range(0, len(whole), 4)}
    num_refused = 0
    for place in sorted(places):
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        try:
            assert same(read(path, lists_batches), ROWS), f"byte {place} of {len(whole)}"
        except FormatError:
            num_refused += 1
    assert num_refused > len(places) // 2


def test_a_batch_without_its_checksum_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    write(path, ROWS)
    path.write_bytes(path.read_bytes().replace(b"batch:", b"hatch:"))
    with pytest.raises(FormatError, match="do not have its checksum"):
        read(path)


def test_a_batch_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    write(path, ROWS, ROWS[::-1])
    first, second = (stored.offset.to_bytes(8, "little") for stored in IpcReader(path).batches)
    path.write_bytes(path.read_bytes().replace(second, first))
    with pytest.raises(FormatError, match="one behind the other"):
        read(path)


def test_files_of_versions_before_are_read_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their checksums are of the buffers alone, and they do not say that they have any."""

    def with_checksum_of_body(head: bytes, body: Sequence[Any]) -> bytes:
        return head.replace(UNKNOWN_CHECKSUM, b"crc32:%08x" % zlib.crc32(b"".join(map(bytes, body))))

    monkeypatch.setattr("penstock.memory.sink.with_checksum", with_checksum_of_body)
    kind_of = Kind.of
    monkeypatch.setattr(Kind, "of", staticmethod(lambda layout, metadata, checksums: kind_of(layout, metadata)))
    path = tmp_path / "a.arrow"
    write(path, ROWS)
    assert same(read(path), ROWS)
    path.write_bytes(path.read_bytes().replace(b"abcabc", b"abcabd"))
    with pytest.raises(FormatError, match="do not have its checksum"):
        read(path)


def test_a_head_that_is_damaged_is_found_in_a_cache_a_save_and_a_snapshot(tmp_path: Path) -> None:
    """Where a buffer begins: eight bytes further on lie other lengths, which fit as well."""
    data = ps.Dataset.from_generator(lambda: iter(ROWS))
    list(data.cache(tmp_path / "cache"))
    data.save(tmp_path / "save")
    list(data.snapshot(tmp_path / "snapshot"))
    again = {
        "cache": lambda: data.cache(tmp_path / "cache"),
        "save": lambda: ps.Dataset.load(tmp_path / "save"),
        "snapshot": lambda: data.snapshot(tmp_path / "snapshot"),
    }
    for name, dataset in again.items():
        (path,) = [tmp_path / name] if name == "cache" else (tmp_path / name).rglob("*.arrow")
        reader = IpcReader(path)
        (stored,) = reader.batches
        changed = bytearray(path.read_bytes())
        head = reader.read_head_of(stored)
        changed[stored.offset + head.rindex((8 * len(ROWS) + 8).to_bytes(8, "little"))] ^= 1
        path.write_bytes(changed)
        with pytest.raises(FormatError, match="do not have its checksum"):
            list(dataset())
