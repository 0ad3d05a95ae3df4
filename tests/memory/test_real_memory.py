"""Memory as the operating system sees it: anonymous and shared pages of a child process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
MB = 1_000_000
# The pages of an interpreter under work differ by a little from run to run; a leak of anything would not be a little.
SLACK = 10 * MB


def child(name: str, programs: str = "children.py", exact: bool = True) -> dict[str, Any]:
    """What a program of children.py, or of another such file, measured of itself."""
    # Where it must be exact, malloc gives back at once what is freed: what it would keep is not what is measured.
    malloc = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    malloc = malloc if exact else {}
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    path = os.pathsep.join(filter(None, [str(HERE.parent.parent), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, **malloc, **one_thread, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, str(HERE / programs), name],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("name, count, batch_bytes, kept_bytes", [
    ("shuffled", 100_000, 4 * MB, 0),
    ("window_shuffled", 100_000, 4 * MB, 0),
    ("mapped", 50_000, 256 * 3072 * 4, 0),
    ("mapped_above_the_shuffle", 20_224, 256 * 3072 * 4, 0),
    # Its function makes arrays of 3 MB, of which an eighth of the budget is kept for the next.
    ("vectorized", 50_000, 256 * 3072 * 4, 64 * MB // 8),
])  # fmt: skip
def test_a_large_array_costs_three_batches_at_most(name: str, count: int, batch_bytes: int, kept_bytes: int) -> None:
    found = child(name)
    assert (found["count"], found["batch"]) == (count, batch_bytes)
    assert found["growth"] < 3 * batch_bytes + kept_bytes + SLACK
    assert found["ledger_peak"] < 3 * batch_bytes + kept_bytes + MB


def test_a_batch_in_order_costs_nothing_at_all() -> None:
    found = child("in_order")
    assert (found["count"], found["batch"]) == (100_000, 4 * MB)
    assert found["ledger_peak"] == 0
    assert found["growth"] < 4 * MB


def test_the_first_batch_of_a_huge_shuffle_is_cheap() -> None:
    found = child("huge_range")
    assert found["count"] == 32
    assert found["growth"] < 10 * MB


def test_parallel_calls_and_prefetch_stay_within_the_budget() -> None:
    found = child("parallel_within_budget")
    assert found["count"] == 200
    assert found["ledger_peak"] <= 12 * MB
    assert found["growth"] < 12 * MB + SLACK


def test_a_cache_that_outgrows_the_budget_goes_to_disk() -> None:
    found = child("cached_on_disk")
    assert found["equal"]
    assert found["calls"] == 200
    assert max(found["peaks"]) <= 64 * MB
    assert found["growth"] < (64 + 16) * MB


def test_memory_does_not_grow_over_epochs() -> None:
    sizes = child("epochs")["sizes"]
    assert len(sizes) == 20
    assert max(sizes[2:]) - sizes[1] < 2 * MB, [size // 1000 for size in sizes]


@pytest.mark.parametrize("name, spilled", [
    ("large_shuffled_on_disk", 700 * MB),
    ("large_shuffled_on_disk_ahead", 700 * MB),
    ("small_shuffled_on_disk", 60 * MB),
    ("all_shuffled_on_disk", 50 * MB),
])  # fmt: skip
def test_a_shuffle_that_outgrows_the_budget_goes_to_disk(name: str, spilled: int) -> None:
    found = child(name)
    assert found["equal"]
    assert found["spilled"] > spilled
    assert found["ledger_peak"] <= 64 * MB
    assert found["growth"] < (64 + 16) * MB
