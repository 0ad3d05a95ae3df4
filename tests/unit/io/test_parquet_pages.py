"""The sizes of pages as their headers say, and bytes that are no headers."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.io.parquet_pages import PageSizes, page_sizes

COUNT = 10_000


def sizes_in(path: Path) -> PageSizes:
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    start = column.data_page_offset
    if column.has_dictionary_page:
        start = column.dictionary_page_offset
    with pa.OSFile(str(path)) as file:
        return page_sizes(file.read_at, start, start + column.total_compressed_size)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("checksum", [True, False])
def test_sizes_are_those_of_the_largest_page(tmp_path: Path, version: str, checksum: bool) -> None:
    options: Any = {"data_page_version": version, "write_page_checksum": checksum, "compression": "none"}
    no_nulls = pa.schema([pa.field("x", pa.int64(), nullable=False)])
    table = pa.table({"x": np.arange(COUNT)}, no_nulls)
    pq.write_table(
        table, tmp_path / "t", use_dictionary=False, max_rows_per_page=1_000, write_batch_size=100, **options
    )
    assert sizes_in(tmp_path / "t") == PageSizes(8_000, 8_000)
    pq.write_table(table, tmp_path / "t", use_dictionary=True, **options)
    assert sizes_in(tmp_path / "t") == PageSizes(8 * COUNT, 8 * COUNT, 8 * COUNT, COUNT)


def test_long_statistics_make_long_headers(tmp_path: Path) -> None:
    table = pa.table({"s": ["a" * 3_000, "b" * 3_000]})
    pq.write_table(table, tmp_path / "t", use_dictionary=False, write_page_index=False, compression="zstd")
    assert sizes_in(tmp_path / "t").unpacked_bytes > 6_000


def test_damaged_headers_end_the_look(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    # A list of doubles, and one of bytes, that say they have 2**62 values; a struct in a struct in a …; no end.
    hostile = [
        b"\x19\xf7" + b"\xff" * 8 + b"\x3f",
        b"\x19\xf3" + b"\xff" * 8 + b"\x3f",
        b"\x1c" * 300_000,
        b"\xff" * 99,
    ]
    for data in [*hostile, *(random.bytes(400) for _ in range(300)), b""]:
        reads: list[int] = []

        def read_at(nbytes: int, offset: int, data: bytes = data, reads: list[int] = reads) -> bytes:
            reads.append(nbytes)
            return data[offset : offset + nbytes]

        page_sizes(read_at, 0, 1 << 40)
        assert len(reads) < 200
        assert max(reads) <= 1 << 17
