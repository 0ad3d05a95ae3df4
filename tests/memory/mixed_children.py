"""Elements of sizes that differ by a factor of a thousand, in a process that has loaded and warmed up nothing.

python mixed_children.py: prints one line of JSON.
"""

import json
import sys
from typing import Any

import numpy as np

import penstock as ps
from penstock.observe.process import PeakMemory

BUDGET = 64_000_000
COUNT = 1_500
SIZES = np.minimum(np.exp(np.random.default_rng(0).normal(12, 1.5, COUNT)), 6e6).astype(int)


def made(i: Any) -> np.ndarray:
    return np.full(SIZES[int(i)], int(i) % 251, np.uint8)


if __name__ == "__main__":
    assert "pyarrow" not in sys.modules
    dataset = ps.Dataset.range(COUNT).map(made, num_parallel_calls=8).cache().shuffle(COUNT // 3, seed=1)
    sums, spilled, ledger_peak = [], 0, 0
    with PeakMemory(period_s=0.001) as watch:
        for _ in range(2):
            with dataset.run(memory=BUDGET) as run:
                sums.append(sum(len(element) for element in run))
                spilled = max(spilled, run.stats()["spilled_bytes"])
                ledger_peak = max(ledger_peak, run.ledger.peak_bytes)
    found = {"growth": watch.growth_bytes, "ledger_peak": ledger_peak, "spilled": spilled}
    print(json.dumps({**found, "equal": sums == [int(SIZES.sum())] * 2}))
