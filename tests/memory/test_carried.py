"""Arrays of inner datasets are on the ledger for as long as these are open, and the stated minimum covers them.

So are elements that their caches kept, for as long as somebody holds one.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.element import arrays_in
from tests.memory.test_real_memory import MB, child

D = ps.Dataset
NUM_BYTES = 200_000
KEPT = np.ones((20, NUM_BYTES // 20), np.uint8)


def made(*_: Any) -> Any:
    return D.from_tensor_slices(np.ones((20, NUM_BYTES // 20), np.uint8))


#: How many arrays are there at a time, and the pipeline.
CASES: dict[str, tuple[int, Callable[[], Any]]] = {
    "flat_map": (1, lambda: D.range(8).flat_map(made)),
    "flat_map of one element each": (1, lambda: D.range(8).flat_map(lambda i: D.from_tensors(KEPT.copy()))),
    "flat_map of batches": (1, lambda: D.range(8).flat_map(lambda i: made().batch(4))),
    "flat_map of pairs": (2, lambda: D.range(8).flat_map(lambda i: D.zip((made(), made())))),
    "flat_map of two in a row": (2, lambda: D.range(8).flat_map(lambda i: made().concatenate(made()))),
    "windows": (1, lambda: D.range(8).window(2).flat_map(made)),
    "group_by_window": (1, lambda: D.range(8).group_by_window(lambda i: 0, made, window_size=1)),
    "interleave": (4, lambda: D.range(8).interleave(made, cycle_length=4)),
    "interleave of few": (3, lambda: D.range(3).interleave(made, cycle_length=4)),
    "interleave in threads": (4, lambda: D.range(8).interleave(made, cycle_length=4, num_parallel_calls=4)),
    "of what was given": (1, lambda: D.range(8).map(lambda i: KEPT.copy()).flat_map(D.from_tensor_slices)),
    "one in the other": (1, lambda: D.range(3).flat_map(lambda i: D.range(3).flat_map(made))),
}


@pytest.mark.parametrize("num_sampled", [3, 1000])
@pytest.mark.parametrize("case", CASES)
def test_open_datasets_are_on_the_ledger(case: str, num_sampled: int) -> None:
    num_arrays, make = CASES[case]
    dataset = make()
    minimum = dataset.explain(sample=num_sampled).to_dict()["minimum_bytes"]
    assert minimum >= num_arrays * NUM_BYTES
    with dataset.run(memory=minimum) as run:
        assert all(np.all(array == 1) for element in run for array in arrays_in(element))
        assert run.ledger.peak_bytes >= num_arrays * NUM_BYTES
    assert run.ledger.charged_bytes == 0


@pytest.mark.parametrize("case", ["flat_map of one element each", "flat_map", "interleave", "group_by_window"])
def test_nothing_stays_on_the_ledger_when_elements_have_no_room(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: Any) -> Any:
        raise ps.errors.OverBudget("no room for a copy")

    monkeypatch.setattr("penstock.ops.carrying.Carrying.owned", no_room)
    run = CASES[case][1]().run(memory="8MB")
    with pytest.raises(ps.errors.OverBudget, match="no room for a copy"):
        next(run)
    assert run.ledger.charged_bytes == 0


def test_a_position_in_a_dataset_that_is_no_longer_there() -> None:
    num_calls = 0

    def once(_: Any) -> Any:
        nonlocal num_calls
        num_calls += 1
        if num_calls > 1:
            raise ValueError("gone")
        return made()

    dataset = D.range(2).map(lambda i: np.full(1000, i)).interleave(once, cycle_length=1)
    with dataset.run() as run:
        next(run)
        state = run.state_dict()
    run = dataset.run()
    with pytest.raises(ps.errors.StateError, match="is no longer there"):
        run.load_state_dict(state)
    run.close()
    assert run.ledger.charged_bytes == 0


def test_arrays_of_the_user_are_not() -> None:
    with D.range(8).interleave(lambda i: D.from_tensor_slices(KEPT), cycle_length=4).run(memory=NUM_BYTES) as run:
        assert sum(1 for _ in run) == 160
        assert run.ledger.peak_bytes < NUM_BYTES // 2


@pytest.mark.parametrize("num_parallel_calls", [None, 4])
def test_too_many_are_refused_with_a_budget_that_is_enough(num_parallel_calls: int | None) -> None:
    dataset = D.range(8).interleave(made, cycle_length=4, num_parallel_calls=num_parallel_calls)
    refused = r"^interleave at test_carried.py:\d+: asked for 200 kB more and holds 4\d\d kB"
    with pytest.raises(ps.errors.OverBudget, match=refused) as error:
        list(dataset.run(memory=2 * NUM_BYTES + NUM_BYTES // 2))
    enough = int(str(error.value).split("use memory=")[1].split()[0])
    assert sum(1 for _ in dataset.run(memory=enough)) == 160


def cached(*_: Any) -> Any:
    return D.range(20).map(lambda i: np.ones(NUM_BYTES // 20, np.uint8)).cache()


@pytest.mark.parametrize(
    "make",
    [
        lambda d: d.flat_map(made),
        lambda d: d.group_by_window(lambda i: 0, made, 1),
        lambda d: d.map(lambda i: KEPT.copy()).flat_map(D.from_tensor_slices),
        lambda d: d.repeat(5).flat_map(lambda i: D.from_tensors(np.ones(NUM_BYTES // 4, np.uint8))),
        lambda d: d.flat_map(cached),
        lambda d: d.interleave(cached, cycle_length=3),
        lambda d: d.interleave(cached, cycle_length=3, num_parallel_calls=2),
        lambda d: d.group_by_window(lambda i: 0, cached, 1),
    ],
)
def test_who_holds_their_elements_counts_them(make: Callable[[Any], Any]) -> None:
    shuffled = make(D.range(8)).shuffle(100, seed=1)
    with shuffled.run(memory="16MB") as run:
        next(run)
        assert run.ledger.charged_bytes >= 5 * NUM_BYTES


def all_ones(dataset: Any, memory: Any) -> int:
    """How many elements there are, of datasets that are elements; nothing is left on the ledger."""
    with dataset.flat_map(lambda d: d).run(memory=memory) as run:
        count = sum(int(np.all(element == 1)) for element in run)
        assert run.ledger.peak_bytes <= run.ledger.budget_bytes
    assert run.ledger.charged_bytes == 0
    return count


def test_a_cache_keeps_as_many_datasets_as_have_room() -> None:
    calls = []
    dataset = D.range(20).map(lambda i: calls.append(i) or made()).cache()
    for _ in range(2):
        assert all_ones(dataset, 15 * NUM_BYTES) == 400
    assert 25 <= len(calls) < 40, "some are made again, for no file can hold them"


@pytest.mark.parametrize(
    ("buffer", "text"),
    [
        (lambda d: d.filter(lambda d: True).shuffle(20, seed=1), "datasets in them, which cannot go to disk"),
        (lambda d: d.window(20).flat_map(lambda w: w), "use memory="),
    ],
)
def test_a_buffer_of_datasets_is_refused_with_a_number_that_works(buffer: Callable[[Any], Any], text: str) -> None:
    dataset = buffer(D.range(30).map(made))
    with pytest.raises(ps.errors.OverBudget, match=text) as refused:
        all_ones(dataset, 10 * NUM_BYTES)
    named = re.search(r"memory=([\d_]+)", str(refused.value))
    assert named is not None
    assert all_ones(dataset, int(named[1])) == 600


@pytest.mark.parametrize(
    "name",
    [
        "flat_mapped",
        "interleaved",
        "in_threads",
        "grouped",
        "shuffled",
        "caches_shuffled",
        "caches_cached",
        "given_shuffled",
        "given_cached",
        "small_shuffled",
        "small_grouped",
        "elements_cached",
        "pairs_cached",
        "elements_of_what_was_given",
        "elements_in_threads",
        "elements_generated",
        "elements_opened_shuffled",
    ],
)
def test_inner_datasets_are_inside_the_budget(name: str) -> None:
    found = child(name, "carried_children.py", exact=False)
    assert found["count"] == found["expected"]
    assert found["growth"] <= found["most"] + 13 * MB, found
