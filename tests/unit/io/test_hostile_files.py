"""Files that were cut or changed: read as far as they go, or refused, and nothing stays on the ledger."""

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import penstock as ps

D = ps.Dataset
NUM_FILES = 25
N = 100
TABLE = pa.table(
    {
        "x": np.arange(N),
        "s": [f"text {i}" * (i % 5) for i in range(N)],
        "l": [[i] * (i % 4) for i in range(N)],
        "st": [{"a": i} for i in range(N)],
    }
)
CSV = ("x,s\n" + "".join(f'{i},"a ""{i}"\n' for i in range(N))).encode()
JSON = "".join(f'{{"x": {i}, "o": {{"l": [1, {i}]}}}}\n' for i in range(N)).encode()


def written(write: Callable[[Any], Any]) -> bytes:
    out = io.BytesIO()
    write(out)
    return out.getvalue()


def archive(out: Any) -> None:
    with tarfile.open(fileobj=out, mode="w") as tar:
        for i in range(20):
            info = tarfile.TarInfo(f"{i // 2}.{i % 2}")
            info.size = 50 * i
            tar.addfile(info, io.BytesIO(b"x" * 50 * i))


FORMATS: dict[str, tuple[Callable[[Any], Any], Callable[[], bytes]]] = {
    "a.parquet": (D.from_parquet, lambda: written(lambda out: pq.write_table(TABLE, out, row_group_size=30))),
    "plain.arrow": (D.from_arrow, lambda: written(lambda out: feather.write_feather(TABLE, out, "uncompressed"))),
    "lz4.arrow": (D.from_arrow, lambda: written(lambda out: feather.write_feather(TABLE, out, "lz4", chunksize=30))),
    "a.tar": (D.from_tar, lambda: written(archive)),
    "a.tar.gz": (D.from_tar, lambda: gzip.compress(written(archive))),
    "a.csv": (D.from_csv, lambda: CSV),
    "a.csv.gz": (D.from_csv, lambda: gzip.compress(CSV)),
    "a.jsonl": (D.from_json_lines, lambda: JSON),
    "records.csv": (lambda path: ps.CsvDataset(path, [[1], ["d"]]), lambda: CSV),
    "lines.gz": (lambda path: ps.TextLineDataset(path, "GZIP"), lambda: gzip.compress(CSV)),
}


def damaged(good: bytes, random: np.random.Generator) -> bytes:
    data = bytearray(good)
    a, b = sorted(random.integers(len(data), size=2).tolist())
    match random.integers(4):
        case 0:
            return bytes(data[:a])
        case 1:
            return bytes(data[:a] + data[b:])
        case 2:
            data[a : a + 8] = [b"\xff" * 8, b"\0" * 8, b"\x7f" + b"\xff" * 7][int(random.integers(3))]
        case _:
            for at in random.integers(len(data), size=4).tolist():
                data[at] = int(random.integers(256))
    return bytes(data)


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files(tmp_path: Path, name: str) -> None:
    make, good = FORMATS[name]
    data, random, num_read = good(), np.random.default_rng(len(name)), 0
    for _ in range(NUM_FILES):
        (tmp_path / name).write_bytes(damaged(data, random))
        try:
            run = make(tmp_path / name).ignore_errors().run(memory="4MB")
            num_read += sum(1 for _ in run)
            assert run.ledger.peak_bytes <= 4_000_000
            assert run.ledger.charged_bytes == 0
        except (ps.errors.FormatError, ps.errors.PlanError, ps.errors.OverBudget):
            pass  # refused, with a reason
    assert num_read
