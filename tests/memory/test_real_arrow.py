"""What Arrow reads for a run, as the operating system sees it: what is freed leaves the process, too."""

import pytest

from tests.memory.arrow_children import BUDGET, SIZES
from tests.memory.test_real_memory import MB, child

#: About 20 and 3 MB; with what Arrow's own allocator keeps, 69 and 22.
MOST_GROWTH = {"loaded": BUDGET + 16 * MB, "shuffled": 12 * MB}


@pytest.mark.parametrize("name", MOST_GROWTH)
def test_unequal_elements_that_arrow_reads_leave_the_process(name: str) -> None:
    found = child(name, "arrow_children.py", exact=False)
    assert found["count"] == len(SIZES)
    assert found["ledger_peak"] <= BUDGET
    assert found["growth"] <= MOST_GROWTH[name], found
