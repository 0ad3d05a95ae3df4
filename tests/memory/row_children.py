"""Programs that read rows of many small values in a process of their own: `python row_children.py <kind>=<folder>`.

The test has written the files of the kind to the folder; a program prints one line of JSON.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq

import penstock as ps
from penstock.observe.process import PeakMemory
from tests.memory.children import settled, warm_up

D = ps.Dataset
NUM_FILES = 16
SMALL, LARGE = "small", "large"


def lines(row: bytes, head: bytes = b"") -> Callable[[Path, bool], None]:
    def write(path: Path, is_large: bool) -> None:
        path.write_bytes(head + row * (160_000 if is_large else 64))

    return write


def words(write_table: Callable[[pa.Table, Path], None]) -> Callable[[Path, bool], None]:
    """Rows of 400 words, of which few are different."""

    def write(path: Path, is_large: bool) -> None:
        count = 5_000 if is_large else 64
        known = pa.array([f"w{i:03}" for i in range(200)])
        values = known.take(pa.array(np.random.default_rng(0).integers(0, 200, 400 * count)))
        ends = pa.array(np.arange(0, 400 * count + 1, 400, dtype=np.int32))
        write_table(pa.table({"words": pa.ListArray.from_arrays(ends, values)}), path)

    return write


def in_turn(read: Callable[[str], Any]) -> Callable[[str], Any]:
    def dataset(path: str) -> Any:
        files = [path] * NUM_FILES
        return D.from_tensor_slices(files).interleave(read, cycle_length=NUM_FILES).ragged_batch(64)

    return dataset


#: What writes a file of each kind, and what reads it.
KINDS: dict[str, tuple[Callable[[Path, bool], None], Callable[[str], Any]]] = {
    "csv": (lines(b"ab\n", b"name\n"), in_turn(D.from_csv)),
    "json-lists": (lines(b'{"a":[1]}\n'), in_turn(D.from_json_lines)),
    "json-words": (lines(b'{"a":["ab","cd"]}\n'), in_turn(D.from_json_lines)),
    "parquet-words": (
        words(lambda table, path: pq.write_table(table, path, row_group_size=1 << 20)),
        lambda path: D.from_parquet(path).ragged_batch(16),
    ),
    "arrow-words": (
        words(lambda table, path: feather.write_feather(table, str(path), "lz4", chunksize=2_500)),
        lambda path: D.from_arrow(path).ragged_batch(16),
    ),
}


def write(kind: str, folder: Path) -> None:
    for name in (SMALL, LARGE):
        KINDS[kind][0](folder / name, name == LARGE)


def main(kind: str, folder: Path) -> dict[str, Any]:
    read = KINDS[kind][1]
    warm_up()
    for _ in read(str(folder / SMALL)).run(memory="64MB"):  # what a library loads and keeps for good
        pass
    before = settled()
    with PeakMemory(period_s=0.001) as watch, read(str(folder / LARGE)).take(30).run(memory="64MB") as run:
        count = sum(1 for _ in run)
        peak = run.ledger.peak_bytes
    return {"growth": watch.peak_bytes - before, "count": count, "ledger_peak": peak}


if __name__ == "__main__":
    kind, _, folder = sys.argv[1].partition("=")
    print(json.dumps(main(kind, Path(folder))))
