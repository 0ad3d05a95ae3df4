"""The budget as the operating system sees it: 64 MB and elements of 4 MB, whatever the pipeline; less for smaller."""

import pytest

from tests.memory.test_real_memory import MB, child

GENERATED = ("prefetched", "parallel", "interleaved", "shuffled", "cached", "padded", "windowed", "all_together")
MAPPED = ("prefetched", "parallel", "interleaved_in_threads", "padded", "all_together")
PROGRAMS = [*(f"{name} generated" for name in GENERATED), *(f"{name} mapped" for name in MAPPED)]
PROGRAMS += ["compressed GZIP", "compressed SNAPPY"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_process_grows_by_no_more_than_its_budget(program: str) -> None:
    found = child(program, "budget_children.py", exact=False)
    assert found["equal"]
    assert found["ledger_peak"] <= 64 * MB
    assert found["growth"] <= (64 + 16) * MB


@pytest.mark.parametrize("program", ["shuffled", "padded", "images", "all_together"])
def test_arrays_from_the_heap_do_not_make_a_process_outgrow_its_budget(program: str) -> None:
    found = child(program, "heap_children.py", exact=False)
    assert found["ledger_peak"] <= found["budget"]
    assert max(found["growth"]) <= found["budget"] + 16 * MB, found
    assert max(found["left"]) <= 12 * MB, found  # 4 to 5 as a rule, 9.3 once in 66 runs


def test_elements_of_all_sizes_and_libraries_that_write_them_to_disk_fit_in() -> None:
    """79 MB; 88, with 3,000 elements, where nothing was left to the libraries."""
    found = child("all", "mixed_children.py", exact=False)
    assert found["equal"]
    assert found["ledger_peak"] <= 64 * MB
    assert found["spilled"] > 64 * MB
    assert found["growth"] <= (64 + 20) * MB


def test_a_process_with_a_hard_limit_survives_forty_times_as_much_data() -> None:
    found = child("survives_a_hard_limit", "budget_children.py", exact=False)
    assert found["equal"]
    assert found["nbytes"] == 4000 * MB


def test_memory_does_not_grow_over_fifty_epochs_that_spill_and_end_early() -> None:
    found = child("soaked", "budget_children.py", exact=False)
    sizes = found["sizes"]
    assert len(sizes) == 50
    assert found["spilled"] > 100_000
    assert max(sizes[2:]) - sizes[1] < 2 * MB, [size // 1000 for size in sizes]
