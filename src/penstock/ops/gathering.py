"""Elements that a stage takes singly from its input, and gives several at a time."""

from __future__ import annotations

from ..block import Block
from ..plan.op import Context

__all__ = ["Gathering"]


class Gathering:
    """The account of what was taken before the last element, which is its maker's until that one is asked again."""

    __slots__ = ("_context", "_held_bytes")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._held_bytes = 0

    def try_keep(self, block: Block) -> bool:
        """Puts elements on this stage's account, if there is room to spare; else what was gathered is given now."""
        arena, share = self._context.arena, self._context.share
        if share.frugal or block.nbytes > share.spare_bytes:
            return False
        arena.take_over(block)
        nbytes = arena.unaccounted_bytes(block)
        if not share.try_charge(nbytes):
            return False
        self._held_bytes += nbytes
        return True

    def release(self) -> None:
        """The consumer asks again, or never: nothing that was given is on its way any more."""
        self._context.share.discharge(self._held_bytes)
        self._held_bytes = 0
