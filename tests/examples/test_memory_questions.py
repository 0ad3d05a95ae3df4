"""The examples of docs/howto run at small size: tf.data and penstock see the same data, and penstock takes less."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

# Each uses TensorFlow in several processes, one after the other, and that may take a minute on a busy machine.
pytestmark = pytest.mark.timeout(600)


def run_example(python: str, name: str, **sizes: Any) -> dict[str, dict[str, float]]:
    options = [part for key, value in sizes.items() for part in (f"--{key.replace('_', '-')}", str(value))]
    command = [python, str(EXAMPLES / name), "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert answer["equal"] is True
    found: dict[str, dict[str, float]] = answer["contenders"]
    return found


def test_from_tensor_slices(loaded_python: str) -> None:
    found = run_example(loaded_python, "from_tensor_slices.py", rows=5_000, batch_size=500)
    array_mb = 5_000 * 500 * 8 / 1e6
    assert found["tf.data"]["peak MB"] > 2 * array_mb
    assert found["tf.data, in a function"]["peak MB"] > 10 * array_mb
    for name, result in found.items():
        if name.startswith("penstock"):
            assert result["peak MB"] < 16 + 4, name


def test_out_of_memory() -> None:
    # In processes of their own: a few MB more or less of a heap that was there before would tell.
    found = run_example(sys.executable, "out_of_memory.py", images=2_000, memory="16MB", epochs=2)
    # 2,000 prepared images are 49 MB as float16 and 98 MB as float32; the process may outgrow a small budget by 15 MB.
    for name in ("penstock", "penstock, no cache"):
        penstock = found.pop(name)
        assert penstock["peak MB"] < 16 + 15
        assert penstock["peak MB, reading"] < 16 + 15
    for result in found.values():
        assert result["peak MB"] > 16 + 15
        assert result["peak MB, reading"] > 16 + 15


def test_training_steps(loaded_python: str) -> None:
    found = run_example(loaded_python, "training_steps.py", rows=640, images=96, batch_size=16, device_ms=1)
    assert set(found) == {"array, tf.data", "array, penstock", "files, tf.data", "files, penstock"}
    assert found["array, penstock"]["peak MB"] < found["array, tf.data"]["peak MB"]
    assert all(0 <= result["waits %, prefetch"] <= 100 for result in found.values())


def test_memory_in_fit(loaded_python: str) -> None:
    found = run_example(loaded_python, "memory_in_fit.py", images=128, epochs=10)
    image_mb = 80 * 80 * 3 * 4 / 1e6

    def growth(name: str) -> float:
        return found[name]["MB, at the end"] - found[name]["MB, a third through"]

    # From the fourth epoch to the tenth 768 images are made, of 59 MB. Those that are kept show; others do not.
    assert growth("penstock") < 10
    assert growth("penstock, a leak") > 500 * image_mb
    assert found["penstock"]["peak MB"] < 64
    assert 0 < found["penstock"]["pipeline MB"] <= 64
    assert found["tf.data"]["pipeline MB"] is None
