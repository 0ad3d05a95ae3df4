"""Memory over the epochs of `model.fit`: fed by penstock, a process grows no more than fed by NumPy's arrays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("fit_children.py")
# Keras's epochs end while the pipeline is at work, with a batch or two more or less ready than in another epoch. And
# small objects come to lie between JAX's arrays in the heap, which takes 1.6 batches, and up to 4: a `PyDataset` of two
# workers that does the same by hand grows by 18. None of it goes on.
CHANCE = 8


@pytest.mark.timeout(400)  # frameworks take long to load on a busy machine
@pytest.mark.parametrize("backend", ["tensorflow", "torch", "jax"])
def test_a_fit_grows_no_more_than_with_arrays(backend: str, loaded_python: str) -> None:
    python = loaded_python if backend == "tensorflow" else sys.executable
    env = os.environ | {"KERAS_BACKEND": backend, "OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1"}
    done = subprocess.run([python, str(PROGRAM)], env=env, capture_output=True, text=True, check=False, timeout=390)
    assert done.returncode == 0, done.stderr[-4000:]
    batches = json.loads(done.stdout.splitlines()[-1])
    allowed = max(batches["arrays"], 0) + CHANCE
    assert batches["penstock"] < allowed, batches
    assert batches["a leak"] > allowed, batches  # by one batch in each of some 20 epochs
