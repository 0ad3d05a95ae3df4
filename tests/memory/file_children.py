"""Programs that read a large file in a process of their own: `python file_children.py <format>=<path>`."""

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet  # noqa: F401  loaded before the watch begins

import penstock as ps
from penstock.observe.process import PeakMemory
from tests.memory.children import settled, warm_up

D = ps.Dataset
READERS: dict[str, Any] = {
    "text": lambda path: ps.TextLineDataset(path).batch(64),
    "records": lambda path: ps.FixedLengthRecordDataset(path, 10_000).shuffle(seed=1).batch(16),
    "parquet": lambda path: D.from_parquet(path).batch(1024),
    "arrow": lambda path: D.from_arrow(path).shuffle(seed=1).batch(1024),
    "csv": lambda path: D.from_csv(path).batch(256),
    "tar": lambda path: D.from_tar(path).batch(4),
}


def size_of(batch: Any) -> int:
    return len(batch if not isinstance(batch, dict) else next(iter(batch.values())))


def main(kind: str, path: str) -> dict[str, Any]:
    warm_up()
    small = str(Path(path).with_name(f"small-{Path(path).name}"))
    for _ in READERS[kind](small):  # what a library loads and keeps for good
        pass
    before = settled()
    count = 0
    with PeakMemory(period_s=0.001) as watch, READERS[kind](path).run(memory="16MB") as run:
        for batch in run:
            count += size_of(batch)
        peak = run.ledger.peak_bytes
    return {"growth": watch.peak_bytes - before, "count": count, "ledger_peak": peak}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1].split("=", 1))))
