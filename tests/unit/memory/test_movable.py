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


def test_what_takes_less_than_its_place_on_disk_stays(space: SpillSpace) -> None:
    kept = KeptElements(Overflow(lambda: space))
    ledger = Ledger(20_000)
    share, other = ledger.share("cache"), ledger.share("batch")
    kept.join(share)
    other.charge(17_000)  # so that no quarter is left
    for i in range(100):
        append(kept, b"x" * (2 + i % 20))
    assert kept.num_kept == 100
    assert kept.nbytes < 3000
    assert [len(read(kept, i)[0]) for i in range(100)] == [2 + i % 20 for i in range(100)]
