"""Carrying: arrays and caches that live by datasets which a user's function made, as long as these are open."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..block import Block
from ..element import Failed, Structure
from ..leaf import Ragged, Sparse
from ..memory.lease import Lease, nothing_expected
from ..plan.carried import array_bytes
from ..plan.node import Node
from ..plan.op import Context

__all__ = ["Carrying"]

# Arrays of one dataset that are left out of account: as much as is gathered at a time, …
_SMALL_BYTES = 1 << 16
# … and of all that are open at a time no more than this part of the budget.
_SMALL_PART = 32
# What is smaller gets no slot in the arena.
_NO_SLOT_BYTES = 4096


class Carrying:
    """Leases of what up to `num_open` open datasets carry, and their elements as copies.

    Copies, because the arrays are not the user's, nor those of a cache that the run counts to its end: who holds a view
    would hold the whole array, and nobody would count it after its dataset was closed.
    """

    def __init__(self, context: Context, num_open: int) -> None:
        self._share = share = context.share
        self._arena = context.arena
        num_inputs = context.node.input.spec.cardinality
        self._num_open = min(num_open, num_inputs) if num_inputs > 0 else num_open
        self._is_inner = share.num_datasets > 0  # of the datasets of another, on the same account
        share.num_datasets = max(share.num_datasets, self._num_open)
        self._open_bytes = 0
        self._largest_bytes = 0
        #: Whether any dataset so far had a lease.
        self.has_any = False
        self._has_small = False  # whether any dataset had arrays of its own, perhaps, for which it has no lease
        self._each_bytes = 0  # of the largest element, judged by some
        # A sample may end before all are open: it shows what all would hold, and what a smaller budget would count.
        self._sampled: Lease | None = share.acquire(0) if share.frugal else None
        #: What a dataset carries is not counted if it is no more than this.
        self.small_bytes = 0 if share.frugal else min(_SMALL_BYTES, share.budget_bytes // (_SMALL_PART * num_open))

    def opened(self, num_open: int | None = None) -> None:
        """So many datasets are open now, or (None) as many as ever will be: a sample may end before all are."""
        self._share.opened(self._num_open if num_open is None else num_open, self._num_open, self._is_inner)

    def lease(self, nbytes: int | None, node: Node) -> Lease | None:
        """A lease of what a dataset carries; None where that is nothing: only `let_go` copies its elements then."""
        if nbytes is None:
            self._has_small = self._has_small or 0 < array_bytes(node) <= self.small_bytes
            return None
        self.has_any = True
        if nbytes > self._largest_bytes:
            self._largest_bytes = nbytes
            if self._share.expects is nothing_expected:  # else this one is of another's inner datasets
                self._share.expects = self._expected_bytes
            if self._sampled is not None:
                self._sampled.settle(nbytes * self._num_open)
        lease = self._share.acquire(nbytes if self._sampled is None else 0)
        self._open_bytes += lease.nbytes
        return lease

    def release(self, lease: Lease | None) -> None:
        """The dataset is open no longer."""
        if lease is not None:
            self._open_bytes -= lease.nbytes
            lease.release()

    def _expected_bytes(self) -> int:
        """What the stage will hold when all are open."""
        others = self._share.charged_bytes - self._open_bytes
        return others + self._num_open * self._largest_bytes

    def let_go(self, block: Block) -> Block:
        """The elements of a block as others may hold them: what small datasets without a lease have given is copied.

        One that is open takes little, thousands whose arrays live by views of them in a buffer do not.
        """
        if not self._has_small or block.nbytes > self.small_bytes + _SMALL_BYTES:
            return block
        return self.owned(block)

    def few(self, n: int) -> int:
        """How many of n elements to copy at a time; one as long as their size is not known."""
        if not self._each_bytes:
            return 1
        return max(1, min(n, max(self._share.spare_bytes, _NO_SLOT_BYTES) // self._each_bytes))

    def has_room_to_own(self, block: Block) -> bool:
        """Whether there is room for copies of all elements of a block at once; of one at a time there must be."""
        return block.size == 1 or block.nbytes <= max(self._share.spare_bytes, _NO_SLOT_BYTES)

    def owned(self, block: Block) -> Block:
        """The elements of a block with copies of all read-only views."""
        self._each_bytes = max(self._each_bytes, -(-block.nbytes // block.size))
        if block.records is not None:
            return block
        if block.columns is not None:
            columns = [self._copied(column) for column in block.columns]
            made = Block(block.size, block.structure, columns, None, block.has_failures, block.positions)
        else:
            rows = [row if type(row) is Failed else self._copied_row(row) for row in block.rows()]
            made = Block.of_rows(rows, has_failures=block.has_failures)
        made.origins = block.origins
        return made

    def _copied_row(self, row: Any) -> Any:
        structure = Structure.of(row)
        return self._copied(row) if structure.is_leaf else structure.map(self._copied, row)

    def _copied(self, leaf: Any) -> Any:
        if isinstance(leaf, Ragged):
            return Ragged(self._copied(leaf.values), self._copied(leaf.row_splits))
        if isinstance(leaf, Sparse):
            return Sparse(self._copied(leaf.indices), self._copied(leaf.values), self._copied(leaf.dense_shape))
        if not isinstance(leaf, np.ndarray) or leaf.base is None or leaf.flags.writeable:
            return leaf
        if leaf.nbytes < _NO_SLOT_BYTES or leaf.dtype.hasobject:
            return leaf.copy()
        copy = self._arena.empty(leaf.shape, leaf.dtype)
        copy[...] = leaf
        return copy

    def close(self) -> None:
        if self._sampled is not None:
            self._sampled.release()
        if self._share.expects == self._expected_bytes:
            self._share.expects = nothing_expected
