"""What several runs have on their ledgers together, where the disk has no room for it."""

from pathlib import Path

import numpy as np
import pytest

from penstock.errors import OverBudget, SpillError
from penstock.memory.kept import KeptElements
from penstock.memory.ledger import Ledger
from penstock.memory.overflow import Overflow
from penstock.memory.pool import Pool
from penstock.memory.spill import SpillSpace
from tests.unit.memory.test_kept import all_of, append, joined


def test_a_full_disk_is_not_the_error_of_who_needs_memory(tmp_path: Path) -> None:
    space = SpillSpace(str(tmp_path), 5_000)
    kept = KeptElements(Overflow(lambda: space))
    share = joined(kept, 60_000)
    while kept.nbytes < 40_000:
        append(kept, np.full(1000, kept.num_kept))
    other = share._ledger.share("batch")
    with pytest.raises(OverBudget, match="use memory="):
        other.charge(30_000)
    share._ledger.let_go(60_000)  # as the system's shortage makes it
    assert all_of(kept) == list(range(kept.num_kept))
    assert share.charged_bytes == kept.nbytes
    space.limit_bytes = None
    other.charge(30_000)
    assert all_of(kept) == list(range(kept.num_kept))


def test_what_a_run_cannot_take_for_want_of_disk_stays_the_pools(tmp_path: Path) -> None:
    pool, space = Pool(100_000), SpillSpace(str(tmp_path))
    kept = KeptElements(Overflow(lambda: space))
    first = Ledger(100_000, pool).share("cache")
    kept.join(first)
    for i in range(8):
        append(kept, np.full(1000, i))
    first._ledger.close()
    assert pool.taken_bytes == kept.nbytes > 60_000
    space.limit_bytes = 0
    second = Ledger(100_000, pool)
    second.share("batch").charge(30_000)
    with pytest.raises(SpillError, match="limit"):
        kept.join(second.share("cache"))
    assert pool.taken_bytes == kept.nbytes + 30_000
    second.close()
    assert pool.taken_bytes == kept.nbytes > 0
    assert all_of(kept) == list(range(kept.num_kept))
