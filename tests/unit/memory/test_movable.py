"""Kept elements in memory that could lie on disk: which of them move, and which had better stay."""

import numpy as np

from penstock.memory.kept import KeptElements
from penstock.memory.ledger import Ledger
from penstock.memory.overflow import Overflow
from penstock.memory.spill import SpillSpace

from .test_kept import append, joined, on_disk, read, space

__all__ = ["space"]


def test_what_is_pinned_keeps_nothing_else_in_memory(space: SpillSpace) -> None:
    """Elements that come twice look at the same memory, such as those of windows that overlap."""
    kept = KeptElements(Overflow(lambda: space))
    share = joined(kept, 400_000)
    twice = [np.full(1000, float(i)) for i in range(2)]
    append(kept, *twice)
    kept.finish()
    append(kept, *twice)
    kept.finish()
    looked_at = read(kept, 3)
    assert kept._move_last()
    assert share.charged_bytes > kept.nbytes  # it is on disk, and in memory as long as somebody looks at it
    del looked_at, twice
    share.charge(share.budget_bytes - 1000)
    assert on_disk(kept) == [0, 1, 2, 3]


def test_small_ones_come_to_lie_in_chunks_that_are_worth_moving(space: SpillSpace) -> None:
    """One of them takes less than its place on disk would: chunks of one would stay, and fill memory."""
    kept = KeptElements(Overflow(lambda: space))
    ledger = Ledger(7000)
    share = ledger.share("cache")
    kept.join(share)
    for i in range(40):
        append(kept, np.full(1 + i % 7, float(i)))
    assert kept.num_kept == 40
    share.charge(1500)
    assert [read(kept, i)[0][0] for i in range(40)] == list(range(40))


def test_places_are_remembered_together_where_another_stage_is_short(space: SpillSpace) -> None:
    kept = KeptElements(Overflow(lambda: space))
    ledger = Ledger(40_000)
    share, other = ledger.share("cache"), ledger.share("batch")
    kept.join(share)
    other.charge(20_000)
    for i in range(50):
        append(kept, np.full(500, float(i)))
    assert kept.num_kept == 50
    before = kept.nbytes
    assert on_disk(kept) == list(range(50))
    other.charge(share.free_bytes + before // 2)
    assert kept.nbytes <= before // 2
    assert [read(kept, i)[0][0] for i in range(50)] == list(range(50))
