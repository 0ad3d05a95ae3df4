"""The law of the budget as the operating system sees it: pipelines drawn at random, with elements that fill it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
MB = 1_000_000
EACH = 8
#: Beyond the budget and the one element that the caller has.
CONSTANT_BYTES = 16 * MB


@pytest.mark.timeout(400)
@pytest.mark.parametrize("first", range(0, 32, EACH))
def test_no_pipeline_makes_the_process_grow_by_more_than_its_budget(first: int) -> None:
    path = os.pathsep.join(filter(None, [str(HERE.parent.parent), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, str(HERE / "random_pipelines.py"), str(first), str(EACH)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        check=True,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["number"] for one in found] == list(range(first, first + EACH))
    for one in found:
        assert "error" not in one, one
        assert one["ledger_peak"] <= one["budget"] * MB, one
        assert one["growth"] <= one["budget"] * MB + one["largest"] + CONSTANT_BYTES, one
