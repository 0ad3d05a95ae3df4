"""The budget as the operating system sees it, where it is filled with small elements: Python's objects count too."""

import pytest

from tests.memory.test_real_memory import MB, child

# With 8 bytes elements are numbers, whose objects weigh more than they do.
PROGRAMS = [
    "windowed 8",
    "windowed 104",
    "windowed pairs 104",
    "grouped 104",
    "grouped pairs 8",
    "grouped_by_many_keys 8",
    "bucketed 104",
    "padded 8",
    "padded 104",
    "padded 3000",
    "ragged 104",
    "distinct 8",
    "windowed rows 200",
    "grouped rows 200",
    "shuffled rows 200",
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_many_small_elements_fill_no_more_than_the_budget(program: str) -> None:
    found = child(program, "small_children.py", exact=False)
    assert found["ledger_peak"] > 20 * MB  # so the budget was in use
    assert found["ledger_peak"] <= 48 * MB
    assert found["growth"] <= (48 + 16) * MB, found


def test_a_batch_of_very_many_numbers_is_padded_within_the_budget() -> None:
    found = child("padded_some 8", "small_children.py", exact=False)
    assert found["ended"] == ""
    assert found["growth"] <= (48 + 16) * MB, found


def test_what_waits_for_a_consumer_who_stopped_stays_within_the_budget() -> None:
    found = child("waiting 8", "small_children.py", exact=False)
    assert found["growth"] <= (8 + 16) * MB, found


@pytest.mark.parametrize("name", ["unique", "take_while", "rejection_resample", "sample_from_datasets"])
def test_elements_that_lie_stacked_are_not_all_made_objects_at_once(name: str) -> None:
    found = child(f"at_once {name} 600000", "small_children.py", exact=False)
    assert found["ended"] == ""
    assert found["growth"] <= found["ledger_peak"] + 16 * MB, found


def test_byte_strings_on_disk_take_no_more_than_the_budget() -> None:
    found = child("strings_shuffled 20000", "small_children.py", exact=False)
    assert found["ended"] == ""
    assert found["growth"] <= (8 + 16) * MB, found


def test_numbers_on_disk_take_no_more_than_the_budget() -> None:
    found = child("numbers_shuffled 64", "small_children.py", exact=False)
    assert (found["count"], found["ended"]) == (500, "")
    assert found["growth"] <= (64 + 15) * MB, found  # 88 MB when what sorts them was there in full, and gaps stayed


def test_what_inputs_gave_before_they_were_asked_again_stays_within_the_budget() -> None:
    found = child("chosen 300000", "small_children.py", exact=False)
    assert found["ended"] == ""
    assert found["growth"] <= (40 + 10) * MB, found  # 61 MB when all were asked until they had given what was wanted
