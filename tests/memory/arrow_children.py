"""Programs that run in a process of their own under a budget of 16 MB, with elements of very unequal sizes that Arrow
reads: `python arrow_children.py <name>`, see PROGRAMS at the end. Each prints one line of JSON.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.observe.process import PeakMemory
from tests.memory.children import D, settled, warm_up

BUDGET = 16_000_000
#: Values of float64: from 7 kB to 3.2 MB, 69 MB in all.
SIZES = np.minimum(np.random.default_rng(1).lognormal(10, 1.2, 240), 400_000).astype(int)


def arrays(sizes: np.ndarray) -> Any:
    return D.from_generator(lambda: (np.full(size, i, np.float64) for i, size in enumerate(sizes)))


def under_watch(dataset: Any) -> dict[str, Any]:
    count = 0
    before = settled()
    with PeakMemory(period_s=0.001) as watch, dataset.run(memory=BUDGET) as run:
        for _ in run:
            count += 1
            watch._look()
        ledger_peak = run.ledger.peak_bytes
    return {"growth": watch.peak_bytes - before, "count": count, "ledger_peak": ledger_peak}


def loaded(folder: str) -> dict[str, Any]:
    arrays(SIZES).save(folder, compression="GZIP")
    pa.default_memory_pool().release_unused()
    return under_watch(D.load(folder))


def shuffled(folder: str) -> dict[str, Any]:
    path = f"{folder}/t.arrow"
    table = pa.table({"t": [bytes(8 * size) for size in SIZES]})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=10)
    del table
    pa.default_memory_pool().release_unused()
    return under_watch(D.from_arrow(path).shuffle(seed=1))


PROGRAMS: dict[str, Callable[[str], dict[str, Any]]] = {"loaded": loaded, "shuffled": shuffled}

if __name__ == "__main__":
    warm_up()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(PROGRAMS[sys.argv[1]](folder)))
