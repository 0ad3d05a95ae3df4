"""What waits in a pipeline keeps no more alive than is counted, as the operating system sees it."""

import pytest

from tests.memory.test_real_memory import MB, child
from tests.memory.waiting_children import WAITING


@pytest.mark.parametrize("name", WAITING)
def test_what_waits_is_held_inside_the_budget(name: str) -> None:
    found = child(name, "waiting_children.py", exact=False)
    assert found["count"] >= 1
    assert found["growth"] <= (32 + 16) * MB, found
