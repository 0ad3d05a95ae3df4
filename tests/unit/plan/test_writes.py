"""Writes: what functions write to is known by name, or only that they write; what they read is not taken for it."""

import numpy as np
import pytest

from penstock.plan.writes import writes_of_function

# The body of a function that has captured `a` and `b`: what it writes to by name, and whether to anything else.
BODIES = {
    "x + a.sum() + np.add(a, b) + np.sort(a)": (set(), False),
    "np.clip(x, 0, 1) + np.dot(a, b) + np.where(x > 0, a, b)": (set(), False),
    "[y for y in (a, b)].append(x)": (set(), False),
    "a.fill(x)": ({"a"}, False),
    "a.sort()": ({"a"}, False),
    "a.append(x)": ({"a"}, False),
    "x.inner.a.update(b)": ({"a"}, False),
    "np.copyto(a, b)": ({"a"}, False),
    "np.copyto(x.inner.a, b)": ({"a"}, False),
    "np.random.default_rng(1).shuffle(a)": ({"a"}, False),
    "open(x).readinto(a)": ({"a"}, False),
    "a[1:].fill(x)": (set(), True),
    "x.sort()": ({"x"}, True),
    "np.add(x, 1, out=a)": (set(), True),
    "np.add(x, 1, a)": (set(), True),
    "np.add(np.add(x, 1), b, a)": (set(), True),
    "np.add(x if x.any() else b, 1, a)": (set(), True),
    "np.add(x, np.add(1, b))": (set(), False),
    "np.clip(x, 0, 1, a)": (set(), True),
    "np.dot(x, b, a)": (set(), True),
    "len([np.add(y, 1, a) for y in x])": (set(), True),
}


@pytest.mark.parametrize("body", BODIES)
def test_what_a_function_writes_to(body: str) -> None:
    scope: dict[str, object] = {"np": np}
    exec(f"def make(a, b):\n    return lambda x: {body}", scope)
    make = scope["make"]
    assert callable(make)
    writes = writes_of_function(make(1, 2))
    named, unnamed = BODIES[body]
    assert (writes.changed & {"a", "b", "x"}, writes.unnamed) == (named, unnamed)


def test_functions_of_other_modules_are_not_looked_into() -> None:
    assert not writes_of_function(lambda x: np.mean(x)).unnamed  # which has an `out` in it
