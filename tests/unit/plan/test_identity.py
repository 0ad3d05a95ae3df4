"""Identity: the same in another process, another where what comes out may be."""

import functools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.plan.identity import identity_of, same_operator


def adding(n: Any) -> Any:
    return lambda x: x + n


class Scale:
    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, x: Any) -> Any:
        return x * self.by


def of(function: Any) -> list[str]:
    return identity_of(ps.Dataset.range(3).map(function).node)


@pytest.mark.parametrize(
    "make",
    [
        lambda: adding(1),
        lambda: Scale(2.0),
        lambda: functools.partial(np.add, 3),
        lambda: np.negative,
        lambda: Scale(2.0).__call__,
        lambda: lambda x: x in {"a", "b", "c"},
        lambda: lambda x, y=(1, "a", None): [i for i in y if i != x],
    ],
    ids=["closure", "object", "partial", "ufunc", "method", "set", "nested"],
)
def test_made_again_it_is_the_same(make: Any) -> None:
    assert of(make()) == of(make())


def test_what_makes_a_difference() -> None:
    functions = [
        adding(1),
        adding(2),
        adding(1.0),
        adding("1"),
        Scale(1),
        Scale(2),
        functools.partial(np.add, 1),
        functools.partial(np.add, 2),
        lambda x: x + 1,
        lambda x: x - 1,
        lambda x, y=1: x,
        lambda x, y=2: x,
        np.negative,
        np.abs,
    ]
    texts = [of(function)[-1] for function in functions]
    assert len(set(texts)) == len(texts)


def test_how_fast_it_runs_makes_none() -> None:
    function = adding(1)
    parallel = ps.Dataset.range(3).map(function, num_parallel_calls=4, deterministic=False)
    assert identity_of(parallel.node) == of(function)


def test_other_processes_agree() -> None:
    """Whatever order their sets come in."""
    program = (
        "import penstock as ps; from penstock.plan.identity import identity_of;"
        "print(identity_of(ps.Dataset.range(3).map(lambda x: x in {'a', 'b', 'c', 'd'}).node))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1


def test_code_of_another_python_is_not_compared() -> None:
    text = of(adding(1))[-1]
    other = text.rpartition(" of Python ")[0] + "0 of Python 3.5"
    assert text.startswith("map(λ) with code ")
    assert same_operator(text, other)
    assert not same_operator(text, other.replace("map", "filter"))
    assert not same_operator(text, of(adding(2))[-1])
    assert not same_operator("range(3)", "range(4)")
