"""The resume law: a state taken after any element, loaded into a new run, gives exactly the rest."""

import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.moved import only_unmoved_are_restored

from . import on_penstock
from .normal import Outcome, collect
from .on_penstock import L, ps
from .pipelines import FAILING_STEPS, PLAIN_STEPS, RANDOM_STEPS, Pipeline, pipelines
from .programs import DATASET_PROGRAMS, Program

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def _only_unmoved_are_restored() -> Iterator[None]:
    with only_unmoved_are_restored():
        yield


ORDERED = [program for program in DATASET_PROGRAMS if program.ordered]
INDEX_BACKED = [
    program
    for program in ORDERED
    if program.name.startswith(
        ("from_tensor_slices", "range", "batch: batch", "repeat/take/skip: take(", "penstock: shuffle()")
    )
]


def run_and_save(dataset: Any, max_items: int) -> tuple[Outcome, list[Any]]:
    """The whole outcome, and the state before each item and after the last. States are kept as they were given."""
    items: list[Any] = []
    with dataset.run() as run:
        states = [run.state_dict()]
        while len(items) < max_items:
            step = collect(run, on_penstock.normal, max_items=1)
            items += step.items
            states.append(run.state_dict())
            if step.ended:
                return Outcome(tuple(items), ended=True), states
    return Outcome(tuple(items), ended=False), states


@pytest.mark.parametrize("program", ORDERED, ids=repr)
def test_state_after_every_element_gives_the_rest(program: Program) -> None:
    dataset = on_penstock.build(program)
    for _ in range(program.passes - 1):
        on_penstock.run(dataset, program.max_items)
    whole, states = run_and_save(dataset, program.max_items)
    for at in range(len(states)):
        # In a real restart the pipeline is built again, in another process; in a test it may also still be there.
        target = dataset if at % 2 else on_penstock.build(program)
        with target.run() as run:
            run.load_state_dict(pickle.loads(pickle.dumps(states[at])))
            left = max(len(whole.items) - at, 0)
            rest = collect(run, on_penstock.normal, max_items=left + whole.ended, max_errors=left + 1)
        expected = Outcome(whole.items[at:], whole.ended)
        where = f"after {at} items, in {'the same' if at % 2 else 'a new'} dataset"
        assert rest == expected, f"{where}\nuninterrupted {expected!r}\nresumed {rest!r}"


@settings(
    deadline=None, derandomize=True, database=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow]
)
@given(pipelines(PLAIN_STEPS | RANDOM_STEPS | FAILING_STEPS), st.integers(0, 20))
def test_random_pipelines(pipeline: Pipeline, at: int) -> None:
    with pipeline.build(L).run(epoch=2) as run:
        collect(run, on_penstock.normal, max_items=at, max_errors=at + 1)
        state = run.state_dict()
        expected = collect(run, on_penstock.normal, max_items=100)
    with pipeline.build(L).run() as again:
        again.load_state_dict(pickle.loads(pickle.dumps(state)))
        rest = collect(again, on_penstock.normal, max_items=100)
    assert rest == expected, f"uninterrupted {expected!r}\nresumed {rest!r}"


@pytest.mark.parametrize("program", INDEX_BACKED, ids=repr)
def test_state_over_an_index_is_small_json(program: Program) -> None:
    with on_penstock.build(program).run() as run:
        collect(run, on_penstock.normal, max_items=3)
        text = json.dumps(run.state_dict())
        rest = collect(run, on_penstock.normal)
    assert len(text) < 2_000
    with on_penstock.build(program).run() as again:
        again.load_state_dict(json.loads(text))
        assert collect(again, on_penstock.normal) == rest


def test_state_of_another_pipeline_is_refused() -> None:
    with ps.Dataset.range(10).batch(2).run() as run:
        next(run)
        state = run.state_dict()
    with ps.Dataset.range(10).map(lambda x: x).shuffle(3, seed=1).run() as other, pytest.raises(ps.errors.StateError):
        other.load_state_dict(state)


def test_loading_moves_a_run_that_has_begun() -> None:
    dataset = ps.Dataset.range(10).map(lambda x: x * 2)
    with dataset.run() as run:
        first = [next(run) for _ in range(3)]
        state = run.state_dict()
        second = [next(run) for _ in range(3)]
        run.load_state_dict(state)
        assert [next(run) for _ in range(3)] == second
    assert first == [0, 2, 4]


def test_state_holds_the_epoch() -> None:
    dataset = ps.Dataset.range(50).shuffle(20, seed=4)
    with dataset.run(epoch=3) as run:
        next(run)
        state = run.state_dict()
        rest = list(run)
    with dataset.run(epoch=0) as other:
        other.load_state_dict(state)
        assert list(other) == rest
