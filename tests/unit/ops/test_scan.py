"""scan: the state goes from element to element, and into a saved position."""

import gc
import json
import weakref
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.testing import check_op

from ..fakes import all_with_errors


def add(total: Any, x: Any) -> Any:
    return total + x, total + x


def test_sums() -> None:
    ds = ps.Dataset.range(5).scan(np.int64(0), add)
    assert [int(x) for x in ds] == [0, 1, 3, 6, 10]
    assert ds.cardinality() == 5
    check_op(ds)
    check_op(ds.batch(2))


def test_each_iteration_starts_again() -> None:
    ds = ps.Dataset.range(3).scan(0, lambda s, x: (s + 1, s)).repeat(2)
    assert [int(x) for x in ds] == [0, 1, 2, 0, 1, 2]


def test_the_element_is_one_argument() -> None:
    pairs = ps.Dataset.from_tensor_slices((np.arange(3), np.arange(3) * 10))
    assert [int(x) for x in pairs.scan(0, lambda s, pair: (s + pair[0], pair[1]))] == [0, 10, 20]


@pytest.mark.parametrize(
    "initial",
    [
        np.float32(1.5),
        b"text",
        np.arange(6).reshape(2, 3)[:, ::2],
        np.array([b"a", b"bcd"], dtype=object),
        {"a": (np.int8(1), b"x"), "b": np.zeros((0, 2), np.float16)},
        ps.Ragged(np.arange(3), np.array([0, 1, 3])),
    ],
    ids=["scalar", "bytes", "array", "strings", "nest", "ragged"],
)
def test_any_state_survives_json(initial: Any) -> None:
    ds = ps.Dataset.range(4).scan(initial, lambda s, x: (s, x))
    with ds.run() as run:
        next(run)
        state = json.loads(json.dumps(run.state_dict()))
    with ds.run() as resumed:
        resumed.load_state_dict(state)
        assert [int(x) for x in resumed] == [1, 2, 3]


def test_a_state_may_change_its_shape() -> None:
    ds = ps.Dataset.range(4).scan(np.zeros(0, np.int64), lambda s, x: (np.append(s, x), len(s)))
    assert [int(x) for x in ds] == [0, 1, 2, 3]
    check_op(ds)


def test_an_error_leaves_the_state_as_it_was() -> None:
    def add_but_three(total: int, x: int) -> Any:
        return add(total, x) if x != 3 else int("three")

    ds = ps.Dataset.range(6).scan(np.int64(0), add_but_three)
    found = all_with_errors(ds.run())
    assert [0 if isinstance(x, Exception) else int(x) for x in found] == [0, 1, 3, 0, 7, 12]
    check_op(ds)


def test_a_state_changed_in_place_is_an_error_and_not_a_wrong_result() -> None:
    def in_place(total: np.ndarray, x: int) -> Any:
        total += x
        return total, total

    with pytest.raises(ValueError, match="read-only"):
        next(iter(ps.Dataset.range(3).scan(np.zeros(2, np.int64), in_place)))


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (lambda s, x: s, "expected a pair of state and result, got int64"),
        (lambda s, x: (s, x, x), "expected a pair of state and result, got tuple"),
        (lambda s, x: (np.float32(s), x), "expected a state like int64, got float32"),
        (lambda s, x: ((s, s), x), "expected ·, got"),
        (lambda s, x: (s, ()), "expected a result with at least one component"),
    ],
)
def test_what_does_not_fit_is_refused(result: Any, text: str) -> None:
    with pytest.raises(ps.errors.PlanError, match=text) as caught:
        next(iter(ps.Dataset.range(3).scan(np.int64(0), result)))
    assert isinstance(caught.value, TypeError)
    assert str(caught.value).startswith("scan at test_scan.py")


@pytest.mark.parametrize("initial", [(), None, ps.Dataset.range(2)], ids=["empty", "None", "dataset"])
def test_a_state_of_nothing_is_refused(initial: Any) -> None:
    with pytest.raises(ps.errors.BadType, match="initial_state: expected arrays"):
        ps.Dataset.range(3).scan(initial, add)


def test_the_state_is_on_the_ledger() -> None:
    with ps.Dataset.range(3).scan(np.zeros(1000), lambda s, x: (s, x)).run() as run:
        next(run)
        assert run.ledger.charged_bytes >= 8000
    assert run.ledger.charged_bytes == 0


@pytest.mark.parametrize("memory", ["1MB", "30kB"], ids=["room for more", "room for one"])
@pytest.mark.parametrize("above", [lambda ds: ds, lambda ds: ds.prefetch(10), lambda ds: ds.map(int, 2)])
def test_positions_between_large_states_that_are_kept(above: Any, memory: str) -> None:
    ds = above(ps.Dataset.range(200).scan(np.zeros(2000, np.int64), lambda s, x: (s + x, s[0] + x)))
    expected = [int(x) for x in ds]
    with ds.run(memory=memory) as run:
        for n in range(1, 200):
            next(run)
            if n in (1, 63, 64, 65, 130, 199):
                state = json.loads(json.dumps(run.state_dict()))
                with ds.run(memory=memory) as resumed:
                    resumed.load_state_dict(state)
                    assert int(next(resumed, -1)) == ([*expected, -1])[n]
                    again = resumed.state_dict()
                    resumed.load_state_dict(again)
                    assert [int(x) for x in resumed] == expected[n + 1 :]
        assert run.ledger.peak_bytes <= run.ledger.budget_bytes
    assert run.ledger.charged_bytes == 0


def test_only_states_that_are_counted_stay_alive() -> None:
    made: list[weakref.ref[np.ndarray]] = []

    def step(state: np.ndarray, x: Any) -> Any:
        state = state + 1
        made.append(weakref.ref(state))
        return state, x

    ds = ps.Dataset.range(500).scan(np.zeros(1000), step).prefetch(20)
    for memory in ("20kB", "100kB"):
        made.clear()
        with ds.run(memory=memory) as run:
            for _ in range(300):
                next(run)
            num_alive = sum(state() is not None for state in made)
            assert (num_alive - 1) * 8000 <= run.ledger.peak_bytes  # one may be in the function


def test_a_resumed_run_keeps_no_state_that_is_not_counted() -> None:
    ds = ps.Dataset.range(500).scan(np.zeros(1000), lambda state, x: (state + 1, state[0]))
    with ds.run() as run:
        for _ in range(130):
            next(run)
        state = run.state_dict()
    with ds.run(memory=16_500) as run:  # for a state and the next one
        run.load_state_dict(state)
        alive = [x for x in gc.get_objects() if type(x).__name__ == "_Anchor" and x.place and x.value.nbytes == 8000]
        assert len(alive) * 8000 <= run.ledger.charged_bytes - 8000
        assert float(next(run)) == 130.0
        again = run.state_dict()
    with ds.run(memory=16_500) as run:
        run.load_state_dict(again)
        assert float(next(run)) == 131.0
        del alive


def test_anchors_leave_the_ledger_with_the_positions_that_refer_to_them() -> None:
    with ps.Dataset.range(1000).scan(np.zeros(1000), lambda s, x: (s + 1, x)).run(memory="1MB") as run:
        for _ in range(900):
            next(run)
        assert run.ledger.peak_bytes <= 4 * 8000


def test_a_state_that_has_no_room_is_refused_before_anything_runs() -> None:
    def step(state: Any, x: Any) -> Any:
        raise AssertionError("it ran")

    dataset = ps.Dataset.range(5).scan(np.zeros(1000), step)
    plan = dataset.explain(memory=500)
    assert (plan.minimum_bytes, plan.fits) == (8000, False)
    assert [stage["known_bytes"] for stage in plan.to_dict()["stages"]] == [8000, 0]
    with pytest.raises(ps.errors.BudgetTooSmall, match=r"need at least 8 kB .*\n  scan +8 kB  one state"):
        dataset.run(memory=500)


def test_each_cursor_has_a_state() -> None:
    dataset = (
        ps.Dataset.range(50)
        .scan(np.zeros(1000), lambda state, x: (state, x))
        .rejection_resample(lambda x: x % 2, [0.3, 0.7], seed=1)
    )
    needs = {need.name: need for need in dataset.explain(memory="1MB").division.needs}
    assert needs["scan"].floor_bytes == needs["scan"].num_cursors * 8000 > 8000


def test_a_state_that_grows_beyond_the_budget_is_refused_with_its_line() -> None:
    dataset = ps.Dataset.range(5).scan(np.zeros(1), lambda state, x: (np.zeros(1000), x))
    with (
        dataset.run(memory=500) as run,
        pytest.raises(ps.errors.OverBudget, match=r"scan at test_scan.py:\d+: asked for 7.99 kB .*use memory="),
    ):
        next(run)


@pytest.mark.parametrize("give", [lambda state: state, lambda state: state[:4000], lambda state: {"was": state[None]}])
def test_what_is_given_of_a_state_is_counted(give: Any) -> None:
    """It was read-only in the function, as windows on the user's arrays are, but each element has a new one."""
    states = ps.Dataset.range(100).scan(np.zeros(5_000), lambda state, x: (state + 1, give(state)))
    with states.filter(lambda x: True).shuffle(100, seed=1).run(memory="1MB") as run:
        assert sorted(int(np.ravel(x["was"] if isinstance(x, dict) else x)[0]) for x in run) == list(range(100))
        assert run.memory()["spilled_bytes"] > 2_000_000


def test_a_state_that_stays_is_counted_once() -> None:
    kept = ps.Dataset.range(20).scan((np.zeros(5_000), np.int64(0)), lambda state, x: ((state[0], x), x))
    with kept.run(memory="1MB") as run:
        assert [int(x) for x in run] == list(range(20))
        assert 40_000 <= run.ledger.peak_bytes < 200_000
    assert run.ledger.charged_bytes == 0
