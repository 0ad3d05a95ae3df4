"""Read-only views of memory that only they keep alive are inside the budget as the operating system sees it."""

import pytest

from tests.memory.test_real_memory import MB, child
from tests.memory.view_children import VIEWS


@pytest.mark.parametrize("name", VIEWS)
def test_views_that_functions_make_are_held_inside_the_budget(name: str) -> None:
    found = child(name, "view_children.py", exact=False)
    assert found["equal"]
    assert found["growth"] <= (16 + 13) * MB, found
