"""What operators make of elements on the side is inside the budget as the operating system sees it."""

import pytest

from tests.memory.copy_children import COPIES
from tests.memory.test_real_memory import MB, child


@pytest.mark.parametrize("name", COPIES)
def test_no_copies_are_made_beside_the_budget(name: str) -> None:
    found = child(name, "copy_children.py", exact=True)
    assert found["count"] >= 1
    assert found["ledger_peak"] <= 64 * MB
    assert found["growth"] <= found["ledger_peak"] + 8 * MB, found
