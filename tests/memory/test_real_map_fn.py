"""map_fn's memory as the operating system sees it."""

import pytest

from tests.memory.test_real_memory import MB, child


@pytest.mark.parametrize("name, count", [
    ("of_the_question", 100_000),
    ("large_temporaries", 64),
    ("large_results", 2000),
    ("compiled_by_jax", 400),
    ("compiled_to_one_number", 20_000),
    ("compiled_by_numba", 200_000),
])  # fmt: skip
def test_map_fn_stays_within_its_budget(name: str, count: int) -> None:
    found = child(name, "map_fn_children.py")
    assert found["equal"]
    assert found["count"] == count
    assert found["growth"] <= (64 + 16) * MB


@pytest.mark.parametrize("name", ["growing_fast", "growing_slowly", "growing_in_one_thread"])
def test_calls_that_take_more_and_more_are_refused_before_they_break_the_budget(name: str) -> None:
    found = child(name, "map_fn_children.py")
    assert found["refused"]
    assert found["growth"] <= (16 + 16) * MB


@pytest.mark.parametrize("name, most_at_once", [
    ("few_large_ones", 1),
    ("few_large_ones_in_two_threads", 2),  # which may begin at the same moment; hardly ever do
])  # fmt: skip
def test_few_calls_that_take_much_among_many_are_found_and_refused(name: str, most_at_once: int) -> None:
    found = child(name, "map_fn_children.py")
    assert "use memory=" in found["refused"]
    assert found["num_large"] <= 8  # of 20: the process shows the first, and one of the next is measured
    assert found["growth"] <= (16 + 64 * most_at_once + 16) * MB
