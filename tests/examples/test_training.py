"""The training examples: each is killed half-way, begun again, and ends with the weights of one that nobody killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
pytestmark = pytest.mark.timeout(400)

# The program, its epochs, and a step in the second of them, or in the middle of its only one.
PROGRAMS = {
    "keras": ("train_keras_digits.py", 12, 70),
    "torch": ("train_torch_photos.py", 2, 65),
    "jax": ("train_jax_digits.py", 12, 70),
}


def run(python: str, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [python, str(EXAMPLES / program), *arguments]
    env = os.environ | {
        "KERAS_BACKEND": "tensorflow",
        "OMP_NUM_THREADS": "1",
        "TF_NUM_INTRAOP_THREADS": "1",
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "CUDA_VISIBLE_DEVICES": "-1",
        "JAX_PLATFORMS": "cpu",
    }
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=390)


def printed(done: subprocess.CompletedProcess[str], what: str) -> str:
    assert done.returncode == 0, done.stderr[-4000:]
    found = re.search(rf"^{what} +([^ ,\n]+)", done.stdout, re.MULTILINE)
    assert found is not None, done.stdout
    return found[1]


@pytest.mark.parametrize("program, epochs, kill_after", PROGRAMS.values(), ids=PROGRAMS)
def test_killed_and_resumed(program: str, epochs: int, kill_after: int, tmp_path: Path, loaded_python: str) -> None:
    whole = run(loaded_python, program, "--epochs", str(epochs))
    assert float(printed(whole, "test accuracy")) >= 0.95
    checkpoint = str(tmp_path / "checkpoint")
    arguments = ("--epochs", str(epochs), "--checkpoint", checkpoint)
    assert run(loaded_python, program, *arguments, "--kill-after", str(kill_after)).returncode == -signal.SIGKILL
    assert os.path.exists(checkpoint)
    # In a process that has nothing in common with the other two: other hashes, other numbers where nobody gave a seed.
    assert printed(run(sys.executable, program, *arguments), "weights") == printed(whole, "weights")
