"""What is read from a store, and strings that are made of an array, are inside the budget as the system sees it."""

import pytest

from tests.memory.store_children import PROGRAMS
from tests.memory.test_real_memory import MB, SLACK, child


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_store_is_read_inside_the_budget(name: str) -> None:
    found = child(name, "store_children.py")
    assert found["equal"]
    assert found["ledger_peak"] <= 16 * MB
    assert found["growth"] <= 16 * MB + SLACK, found
