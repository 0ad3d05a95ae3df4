"""examples/map_fn.py runs, at a small size, and finds all results equal."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_example_runs(loaded_python: str) -> None:
    done = subprocess.run(
        [loaded_python, str(ROOT / "examples" / "map_fn.py"), "--elements", "50", "--many", "200"],
        capture_output=True,
        text=True,
        timeout=110,
        env=os.environ.copy(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line[:20].strip() for line in lines[1:-1]] == [
        "tf.map_fn",
        "tf.vectorized_map",
        "tf.data",
        "ps.map_fn",
        "ps.map_fn, jit",
        "ps.map_fn",
        "ps.map_fn, jit",
    ]
    assert lines[-1] == "all results are equal"
