"""Stowing: what went to disk for somebody else finds room, on the ledger, when its turn has come."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.block import Block
from penstock.memory.arena import Arena, Slots
from penstock.memory.ledger import Ledger
from penstock.memory.spill import SpillSpace
from penstock.runtime.channel import Ready, Threads
from penstock.runtime.stowing import Stowage

BLOCK_BYTES = 8000


class Stage:
    """A stage with some blocks that wait for their consumer."""

    def __init__(self, ledger: Ledger, folder: Path, num_blocks: int, floor_bytes: int = 0) -> None:
        self.share = ledger.share("prefetch", floor_bytes)
        self.items: list[Ready] = []
        for i in range(num_blocks):
            lease = self.share.try_acquire(BLOCK_BYTES, ahead=i > 0)
            assert lease is not None
            item = Ready(None, i, lease)
            item.block = Block.of_rows([np.full(BLOCK_BYTES // 8, float(i))])
            self.items.append(item)
        arena = Arena(Slots(ledger), self.share)
        self.spill = SpillSpace(str(folder))
        self.stowage = Stowage(self.share, arena, self.spill, Threads("test"), lambda: self.items, self.num_making)

    def num_making(self) -> int:
        return 0

    def take(self) -> Any:
        item = self.items.pop(0)
        if item.stowed:
            self.stowage.bring_back(item)
        assert item.block is not None
        charged, row = self.share.charged_bytes, item.block.rows()[0]
        item.lease.release()
        return row[0], charged

    def close(self) -> None:
        self.stowage.close()
        self.spill.close()


@pytest.mark.parametrize("floor_bytes", [0, BLOCK_BYTES])
def test_what_comes_back_is_on_the_ledger_however_much_others_took(tmp_path: Path, floor_bytes: int) -> None:
    ledger = Ledger(10 * BLOCK_BYTES)
    stage = Stage(ledger, tmp_path, 5, floor_bytes)
    others = ledger.share("others")
    others.charge(ledger.slack_bytes + 2 * BLOCK_BYTES)
    assert sum(item.stowed for item in stage.items) >= 2
    others.charge(ledger.slack_bytes)
    found = [stage.take() for _ in range(5)]
    stage.close()
    assert [number for number, _ in found] == [0, 1, 2, 3, 4]
    assert all(charged >= BLOCK_BYTES for _, charged in found)
