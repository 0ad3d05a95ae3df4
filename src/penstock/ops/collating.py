"""The cursor of operators that put several elements together to one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..block import Block
from ..cursor import FeedCursor
from ..element import Failed, nbytes_of
from ..errors import PlanError
from ..memory.singly import objects_of_block
from ..plan.op import Context
from .batching import num_batches, take_blocks

__all__ = ["CollatingCursor"]


class CollatingCursor(FeedCursor):
    """Takes `size` elements at a time and gives what `collate` makes of them.

    A failed element takes those gathered before it along; elements that cannot be put together are lost as a whole.
    """

    __slots__ = ("_ahead", "_collate", "_context", "_drop_remainder", "_lease", "_size")

    def __init__(
        self, context: Context, size: int, drop_remainder: bool, collate: Callable[[list[Block]], Any]
    ) -> None:
        super().__init__(context.input())
        self._context = context
        self._size = size
        self._drop_remainder = drop_remainder
        self._collate = collate
        self._lease = context.share.acquire(0)
        self._ahead = 0  # elements that will be taken after those of this batch

    def pull(self, n: int) -> Block | None:
        batches: list[Any] = []
        while len(batches) < n:
            self._ahead = self._size * (n - len(batches) - 1)
            blocks, failed = self._take()
            if not blocks:
                break
            batches.append(failed or self._collated(blocks))
            if len(batches) == 1:
                n = num_batches(n, batches[0])
            if len(batches) < n and nbytes_of(batches[-1]) > self._context.share.spare_bytes:
                break  # there may be no room for another one
        return Block.of_rows(batches) if batches else None

    def _take(self) -> tuple[list[Block], Failed | None]:
        """The elements of the next batch; none at the end."""
        self._lease.settle(0)
        blocks, count = self._gather()
        if blocks and blocks[-1].has_failures:
            return blocks, blocks[-1].rows()[-1]
        return ([], None) if self._drop_remainder and count < self._size else (blocks, None)

    def _gather(self) -> tuple[list[Block], int]:
        """Blocks with the elements of the next batch, and how many those are."""
        return self._gather_more([])

    def _gather_more(self, blocks: list[Block]) -> tuple[list[Block], int]:
        blocks = list(map(self._keep, blocks))
        before = sum(block.size for block in blocks)
        more, count = take_blocks(self.feed, self._size - before, self._keep)
        return blocks + more, before + count

    def _keep(self, block: Block) -> Block:
        """A block that waits for the rest of its batch is ours: its maker will be asked again."""

        def reserve(nbytes: int) -> None:
            self._lease.settle(self._lease.nbytes + nbytes + objects_of_block(block), single=True)

        return self._context.arena.keep(block, reserve)

    def _collated(self, blocks: list[Block]) -> Any:
        try:
            return self._collate(blocks)
        except PlanError as error:
            return Failed(self._context.located(error))

    def skip(self, n: int) -> int:
        # Where a batch begins depends on which elements before it failed: they must be read.
        self._ahead = 0
        for skipped in range(n):
            if not self._take()[0]:
                return skipped
        return n

    def close(self) -> None:
        self._lease.release()
        super().close()
