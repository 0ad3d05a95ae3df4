"""Files of many batches: found with little memory, written with little memory, and Arrow files all the same."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import FormatError
from penstock.memory.batch_index import BatchIndex
from penstock.memory.footer import blocks
from penstock.memory.ipc import IpcReader, IpcWriter


def written(path: Path, num_batches: int, rows_of: int = 3) -> IpcWriter:
    writer = IpcWriter(path, metadata={"a": "b"}, checksums=True, lists_batches=False)
    for i in range(num_batches):
        writer.write([np.full(2, i * rows_of + j) for j in range(rows_of)])
    return writer


@pytest.mark.parametrize("num_batches", [0, 1, 128, 129, 1000])
def test_a_file_that_lists_nothing_while_it_is_written_is_the_same_file(tmp_path: Path, num_batches: int) -> None:
    writer = written(tmp_path / "long", num_batches)
    writer.close()
    assert writer.batches == []
    plain = IpcWriter(tmp_path / "plain", metadata={"a": "b"}, checksums=True)
    for i in range(num_batches):
        plain.write([np.full(2, i * 3 + j) for j in range(3)])
    plain.close()
    assert IpcReader(tmp_path / "long").batches == IpcReader(tmp_path / "plain").batches
    tables = [pa.ipc.open_file(tmp_path / name).read_all() for name in ("long", "plain")]
    assert tables[0].equals(tables[1], check_metadata=True)


@pytest.mark.parametrize("num_batches", [1, 127, 128, 129, 1000])
def test_each_row_is_found_in_any_order(tmp_path: Path, num_batches: int) -> None:
    writer = written(tmp_path / "file", num_batches)
    writer.close()
    index = BatchIndex.of_file(reader := IpcReader(tmp_path / "file", lists_batches=False))
    assert reader.batches == []
    assert index.num_rows == 3 * num_batches
    numbers = np.random.default_rng(0).permutation(index.num_rows)[:300].tolist()
    for number in [*range(min(50, index.num_rows)), *numbers]:
        found = index.find(number)
        assert found is not None
        stored, offset = found
        assert reader.read(stored)[offset].tolist() == [number] * 2
    assert index.find(index.num_rows) is None
    assert len(index._firsts) <= 128


def test_rows_are_found_while_the_file_is_written(tmp_path: Path) -> None:
    writer = IpcWriter(tmp_path / "file", lists_batches=False)
    index = BatchIndex(writer.reader())
    for i in range(300):
        stored = writer.write([np.full(2, i)])
        index.add(stored)
        for number in (0, i // 2, i):
            found = index.find(number)
            assert found is not None
            assert index.reader.read(found[0])[0].tolist() == [number] * 2
    writer.close()


def test_who_reads_in_order_looks_at_each_head_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "file", 1000).close()
    index = BatchIndex.of_file(reader := IpcReader(tmp_path / "file", lists_batches=False))
    looked: list[int] = []
    plain = reader.batch_at
    monkeypatch.setattr(reader, "batch_at", lambda offset, end: looked.append(offset) or plain(offset, end))
    for number in range(1500):  # two cursors at a time
        index.find(number)
        index.find(1500 + number)
    assert len(looked) <= 1010


def test_every_damaged_byte_is_met_with_a_format_error_or_does_no_harm(tmp_path: Path) -> None:
    written(tmp_path / "file", 3).close()
    data = (tmp_path / "file").read_bytes()
    bad = tmp_path / "bad"
    (end,) = {offset + head + body for offset, head, body in blocks(_footer(data))[-1:]}
    told: set[bool] = set()
    for place in range(end):
        bad.write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        try:
            index = BatchIndex.of_file(reader := IpcReader(bad, lists_batches=False))
            for number in range(index.num_rows):
                stored, offset = index.find(number) or pytest.fail("not found")
                reader.read(stored)[offset].tolist()
        except FormatError as error:
            told.add(str(bad) in str(error))
    assert told == {True}


def _footer(data: bytes) -> bytes:
    length = int.from_bytes(data[-10:-6], "little")
    return data[-10 - length : -10]
