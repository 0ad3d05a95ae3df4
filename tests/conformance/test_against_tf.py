"""Every program on the real tf.data and on penstock: equal elements, errors in their places, cardinality and spec."""

from collections import Counter
from typing import Any

import pytest

from . import on_penstock, oracle_tf
from .normal import Outcome, collect
from .programs import PROGRAMS, Program

pytestmark = pytest.mark.timeout(60)

COMPARED = [program for program in PROGRAMS if program.oracle]


def as_multiset(outcome: Outcome) -> tuple[Counter[Any], bool]:
    return Counter(outcome.items), outcome.ended


@pytest.mark.parametrize("program", COMPARED, ids=repr)
def test_same_as_tf_data(program: Program) -> None:
    expected = oracle_tf.evaluate(program)
    actual = on_penstock.evaluate(program)
    for number, (theirs, ours) in enumerate(zip(expected.outcomes, actual.outcomes, strict=True)):
        same = theirs == ours if program.exact else as_multiset(theirs) == as_multiset(ours)
        assert same, f"pass {number}\ntf.data  {theirs!r}\npenstock {ours!r}"
    if actual.cardinality != expected.cardinality:
        # Where tf.data does not know, or says what its own run contradicts, the true count is as good an answer.
        (first, *_) = expected.outcomes
        assert first.ended
        assert actual.cardinality == len(first.without_errors()), f"not {expected.cardinality}, as tf.data says"
    assert actual.element_spec == expected.element_spec, "element_spec"


@pytest.mark.parametrize("program", [p for p in COMPARED if p.name.startswith("from_tensor_slices")], ids=repr)
def test_as_numpy_iterator(program: Program) -> None:
    theirs = collect(oracle_tf.build(program).as_numpy_iterator(), oracle_tf.normal)
    ours = collect(on_penstock.build(program).as_numpy_iterator(), on_penstock.normal)
    assert ours == theirs


@pytest.mark.parametrize("name", ["AUTOTUNE", "INFINITE_CARDINALITY", "UNKNOWN_CARDINALITY"])
def test_constants(name: str) -> None:
    ours = {"INFINITE_CARDINALITY": "INFINITE", "UNKNOWN_CARDINALITY": "UNKNOWN"}.get(name, name)
    assert getattr(on_penstock.ps, ours) == getattr(oracle_tf.tf.data, name)


def test_every_operator_has_a_program() -> None:
    """What tf.data's Dataset can do, less what is out of scope here, is called by some program."""
    elsewhere = {
        "options",
        "with_options",
        "fingerprint",
        "as_numpy_iterator",
        "cardinality",
    }
    called = {name for program in PROGRAMS for code in codes(program.build.__code__) for name in code.co_names}
    methods = {name for name in dir(oracle_tf.tf.data.Dataset) if not name.startswith("_")}
    methods -= {"element_spec", "from_sparse_tensor_slices", "rejection_resample", "random", "shuffle"}
    assert methods - elsewhere - called == set()


def codes(code: Any) -> Any:
    yield code
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            yield from codes(constant)
