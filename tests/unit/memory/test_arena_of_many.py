"""Many arrays of one size at a time: their slots are used again, too."""

from collections.abc import Callable

import numpy as np
import pytest

import penstock as ps
import penstock.memory.arena
from penstock.memory.arena import Arena, Slots
from penstock.memory.ledger import Ledger

NUM_COLUMNS = 24


@pytest.fixture
def num_made(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many slots were made so far."""
    new_base, sizes = penstock.memory.arena.new_base, list[int]()

    def counted(size: int, used: int) -> np.ndarray:
        sizes.append(size)
        return new_base(size, used)

    monkeypatch.setattr("penstock.memory.arena.new_base", counted)
    return lambda: len(sizes)


def test_elements_of_many_arrays(num_made: Callable[[], int]) -> None:
    columns = {f"column {i}": np.arange(40_000) for i in range(NUM_COLUMNS)}
    with ps.Dataset.from_tensor_slices(columns).shuffle(seed=1).batch(1000).run(memory="64MB") as run:
        made = [num_made() for _ in run]
    assert made[-1] == made[len(made) // 2] <= 8 * NUM_COLUMNS  # of 40 in all


def test_a_caller_who_keeps_the_last_forty(num_made: Callable[[], int]) -> None:
    ledger = Ledger(100_000_000)
    arena = Arena(Slots(ledger), ledger.share("batch"))
    held: list[np.ndarray] = []
    for _ in range(400):
        held = [*held[-40:], arena.empty((1000,), np.dtype(np.float64))]
        arena.slots.hand_over(held[-1])
    assert num_made() < 150
