"""Programs that read a TFRecord file of 200 MB in a process of their own, under a few MB.

python tfrecord_children.py <name>: see PROGRAMS at the end. Each prints one line of JSON.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from penstock.observe.process import PeakMemory
from tests.memory.children import MB, settled, warm_up

COUNT, SIZE = 100_000, 500  # float32: 2 kB
BUDGET = 6 * MB
SPEC = {"x": ps.io.FixedLenFeature([SIZE], "float32"), "i": ps.io.FixedLenFeature([], "int64")}


def write(path: str) -> None:
    """The file, some of it at a time."""
    with ps.io.TFRecordWriter(path) as writer:
        for start in range(0, COUNT, 1000):
            numbers = np.arange(start, start + 1000)
            x = np.repeat(numbers.astype(np.float32)[:, None], SIZE, axis=1)
            writer.write_framed(ps.io.encode_examples({"x": x, "i": numbers}, framed=True)[0])


def parse(record: Any) -> Any:
    return ps.io.parse_single_example(record, SPEC)


def watched(build: Callable[[Any], Any]) -> dict[str, Any]:
    """Reads it all, and adds up what shows that every record came once."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "a.tfrecord"))
        write(path)
        warm_up()
        small = ps.TFRecordDataset(path).take(2000).map(parse)
        list(build(small).run(memory=BUDGET))
        before = settled()
        total = count = 0
        with PeakMemory(period_s=0.001) as watch, build(ps.TFRecordDataset(path).map(parse)).run(BUDGET) as run:
            for batch in run:
                total += int(batch["i"].sum())
                count += len(batch["x"])
            peak = run.ledger.peak_bytes
        size = Path(path).stat().st_size
    equal = (count, total) == (COUNT, COUNT * (COUNT - 1) // 2)
    return {"growth": watch.peak_bytes - before, "ledger_peak": peak, "equal": equal, "nbytes": size}


PROGRAMS: dict[str, Callable[[], dict[str, Any]]] = {
    "in_order": lambda: watched(lambda ds: ds.batch(256)),
    "window_shuffled": lambda: watched(lambda ds: ds.shuffle(10_000, seed=1).batch(256)),
    "shuffled": lambda: watched(lambda ds: ds.shuffle(seed=1).batch(256)),
    "singly": lambda: watched(lambda ds: ds.map(lambda e: e).batch(64)),
}

if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]]()))
