"""`to_keras`, `to_tf` and `keras_checkpoint` in `model.fit`, with the real Keras 3 on each backend."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).with_name("keras_children.py")
LOGS = Path(__file__).with_name("keras_logs_children.py")
OPTIMIZERS = Path(__file__).with_name("keras_optimizers_children.py")
VALIDATION = Path(__file__).with_name("validation_children.py")
# Frameworks take long to load on a busy machine.
pytestmark = pytest.mark.timeout(400)


def child(python: str, backend: str, *programs: str, file: Path = PROGRAMS) -> Any:
    env = os.environ | {"KERAS_BACKEND": backend, "OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1"}
    command = [python, str(file), *programs]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=390)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("backend", ["tensorflow", "torch", "jax"])
def test_fit(backend: str, loaded_python: str) -> None:
    """One process for all that is proven of a backend: to load it takes longer than most of the rest."""
    python = loaded_python if backend == "tensorflow" else sys.executable
    found = child(python, backend, "fit", "kinds", "checkpoints")
    is_as_by_hand(found["fit"])
    takes_all_kinds(found["kinds"], backend)
    ends_the_same_when_killed(found["checkpoints"])


def is_as_by_hand(found: dict[str, Any]) -> None:
    assert found["epochs"] == found["expected"]
    assert found["looked at"]
    assert found["steps"] == [9, 9, 9]
    assert found["val_loss"] == 3
    assert found["weights_differ_by"] < 1e-4


def takes_all_kinds(found: dict[str, Any], backend: str) -> None:
    weights = found.pop("class weights")
    assert weights.pop("y") == "y: expected it to be part of each batch of to_keras(), got an argument of fit"
    assert weights.pop("classes") == "class_weight: expected a dict of weights by class number, got [1, 2]"
    assert weights.pop("matter")
    assert len(weights) == (3 if backend == "tensorflow" else 2)
    assert max(weights.values()) < 1e-5
    assert found == {
        "weights are used": True,
        "dicts": True,
        "namedtuple": True,
        "dataclass": True,
        "features alone": [70, 1],
        "looped over": [[9, True], [9, True], True],
        "unknown length": [9, 9],
        "steps_per_epoch": 10,
        "one step at a time": [[0, 1, 2], [3, 4, 5], [6, 7, 8]],
        "one batch of unknown length": True,
        "single steps": {name: [0, 1, 2, 3] for name in ("fit", "stopped", "evaluate", "predict", "validation")},
        "resumed": True,
        "begun twice": [True, True],
        "stopped early": 0,
        "runs": [None, [0, 16_000_000, True], [1, 16_000_000, True]],
    }


def ends_the_same_when_killed(found: dict[str, Any]) -> None:
    refusal = found.pop("another model")
    assert refusal.startswith("the checkpoint is of another model: it has 5 variables of the model, and this one has 2")
    assert "a feed that only training reads, and it is validation_data too" in found.pop("validation")
    assert set(found) >= {"known", "unknown", "files", "ends of epochs"}
    assert [name for name, is_same in found.items() if not is_same] == []


def test_fit_of_a_dataset_of_tensorflows(loaded_python: str) -> None:
    assert child(loaded_python, "tensorflow", "fit_to_tf")["fit_to_tf"] == {
        "known": [9, 9, 9],
        "unknown": [9, 9, 9],
        "endless": [5, 5, 5],
        "class_weight": True,
        "steps_per_execution": [3, 3],
        "strategy": [9, 9],
        "run under a strategy": True,
    }


def test_tensorflow_says_of_losses_what_it_says_for_its_own_datasets(loaded_python: str) -> None:
    found = child(loaded_python, "tensorflow", file=LOGS)
    assert found["different"] == []
    assert found["sizes"] == {"of any size": [None], "of one size": [16], "not compiled": [15, 16]}


@pytest.mark.parametrize("backend", ["tensorflow", "torch", "jax"])
def test_a_resumed_fit_validates_on_what_it_would_have(backend: str, loaded_python: str) -> None:
    found = child(loaded_python if backend == "tensorflow" else sys.executable, backend, file=VALIDATION)
    as_if_not_killed = {"same rows": True, "same figures": True}
    assert found == {
        "reshuffled": {**as_if_not_killed, "apart": [True, True], "num sets": 5},
        "in the first epoch": {**as_if_not_killed, "apart": [True, True], "num sets": 5},
        "in validations": {**as_if_not_killed, "apart": [True, True], "num sets": 5},
        "at the end of an epoch": {**as_if_not_killed, "apart": [True, True], "num sets": 5},
        "of unknown length": {**as_if_not_killed, "apart": [True, True], "num sets": 5},
        "stopped": {**as_if_not_killed, "apart": [True, True], "num sets": 5},
        "every other epoch": {**as_if_not_killed, "apart": [False, False], "num sets": 2},
        "once": {**as_if_not_killed, "apart": [True, True], "num sets": 1},
        "endless": {**as_if_not_killed, "apart": [True, True], "num sets": 5},
    }


def test_optimizers_of_training_steps_are_saved_too(loaded_python: str) -> None:
    assert child(loaded_python, "tensorflow", file=OPTIMIZERS) == {
        "two optimizers": True,
        "one of a part": True,
        "fewer optimizers": "the checkpoint is of another model: it has 3 optimizers, and this one has 1",
    }
