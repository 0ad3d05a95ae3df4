"""Programs that read a large file in a process of their own: `python file_children.py <format>=<path>`."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet  # noqa: F401  loaded before the watch begins

import penstock as ps
from penstock.observe.process import PeakMemory
from tests.memory.children import settled, warm_up

D = ps.Dataset
EXAMPLE = {"x": ps.io.FixedLenFeature([700], "float32"), "y": ps.io.FixedLenFeature([], "int64")}


def examples(path: str) -> Any:
    return ps.TFRecordDataset(path).map(lambda record: ps.io.parse_single_example(record, EXAMPLE))


READERS: dict[str, Any] = {
    "text": lambda path: ps.TextLineDataset(path).batch(64),
    "records": lambda path: ps.FixedLengthRecordDataset(path, 10_000).shuffle(seed=1).batch(16),
    "tfrecord": lambda path: examples(path).batch(256),
    "tfrecord-shuffled": lambda path: examples(path).shuffle(10_000, seed=1).batch(256),
    "csv": lambda path: D.from_csv(path).batch(256),
    "csv-records": lambda path: ps.CsvDataset(path, [np.int64, np.float64, bytes], header=True).batch(256),
    "json-lines": lambda path: D.from_json_lines(path).batch(64),
    "parquet": lambda path: D.from_parquet(path).batch(1024),
    "parquet-strings": lambda path: D.from_parquet(path).ragged_batch(128),
    "arrow": lambda path: D.from_arrow(path).shuffle(seed=1).batch(1024),
    "tar": lambda path: D.from_tar(path).batch(4),
    "images": lambda path: D.from_image_folder(path, (224, 224), num_parallel_calls=2).shuffle(1000, seed=1).batch(8),
    "images-filled": lambda path: D.from_image_folder(path, (128, 128), num_parallel_calls=2).batch(16),
}


def size_of(batch: Any) -> int:
    while isinstance(batch, (dict, tuple)):
        batch = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
    return len(batch)


def main(kind: str, path: str) -> dict[str, Any]:
    warm_up()
    small = str(Path(path).with_name(f"small-{Path(path).name}"))
    for _ in READERS[kind](small).run(memory="32MB"):  # what a library loads and keeps for good
        pass
    before = settled()
    count = 0
    with PeakMemory(period_s=0.001) as watch, READERS[kind](path).run(memory="32MB") as run:
        for batch in run:
            count += size_of(batch)
        peak = run.ledger.peak_bytes
    return {"growth": watch.peak_bytes - before, "count": count, "ledger_peak": peak}


def behind_the_first_look(path: str) -> dict[str, Any]:
    """A run of JSON lines; what the look at the first block has left in the process counts, too."""
    list(D.from_json_lines(str(Path(path).with_name(f"small-{Path(path).name}"))))
    before = settled()
    dataset = D.from_json_lines(path)
    with PeakMemory(period_s=0.001) as watch, dataset.run(memory="4MB") as run:
        count = sum(1 for _ in run)
    return {"growth": watch.peak_bytes - before, "count": count}


def large_pages(path: str) -> dict[str, Any]:
    """Rows of some 100 kB, whose columns are decoded one after the other: there is no room for all of their pages."""
    warm_up()
    list(D.from_parquet(str(Path(path).with_name(f"small-{Path(path).name}"))))
    dataset = D.from_parquet(path)
    before = settled()
    with PeakMemory(period_s=0.001) as watch, dataset.run(memory="19MB") as run:
        count = sum(1 for _ in run)
        spilled = run.memory()["spilled_bytes"]
    return {"growth": watch.peak_bytes - before, "count": count, "spilled": spilled}


OTHERS = {"json-lists": behind_the_first_look, "large-pages": large_pages}

if __name__ == "__main__":
    kind, _, path = sys.argv[1].partition("=")
    print(json.dumps(OTHERS[kind](path) if kind in OTHERS else main(kind, path)))
