"""Texts that people read, as files: plans explained, and errors.

To accept what is shown now: PENSTOCK_UPDATE_GOLDEN=1 pytest tests/golden, then read the diff.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps

D = ps.Dataset
HERE = Path(__file__).parent
UPDATE = os.environ.get("PENSTOCK_UPDATE_GOLDEN") == "1"


def check(name: str, text: str) -> None:
    """Compares a text with its file, lines of this test left out of both."""
    shown = re.sub(r"test_golden\.py:\d+", "train.py:N", text)
    shown = "\n".join(line.rstrip() for line in shown.splitlines()) + "\n"
    file = HERE / f"{name}.txt"
    if UPDATE:
        file.write_text(shown)
    assert file.exists(), f"there is no {file.name}; see the docstring of this file"
    assert shown == file.read_text()


# Data that do not change, and functions with names.
IMAGES = np.zeros((50_000, 32, 32, 3), np.uint8)
LABELS = np.zeros(50_000, np.int64)


def augment(image: Any, label: Any) -> Any:
    return image.astype(np.float32) / 255, label


def decode(x: Any) -> Any:
    return np.zeros((64, 64, 3), np.uint8)


def jitter(x: Any, rng: Any) -> Any:
    return x + rng.integers(3)


def is_small(image: Any, label: Any) -> Any:
    return label < 5


PLANS: dict[str, Callable[[], Any]] = {
    "explain_training": lambda: (
        D.from_tensor_slices((IMAGES, LABELS))
        .map(augment, num_parallel_calls=ps.AUTOTUNE)
        .shuffle(10_000, seed=1)
        .batch(32)
        .prefetch(ps.AUTOTUNE)
    ),
    "explain_in_order": lambda: D.from_tensor_slices({"image": IMAGES, "label": LABELS}).batch(
        256, drop_remainder=True
    ),
    "explain_stream": lambda: (
        D.from_tensor_slices((IMAGES, LABELS)).filter(is_small).shuffle(1000, seed=1).repeat().batch(64).prefetch(2)
    ),
    "explain_noops": lambda: (
        D.range(1_000_000).take(-1).skip(0).map(decode).skip(5).skip(7).take(1000).shuffle().batch(8)
    ),
    "explain_branches": lambda: (
        D.zip((D.range(100).random_map(jitter, seed=1).shuffle(seed=2), D.range(50).concatenate(D.range(50, 120))))
        .enumerate()
        .batch(10)
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_plans(name: str) -> None:
    check(name, str(PLANS[name]().explain(memory="256MB")))


def test_a_plan_that_runs_as_written() -> None:
    dataset = PLANS["explain_training"]().with_options(ps.Options(optimize=False))
    check("explain_as_written", str(dataset.explain(memory="256MB")))


def raised(action: Callable[[], Any]) -> str:
    """The type and text of the error, as the last lines of a traceback show it."""
    try:
        action()
    except Exception as error:
        notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", []))
        return f"{type(error).__name__}: {error}{notes}"
    raise AssertionError("nothing was raised")


def fail(x: Any) -> Any:
    raise KeyError("a mistake of the user's own")


def load_changed() -> None:
    state = D.range(100).shuffle(10, seed=1).batch(4).run().state_dict()
    D.range(100).shuffle(20, seed=1).batch(4).run().load_state_dict(state)


ERRORS: dict[str, Callable[[], Any]] = {
    "batch of unequal shapes": lambda: list(D.range(3).map(lambda x: np.zeros(x)).batch(3)),
    "batch of unequal structures": lambda: list(D.range(2).map(lambda x: (x, x) if x else {"a": x}).batch(2)),
    "batch_size 0": lambda: D.range(3).batch(0),
    "batch_size of another type": lambda: D.range(3).batch(2.0),
    "unequal first dimensions": lambda: D.from_tensor_slices((np.zeros(3), {"a": np.zeros((4, 2))})),
    "shard index": lambda: D.range(3).shard(num_shards=4, index=4),
    "shuffle of an infinite dataset": lambda: D.counter().shuffle(),
    "over budget": lambda: list(D.range(1000).map(decode, stateful=True).window(500).run(memory="1MB")),
    "budget too small": lambda: list(D.from_tensor_slices(IMAGES).shuffle(seed=1).batch(1000).run(memory="2MB")),
    "state of another pipeline": load_changed,
    "state that is none": lambda: D.range(3).run().load_state_dict({"epoch": 3}),
    "batch over budget": lambda: list(D.range(1000).map(decode).batch(500).run(memory="2MB")),
    "bad memory": lambda: D.range(3).run(memory="lots"),
    "a function that returns nonsense": lambda: list(D.range(3).map(lambda x: object)),
    "a predicate that returns a number": lambda: list(D.range(3).filter(lambda x: x + 1)),
    "a function that raises": lambda: list(D.range(3).map(fail)),
    "no length": lambda: len(D.range(3).filter(bool)),
}


def test_errors() -> None:
    parts = [f"--- {what}\n{raised(action)}" for what, action in ERRORS.items()]
    text = "\n\n".join(parts)
    check("errors", re.sub(r"<class 'object'> at 0x\w+", "<class 'object'>", text))
