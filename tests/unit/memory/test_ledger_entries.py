"""The ledger costs nothing for each batch of an array: slots go round, and their entries were made before."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.memory.lease import Lease
from penstock.memory.ledger import Ledger, Share

METHODS = [
    *((Share, name) for name in ("charge", "discharge", "raise_floor", "try_charge", "charge_free", "has_room")),
    *((Ledger, name) for name in ("discharge", "try_charge", "let_go")),
    *((Lease, name) for name in ("settle", "release")),
]


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often what makes an entry, or asks whether one may be made, is called."""
    count: Counter[str] = Counter()

    def counting(method: Any, name: str) -> Any:
        def counted(*args: Any, **kwargs: Any) -> Any:
            count[name] += 1
            return method(*args, **kwargs)

        return counted

    for owner, name in METHODS:
        monkeypatch.setattr(owner, name, counting(getattr(owner, name), f"{owner.__name__}.{name}"))
    return count


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("size", [32, 1000])
def test_entries_are_made_for_a_run_and_not_for_its_batches(size: int, in_order: bool, entries: Counter[str]) -> None:
    found = []
    for num_batches in (20, 200):
        rows = np.arange(size * num_batches * 2).reshape(-1, 2)
        dataset = ps.Dataset.from_tensor_slices(rows)
        dataset = (dataset if in_order else dataset.shuffle(len(rows), seed=1)).batch(size)
        entries.clear()
        assert sum(len(batch) for batch in dataset.run(memory="16MB")) == len(rows)
        found.append(+entries)
    assert found[0] == found[1]
    assert in_order or found[0]  # batches of an array in order are views of it
