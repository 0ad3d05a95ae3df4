"""What is refused by the methods of all frameworks."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock.errors import BadArgument


@pytest.mark.parametrize("method", ["to_keras", "to_tf", "to_torch", "to_jax"])
@pytest.mark.parametrize("memory", ["3XB", -1, 1.5])
def test_budgets_that_cannot_be_read_are_refused_where_they_were_written(method: str, memory: object) -> None:
    with pytest.raises(BadArgument, match=rf"{method} at test_feed.py:\d+: memory: "):
        getattr(ps.Dataset.range(4), method)(memory=memory)
