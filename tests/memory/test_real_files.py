"""Files of 64 MB and more under a budget of 16 MB: what the process really takes."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from tests.memory.test_real_memory import SLACK, child

BUDGET = 16_000_000


def write(kind: str, path: Path, share: float) -> int:
    """Writes a file, or a small part of one; returns how many elements it has."""
    random = np.random.default_rng(0)
    match kind:
        case "text":
            count = int(6_400 * share)
            path.write_bytes((b"x" * 10_000 + b"\n") * count)
        case "records":
            count = int(6_400 * share)
            path.write_bytes(bytes(10_000 * count))
        case "parquet":
            count = int(1_000_000 * share)
            table = pa.table({f"c{i}": random.random(count) for i in range(8)})
            pq.write_table(
                table, path, row_group_size=count, use_dictionary=False, compression="none", data_page_size=200_000
            )
        case "arrow":
            count = int(1_000_000 * share)
            feather.write_feather(pa.table({f"c{i}": random.random(count) for i in range(8)}), path, "uncompressed")
        case "csv":
            count = int(2_500_000 * share)
            lines = [f"{i},{i / 8},text number {i}" for i in range(50_000)]
            path.write_text("a,b,c\n" + ("\n".join(lines) + "\n") * (count // 50_000))
            count = count // 50_000 * 50_000
        case _:
            count = int(640 * share)
            with tarfile.open(path, "w") as tar:
                for i in range(count):
                    info = tarfile.TarInfo(f"{i}.bin")
                    info.size = 100_000
                    tar.addfile(info, io.BytesIO(bytes(100_000)))
    return count


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", ["text", "records", "parquet", "arrow", "csv", "tar"])
def test_a_large_file_takes_no_more_than_the_budget(tmp_path: Path, kind: str) -> None:
    count = write(kind, tmp_path / "data", 1.0)
    write(kind, tmp_path / "small-data", 0.02)
    assert (tmp_path / "data").stat().st_size > 50_000_000
    found = child(f"{kind}={tmp_path / 'data'}", "file_children.py", exact=False)
    assert found["count"] == count
    assert found["ledger_peak"] <= BUDGET
    assert found["growth"] < BUDGET + SLACK
