"""Rewrites change nothing that a user can see: every program, and pipelines drawn at random, with and without them."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from . import on_penstock, oracle_tf
from .normal import collect
from .on_penstock import L
from .pipelines import FAILING_STEPS, PLAIN_STEPS, RANDOM_STEPS, Pipeline, pipelines
from .plain import Plain
from .programs import DATASET_PROGRAMS, Program

pytestmark = pytest.mark.timeout(120)

quick = settings(deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])


class PlainLibrary(on_penstock.Penstock):
    Dataset = Plain


def plain(pipeline: Pipeline) -> Any:
    return collect(iter(pipeline.build(PlainLibrary())), on_penstock.normal, max_items=100)


def ours(pipeline: Pipeline, **how: Any) -> Any:
    return on_penstock.run(pipeline.build(L), max_items=100, **how)


def assert_same(actual: Any, expected: Any, what: str) -> None:
    assert actual == expected, f"{what}\nexpected {expected!r}\ngot {actual!r}"


@pytest.mark.parametrize("program", [program for program in DATASET_PROGRAMS if program.seeded], ids=repr)
def test_every_program(program: Program) -> None:
    as_written, rewritten = on_penstock.build(program), on_penstock.build(program)
    for epoch in range(program.passes):
        expected = on_penstock.run(as_written, program.max_items, epoch=epoch, optimize=False)
        actual = on_penstock.run(rewritten, program.max_items, epoch=epoch)
        assert_same(actual, expected, f"epoch {epoch}")


@settings(quick, max_examples=250)
@given(pipelines(PLAIN_STEPS))
def test_random_pipelines_against_plain_python(pipeline: Pipeline) -> None:
    expected = plain(pipeline)
    assert_same(ours(pipeline, optimize=False), expected, "as written, against plain Python")
    assert_same(ours(pipeline), expected, "rewritten, against plain Python")


@settings(quick, max_examples=300)
@given(pipelines(PLAIN_STEPS | RANDOM_STEPS, max_steps=8))
def test_random_pipelines_with_random_order(pipeline: Pipeline) -> None:
    for epoch in (0, 1):
        assert_same(ours(pipeline, epoch=epoch), ours(pipeline, epoch=epoch, optimize=False), f"epoch {epoch}")


@settings(quick, max_examples=300)
@given(pipelines(PLAIN_STEPS | RANDOM_STEPS | FAILING_STEPS))
def test_random_pipelines_with_failures(pipeline: Pipeline) -> None:
    assert_same(ours(pipeline, epoch=0), ours(pipeline, epoch=0, optimize=False), "with failures")


@settings(quick, max_examples=40)
@given(pipelines(PLAIN_STEPS, max_steps=4))
def test_plain_python_against_tf_data(pipeline: Pipeline) -> None:
    """The small oracle agrees with the large one."""
    theirs = oracle_tf.tf.autograph.experimental.do_not_convert(pipeline.build)(oracle_tf.L)
    assert_same(plain(pipeline), oracle_tf.run(theirs, max_items=100), "plain Python against tf.data")
