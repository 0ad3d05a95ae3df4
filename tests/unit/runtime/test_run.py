"""A run: an iterator, a context manager, a position that can be saved, and an account of what it did."""

import itertools
import json
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.errors import OverBudget, StateError
from tests.threads import our_threads
from tests.unit.fakes import all_with_errors

D = ps.Dataset
pytestmark = pytest.mark.timeout(60)


class Bad(Exception):
    pass


class Stop(BaseException):
    """As KeyboardInterrupt is: not an error of the element."""


def fail_on(*places: int) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        if x in places:
            raise Bad(int(x))
        return x

    return function


# --- iterator and context manager ---


def test_a_run_is_an_iterator_that_ends_for_good() -> None:
    run = D.range(3).run()
    assert iter(run) is run
    assert list(run) == [0, 1, 2]
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(run)


def test_an_empty_dataset_ends_at_once() -> None:
    with pytest.raises(StopIteration):
        next(D.range(0).run())


def test_iterating_a_dataset_is_iterating_a_run() -> None:
    dataset = D.range(3)
    assert list(iter(dataset)) == list(dataset.run()) == list(dataset.as_numpy_iterator()) == [0, 1, 2]


def test_a_closed_run_gives_nothing_and_holds_nothing() -> None:
    run = D.range(100).map(lambda x: np.full(1000, x)).batch(3).prefetch(2).run()
    next(run)
    run.close()
    with pytest.raises(StopIteration):
        next(run)
    run.close()
    assert run.ledger.charged_bytes == 0
    assert not our_threads()


def test_leaving_the_context_closes_whatever_happens() -> None:
    run = D.range(10).map(abs, num_parallel_calls=2).run()

    def loop() -> None:
        with run:
            next(run)
            raise Bad

    with pytest.raises(Bad):
        loop()
    with pytest.raises(StopIteration):
        next(run)
    assert not our_threads()


def test_runs_of_one_dataset_do_not_disturb_each_other() -> None:
    dataset = D.range(6).map(lambda x: x * 2)
    first, second = dataset.run(), dataset.run()
    assert [next(first), next(first), next(second), next(first), next(second)] == [0, 2, 0, 4, 2]
    first.close()
    assert list(second) == [4, 6, 8, 10]


# --- errors ---


@pytest.mark.parametrize("options", [{}, {"num_parallel_calls": 2}, {"num_parallel_calls": ps.AUTOTUNE}])
@pytest.mark.parametrize("optimize", [True, False])
def test_after_an_error_the_run_goes_on(options: dict[str, Any], optimize: bool) -> None:
    with D.range(200).map(fail_on(0, 3, 4, 199), **options).run(optimize=optimize) as run:
        found = all_with_errors(run)
    assert [x.args[0] if isinstance(x, Bad) else int(x) for x in found] == list(range(200))
    assert [i for i, x in enumerate(found) if isinstance(x, Bad)] == [0, 3, 4, 199]


@pytest.mark.parametrize("parallel", [None, 2])
def test_what_is_no_error_of_an_element_closes_the_run(parallel: int | None) -> None:
    def stop(x: Any) -> Any:
        if x == 3:
            raise Stop
        return x

    dataset = D.range(10).map(stop, num_parallel_calls=parallel)
    run = dataset.run()
    seen: list[int] = []
    with pytest.raises(Stop):
        seen.extend(int(x) for x in run)
    assert seen == list(range(len(seen)))
    assert len(seen) <= 3
    assert run.ledger.charged_bytes == 0
    assert not our_threads()
    state = run.state_dict()
    with D.range(10).map(stop, num_parallel_calls=parallel).run() as again:
        again.load_state_dict(state)
        rest = list(itertools.islice(again, 3 - len(seen)))
    assert seen + [int(x) for x in rest] == [0, 1, 2]
    run.close()
    with pytest.raises(StopIteration):
        next(run)


def test_a_run_that_needs_more_than_its_budget_says_so_and_is_closed() -> None:
    run = (
        D.range(1000).filter(lambda x: True).map(lambda x: np.zeros(100), stateful=True).window(500).run(memory="100kB")
    )
    with pytest.raises(OverBudget, match=r"window at test_run.py:\d+: asked for 1.04 kB more .* of the 100 kB budget"):
        next(run)
    assert run.ledger.charged_bytes == 0
    assert run.ledger.peak_bytes <= 100_000


# --- epochs ---


def test_each_run_is_the_next_epoch_unless_it_says_which() -> None:
    dataset = D.range(50).shuffle(seed=1)
    assert [dataset.run().epoch for _ in range(3)] == [0, 1, 2]
    assert dataset.run(epoch=7).epoch == 7
    with pytest.raises(TypeError, match=r"run at test_run.py:\d+: epoch: expected an integer, got str 'first'"):
        dataset.run(epoch="first")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="epoch: expected at least 0, got -1"):
        dataset.run(epoch=-1)
    with pytest.raises(ValueError, match=r"explain at test_run.py:\d+: sample: expected at least 0, got -1"):
        dataset.explain(sample=-1)
    assert dataset.run().epoch == 8
    assert D.range(50).shuffle(seed=1).run().epoch == 0


@pytest.mark.parametrize("shuffle", [{"seed": 1}, {"buffer_size": 10, "seed": 1}])
def test_epochs_differ_and_are_reproducible(shuffle: dict[str, Any]) -> None:
    def epochs(dataset: Any) -> list[list[int]]:
        return [[int(x) for x in dataset] for _ in range(4)]

    first = epochs(D.range(50).shuffle(**shuffle))
    assert len({tuple(epoch) for epoch in first}) == 4
    assert first == epochs(D.range(50).shuffle(**shuffle))
    assert first[2] == [int(x) for x in D.range(50).shuffle(**shuffle).run(epoch=2)]
    other = epochs(D.range(50).shuffle(**{**shuffle, "seed": 2}))
    assert first != other


def test_without_reshuffling_all_epochs_are_the_same() -> None:
    dataset = D.range(50).shuffle(seed=1, reshuffle_each_iteration=False)
    assert list(dataset) == list(dataset)
    repeated = [int(x) for x in dataset.repeat(2)]
    assert repeated[:50] == repeated[50:]


def test_without_a_seed_datasets_differ_and_a_run_can_still_be_repeated() -> None:
    first, second = D.range(50).shuffle(), D.range(50).shuffle()
    assert list(first.run(epoch=0)) != list(second.run(epoch=0))
    assert list(first.run(epoch=0)) == list(first.run(epoch=0))


def test_a_repeat_goes_through_the_epochs_of_runs() -> None:
    single, double = D.range(20).shuffle(seed=3), D.range(20).shuffle(seed=3).repeat(2)
    assert [*single.run(epoch=4), *single.run(epoch=5)] == list(double.run(epoch=2))


# --- positions ---

INDEX_BACKED: dict[str, Callable[[], Any]] = {
    "slices": lambda: D.from_tensor_slices(np.arange(100)).batch(7),
    "shuffled": lambda: D.range(100).shuffle(seed=1).batch(7),
    "unseeded": lambda: D.range(100).shuffle().batch(7),
    "window": lambda: D.range(100).shuffle(30).map(lambda x: x + 1),
    "everything": lambda: (
        D.range(100).map(lambda x: x + 1).shuffle(10, seed=2).repeat(3)
        .shard(2, 1).skip(3).take(90).batch(4).prefetch(2)
    ),
    "parallel": lambda: D.range(100).map(lambda x: x + 1, num_parallel_calls=2).batch(9),
    "failing": lambda: D.range(100).map(fail_on(3, 50)).take(60),
}  # fmt: skip


@pytest.mark.parametrize("build", INDEX_BACKED.values(), ids=INDEX_BACKED)
def test_a_position_over_an_index_is_small_json_and_gives_the_rest_in_a_new_dataset(build: Callable[[], Any]) -> None:
    with build().run(epoch=3) as run:
        for step in itertools.count():
            text = json.dumps(run.state_dict())
            assert len(text) < 1000
            if step in (0, 1, 2, 5, 11):
                with build().run() as again:
                    again.load_state_dict(json.loads(text))
                    resumed = all_with_errors(again)
                if step == 0:
                    whole = resumed
                assert repr(resumed) == repr(whole[step:])
            try:
                if next(run, None) is None:
                    break
            except Bad:
                pass
    assert step >= 11


def test_the_state_after_closing_is_that_of_the_last_element_delivered() -> None:
    for dataset in (D.range(1000), D.range(1000).map(abs, num_parallel_calls=2), D.range(1000).prefetch(5)):
        with dataset.run() as run:
            for _ in range(100):
                last = next(run)
            inside = run.state_dict()
        assert run.state_dict() == inside
        with dataset.run() as again:
            again.load_state_dict(run.state_dict())
            assert next(again) == last + 1


def test_the_end_is_a_position_too() -> None:
    run = D.range(3).run()
    list(run)
    state = run.state_dict()
    assert state["position"] == "end"
    with D.range(3).run() as again:
        again.load_state_dict(state)
        assert list(again) == []
        assert again.state_dict() == state


def test_taking_a_position_changes_nothing() -> None:
    with D.range(50).shuffle(5, seed=1).map(lambda x: x).batch(3).prefetch(2).run() as run:
        found = []
        for batch in run:
            assert run.state_dict() == run.state_dict()
            found.append(batch.tolist())
    with D.range(50).shuffle(5, seed=1).map(lambda x: x).batch(3).run() as plain:
        assert [batch.tolist() for batch in plain] == found


@pytest.mark.parametrize("num_read", [3, 12], ids=["within", "at its end"])
def test_the_other_part_goes_on_with_the_epoch_of_a_loaded_position(num_read: int) -> None:
    def parts() -> tuple[Any, Any]:
        shuffled = D.range(16).shuffle(seed=1)
        return shuffled.skip(4), shuffled.take(4).batch(4)

    def epoch(train: Any, test: Any) -> tuple[list[int], list[int]]:
        return [int(x) for x in train], next(iter(test)).tolist()

    whole = [epoch(*both) for both in [parts()] for _ in range(5)]
    train, test = parts()
    run = train.run(epoch=2)
    for _ in range(num_read):
        next(run)
    resumed, test = parts()
    state = run.state_dict()
    run = resumed.run()
    run.load_state_dict(state)
    rest = [int(x) for x in run]
    assert rest == whole[2][0][num_read:]
    if rest:  # else it was validated before
        assert next(iter(test)).tolist() == whole[2][1]
    assert [epoch(resumed, test) for _ in range(2)] == whole[3:]
    assert test.next_epoch == 5


def test_loading_sets_the_epoch_of_this_run_and_of_those_after_it() -> None:
    with D.range(9).shuffle(seed=1).run(epoch=5) as run:
        next(run)
        state = run.state_dict()
    dataset = D.range(9).shuffle(seed=1)
    with dataset.run() as again:
        again.load_state_dict(state)
        assert again.epoch == 5
    assert dataset.run().epoch == 6


def test_a_run_that_has_begun_can_be_moved_back_and_forth() -> None:
    run = D.range(10).map(lambda x: x, num_parallel_calls=2).prefetch(1).run()
    states = []
    for _ in range(5):
        states.append(run.state_dict())
        next(run)
    for i in (4, 0, 2):
        run.load_state_dict(states[i])
        assert next(run) == i
    run.close()
    assert run.ledger.charged_bytes == 0


def double(x: Any) -> Any:
    return x * 2


CHANGES: dict[str, tuple[Callable[[], Any], str]] = {
    "another argument": (lambda: D.range(10).map(double).batch(3), r"was batch\(2\) and is batch\(3\), at test_run"),
    "another function": (lambda: D.range(10).map(abs).batch(2), r"operator 1 was map\(double\) and is map\(abs\)"),
    "other data": (lambda: D.range(11).map(double).batch(2), r"operator 0 was range\(10\) and is range\(11\)"),
    "an operator more": (lambda: D.range(10).map(double).batch(2).take(3), r"it did not have take\(3\)"),
    "an operator less": (lambda: D.range(10).map(double), r"it had batch\(2\)"),
    "an operator between": (
        lambda: D.range(10).skip(1).map(double).batch(2),
        r"operator 1 was map\(double\) and is skip",
    ),
}


@pytest.mark.parametrize("build, text", CHANGES.values(), ids=CHANGES)
def test_a_position_of_a_changed_pipeline_is_refused_and_the_first_difference_named(build: Any, text: str) -> None:
    with D.range(10).map(double).batch(2).run() as run:
        next(run)
        state = run.state_dict()
    with build().run() as other:
        first = next(other)
        with pytest.raises(StateError, match=text) as caught:
            other.load_state_dict(state)
        assert isinstance(caught.value, ValueError)
        assert len([first, *other]) == len(list(build()))  # a refusal leaves the run as it was


def test_a_position_of_a_run_with_another_optimizer_setting_is_refused() -> None:
    state = D.range(3).run(optimize=False).state_dict()
    with pytest.raises(StateError, match="optimize=False; this one has optimize=True"):
        D.range(3).run().load_state_dict(state)


@pytest.mark.parametrize("damage", [
    lambda state: None,
    lambda state: [],
    lambda state: {},
    lambda state: {**state, "version": 2},
    lambda state: {"version": 1},
    lambda state: {**state, "position": None},
    lambda state: {**state, "position": [1]},
    lambda state: {**state, "position": [{"a": 1}, 0]},
])  # fmt: skip
def test_what_is_no_position_is_refused(damage: Callable[[Any], Any]) -> None:
    run = D.range(3).run()
    with pytest.raises(StateError):
        run.load_state_dict(damage(run.state_dict()))


# --- stats ---


def test_stats_tell_of_the_run_and_of_each_stage() -> None:
    with D.range(100).filter(lambda x: x % 2 == 0).map(fail_on(4)).batch(5).run(memory="1MB", epoch=3) as run:
        all_with_errors(run)
        stats = run.stats()
    assert stats["epoch"] == 3
    assert stats["budget_bytes"] == 1_000_000
    of_run = {"epoch", "budget_bytes", "charged_bytes", "peak_bytes", "caller_bytes", "pressure"}
    assert set(stats) == {*of_run, "spilled_bytes", "on_disk_bytes", "stages"}
    stages = {stage["name"].split("(")[0]: stage for stage in stats["stages"]}
    assert set(stages) == {"range", "filter", "map", "batch"}
    for stage in stages.values():
        counted = {
            "name",
            "elements",
            "bytes",
            "failed",
            "failed_by_file",
            "busy_s",
            "waiting_s",
            "temporary_bytes",
            "chosen",
        }
        account = {"held_bytes", "peak_bytes", "floor_bytes", "slack_used_bytes", "spilled_bytes"}
        assert set(stage) == counted | account
        assert stage["busy_s"] >= 0
        assert stage["waiting_s"] == 0
    counts = {name: (stage["elements"], stage["failed"]) for name, stage in stages.items()}
    # Two elements had been gathered when the third failed: they are lost with it, as in tf.data.
    assert counts == {"range": (100, 0), "filter": (50, 0), "map": (50, 1), "batch": (11, 0)}
    assert stages["range"]["bytes"] == 800
    json.dumps(stats)


# --- how much is pulled at a time ---


def pulls_of(dataset: Any, count: int) -> tuple[int, int]:
    """How many elements a counting map saw for `count` delivered ones."""
    calls = 0

    def see(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return x

    with dataset(see).run() as run:
        for _ in range(count):
            next(run)
        return calls, run.stats()["stages"][0]["elements"]


def test_small_elements_are_pulled_in_blocks_and_no_more_than_a_few_ahead() -> None:
    calls, _ = pulls_of(lambda see: D.range(10_000).map(see), 1000)
    assert 1000 <= calls <= 1128


def test_large_elements_are_pulled_one_at_a_time() -> None:
    calls, _ = pulls_of(lambda see: D.range(100).map(lambda x: see(np.zeros(5000))), 10)
    assert calls == 10


def test_elements_that_take_their_time_are_pulled_one_at_a_time() -> None:
    never = threading.Event()
    calls, _ = pulls_of(lambda see: D.range(100).map(lambda x: never.wait(0.002) or see(x)), 10)
    assert calls <= 11


def test_a_live_source_is_never_pulled_ahead() -> None:
    given = []

    def live() -> Any:
        for i in range(1000):
            given.append(i)
            yield i

    with D.from_generator(live, output_signature=ps.TensorSpec((), np.int64)).map(lambda x: x).run() as run:
        for _ in range(300):
            next(run)
        assert len(given) == 300


def test_a_sample_of_the_plan_that_runs_says_nothing_of_the_one_as_written() -> None:
    rows = ps.Dataset.range(50).map(lambda n: np.zeros(int(n) * 100)).map(lambda x: x + 1).take(20)
    minimum = rows.explain(sample=100).to_dict()["minimum_bytes"]
    assert sum(stage["floor_bytes"] for stage in rows.run().memory()["stages"]) == minimum
    as_written = rows.run(optimize=False)
    assert sum(stage["floor_bytes"] for stage in as_written.memory()["stages"]) == 0
    assert [len(x) for x in as_written] == [len(x) for x in rows.run(memory=minimum)]


def test_a_run_that_an_error_ended_says_so_again() -> None:
    """Who catches errors and goes on must not take it for the end of the data."""
    with ps.Dataset.range(9).map(lambda n: np.zeros(1000 if n < 3 else 100_000)).run(memory="100kB") as run:
        assert [len(next(run)) for _ in range(3)] == [1000] * 3
        for _ in range(3):
            with pytest.raises(OverBudget, match="use memory="):
                next(run)


def test_seeds_of_a_position_hold_for_datasets_made_from_the_same_ones() -> None:
    """Or a part for validation would no longer be what the part for training leaves out."""

    def parts() -> tuple[D, D]:
        both = D.range(30).shuffle()
        return both.skip(10), both.take(10)

    train, test = parts()
    state = train.run().state_dict()
    expected = sorted(map(int, test.run(epoch=3)))
    later_train, later_test = parts()
    for _ in range(2):  # a second position takes the place of the first
        later_train.run().load_state_dict(parts()[0].run().state_dict())
        later_train.run().load_state_dict(state)
        assert sorted(map(int, later_test.run(epoch=3))) == expected
        assert sorted([*map(int, later_test.run(epoch=3)), *map(int, later_train.run(epoch=3))]) == list(range(30))
        assert list(later_train.batch(5).unbatch().run(epoch=3)) == list(train.run(epoch=3))


def test_a_position_that_is_refused_brings_no_seeds() -> None:
    dataset, other = D.range(30).shuffle(), D.range(30).shuffle()
    before = list(map(int, dataset.run(epoch=0)))
    state = {**other.run().state_dict(), "seeds": []}
    with pytest.raises(StateError, match="0 drawn seeds"):
        dataset.run(epoch=5).load_state_dict(state)
    assert list(map(int, dataset.run(epoch=0))) == before
