"""What Arrow reads for a run, as the operating system sees it: what is freed leaves the process, too."""

import pytest

from tests.memory.arrow_children import BUDGET, PROGRAMS, SIZES
from tests.memory.test_real_memory import MB, child


@pytest.mark.parametrize("name", PROGRAMS)
def test_unequal_elements_that_arrow_reads_are_held_inside_the_budget(name: str) -> None:
    found = child(name, "arrow_children.py", exact=False)
    assert found["count"] == len(SIZES)
    assert found["ledger_peak"] <= BUDGET
    assert found["growth"] <= BUDGET + 16 * MB, found
