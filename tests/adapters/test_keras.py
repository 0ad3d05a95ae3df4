"""`to_keras` and `to_tf` in `model.fit`, with the real Keras 3 on each backend, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).with_name("keras_children.py")
# Frameworks take long to load on a busy machine.
pytestmark = pytest.mark.timeout(400)


def child(backend: str, program: str) -> Any:
    env = os.environ | {"KERAS_BACKEND": backend, "OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1"}
    command = [sys.executable, str(PROGRAMS), program]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=390)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("backend", ["tensorflow", "torch", "jax"])
def test_fit(backend: str) -> None:
    found, kinds = child(backend, "fit")
    assert found["epochs"] == found["expected"]
    assert found["looked at"]
    assert found["steps"] == [9, 9, 9]
    assert found["val_loss"] == 3
    assert found["weights_differ_by"] < 1e-4
    weights = kinds.pop("class weights")
    assert weights.pop("y") == "y: expected it to be part of each batch of to_keras(), got an argument of fit"
    assert weights.pop("classes") == "class_weight: expected a dict of weights by class number, got [1, 2]"
    assert weights.pop("matter")
    assert len(weights) == (3 if backend == "tensorflow" else 2)
    assert max(weights.values()) < 1e-5
    assert kinds == {
        "weights are used": True,
        "dicts": True,
        "namedtuple": True,
        "dataclass": True,
        "features alone": [70, 1],
        "unknown length": [9, 9],
        "steps_per_epoch": 10,
        "one step at a time": [[0, 1, 2], [3, 4, 5], [6, 7, 8]],
        "one batch of unknown length": True,
        "resumed": True,
        "stopped early": 0,
        "runs": [None, [0, 16_000_000, True], [1, 16_000_000, True]],
    }


def test_fit_of_a_dataset_of_tensorflows() -> None:
    assert child("tensorflow", "fit_to_tf") == {
        "known": [9, 9, 9],
        "unknown": [9, 9, 9],
        "endless": [5, 5, 5],
        "class_weight": True,
        "steps_per_execution": [3, 3],
        "strategy": [9, 9],
        "run under a strategy": True,
    }
