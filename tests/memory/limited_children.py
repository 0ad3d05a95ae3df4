"""Programs that run in a process that may have 128 MB of addresses beyond what it begins with, under a budget of 64 MB.

Nothing is warmed up: what a pipeline loads it must load within the limit.

python limited_children.py <name>: see PROGRAMS at the end. Each prints one line of JSON.
"""

import functools
import json
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.memory.budget_children import BUDGET, LARGE, D, generated, status_bytes
from tests.memory.children import MB


def limited(free_bytes: int = 128 * MB) -> None:
    """From here on."""
    size = status_bytes("VmSize") + free_bytes
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def shuffled(source: Any) -> Any:
    return source(150).shuffle(100, seed=1).batch(2)


def cached(source: Any) -> Any:
    return source(80).cache().repeat(2)


def all_together(source: Any) -> Any:
    pairs = source(100).map(lambda x: {"x": x + 1, "name": b"%d" % int(x[0])}, num_parallel_calls=2)
    return pairs.shuffle(60, seed=1).map(lambda pair: pair["x"] + int(pair["name"])).batch(2).prefetch(2)


def in_many_threads(source: Any) -> Any:
    """Stacks of the usual size would take up all addresses."""
    return source(60).map(lambda x: x + 1, num_parallel_calls=16).shuffle(40, seed=1).batch(2).prefetch(2)


def of_small(source: Any) -> Any:
    """Stacked by the hundred, which is another way into a file."""
    return source(3_000).shuffle(2_500, seed=1).cache().batch(20).repeat(2)


def read_within_the_limit(build: Callable[[Any], Any], size: int = LARGE) -> dict[str, Any]:
    limited()
    found = []
    with build(functools.partial(generated, size=size)).run(memory=BUDGET) as run:
        for batch in run:
            found += np.atleast_2d(batch)[:, 0].tolist()
        spilled = sum(stage["spilled_bytes"] for stage in run.stats()["stages"])
        peak = run.ledger.peak_bytes
    with build(functools.partial(generated, size=100)).run(memory=BUDGET) as run:
        expected = [number for batch in run for number in np.atleast_2d(batch)[:, 0].tolist()]
    return {"equal": found == expected, "spilled": spilled, "ledger_peak": peak, "pyarrow": "pyarrow" in sys.modules}


def kept_in_a_file() -> dict[str, Any]:
    """There are no addresses at all for pyarrow, which files that are to last cannot do without."""
    elements = D.from_tensor_slices(np.zeros((20, 9)))
    errors = []
    with tempfile.TemporaryDirectory() as folder:
        limited(60 * MB)
        ways: tuple[Callable[[], Any], ...] = (
            lambda: list(elements.cache(str(Path(folder, "a"))).run(memory=BUDGET)),
            lambda: list(elements.snapshot(str(Path(folder, "b"))).run(memory=BUDGET)),
            lambda: elements.save(str(Path(folder, "c"))),
        )
        for keep in ways:
            try:
                keep()
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}")
    return {"errors": errors}


def tables() -> dict[str, Any]:
    """Sources that pyarrow reads: it would be loaded, and end the process when it starts a thread."""
    errors = {}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a").write_text("1\n")
        limited()
        ways: dict[str, Callable[[], Any]] = {
            "CSV files": lambda: D.from_csv(folder + "/a"),
            "JSON lines": lambda: D.from_json_lines(folder + "/a"),
            "Parquet files": lambda: D.from_parquet(folder + "/a"),
            "Arrow tables and files": lambda: D.from_arrow(folder + "/a"),
            "to_parquet": lambda: D.range(3).to_parquet(folder + "/b"),
        }
        for what, use in ways.items():
            try:
                use()
            except Exception as error:
                errors[what] = f"{type(error).__name__}: {error}"
    return {"errors": errors}


PIPELINES = (shuffled, cached, all_together, in_many_threads)
PROGRAMS: dict[str, Callable[[], dict[str, Any]]] = {
    **{build.__name__: functools.partial(read_within_the_limit, build) for build in PIPELINES},
    "of_small": functools.partial(read_within_the_limit, of_small, 5_000),
    "kept_in_a_file": kept_in_a_file,
    "tables": tables,
}

if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]]()))
