"""Positions of pipelines that changed since: refused, and what changed is named."""

from typing import Any

import numpy as np
import pytest

from penstock import Dataset as D
from penstock.errors import StateError


def double(x: Any) -> Any:
    return x * 2


# Pairs of pipelines that differ in one thing, and what is said of it.
PAIRS: dict[str, tuple[Any, Any, str]] = {
    "another seed": (
        D.range(10).shuffle(4, seed=1),
        D.range(10).shuffle(4, seed=2),
        r"operator 1 was shuffle\(4, seed=1\) and is shuffle\(4, seed=2\)",
    ),
    "another buffer": (
        D.range(10).shuffle(4, seed=1),
        D.range(10).shuffle(5, seed=1),
        r"operator 1 was shuffle\(4, seed=1\) and is shuffle\(5, seed=1\)",
    ),
    "arrays of another shape": (
        D.from_tensor_slices(np.zeros((4, 2))),
        D.from_tensor_slices(np.zeros((5, 2))),
        r"operator 0 was from_tensor_slices\(4×2 float64\) and is from_tensor_slices\(5×2 float64\)",
    ),
    "another option": (
        D.range(10).batch(4),
        D.range(10).batch(4, drop_remainder=True),
        r"operator 1 was batch\(4\) and is batch\(4, drop_remainder=True\)",
    ),
    "operators that changed places": (
        D.range(10).take(5).repeat(2),
        D.range(10).repeat(2).take(5),
        r"operator 1 was take\(5\) and is repeat\(2\)",
    ),
    "one input of several": (
        D.zip((D.range(3), D.range(4))),
        D.zip((D.range(3), D.range(5))),
        r"operator 1 was range\(4\) and is range\(5\)",
    ),
}


@pytest.mark.parametrize("before, after, text", PAIRS.values(), ids=PAIRS)
def test_what_changed_is_named_with_its_operator(before: Any, after: Any, text: str) -> None:
    with before.run() as run:
        next(run)
        state = run.state_dict()
    with after.run() as other, pytest.raises(StateError, match=text):
        other.load_state_dict(state)


def test_what_only_decides_how_a_pipeline_runs_may_change() -> None:
    with D.range(10).map(double).prefetch(2).run(memory="1MB") as run:
        next(run)
        state = run.state_dict()
    with D.range(10).map(double, num_parallel_calls=2).prefetch(5).run(memory="2MB") as other:
        other.load_state_dict(state)
        assert next(other) == 2
