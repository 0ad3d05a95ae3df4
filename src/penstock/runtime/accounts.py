"""Accounts of what is on its way from stage to stage.

Cursors that follow each other, as those of a stage do that is opened again for every `repeat`, have one account: what
it has learned of the size of elements serves the next. Cursors that are read at the same time must not have one in
common: each is begun anew with every pull, and threads would count on it together.
"""

from __future__ import annotations

from ..memory.ledger import Share
from ..memory.transit import Transit
from ..plan.footprint import ElementSize
from ..plan.node import Node

__all__ = ["Account", "Accounts"]


class Account:
    """What stages that work for one consumer, one above the other, have on their way."""

    __slots__ = ("_share", "_transits")

    def __init__(self, share: Share) -> None:
        self._share = share
        self._transits: dict[tuple[int, int], Transit] = {}

    def transit(self, node: Node, depth: int, branch: int) -> Transit:
        """That of a stage which stands so far above the source; 0: a stage of the plan, whose spec can be trusted."""
        transit = self._transits.get((depth, branch))
        if transit is None:
            each = node.op.element_size or (None if depth else ElementSize.of_spec(node.spec.element))
            transit = self._transits[depth, branch] = Transit(self._share, None if each is None else each.nbytes)
        return transit

    def settle(self) -> None:
        """Nothing is on its way for now."""
        for transit in list(self._transits.values()):
            transit.settle()

    def close(self) -> None:
        """Nothing is on its way any more."""
        for transit in list(self._transits.values()):
            transit.close()


class Accounts:
    """The accounts of a run."""

    def __init__(self) -> None:
        self._of_stages: dict[tuple[int, int, int], Account] = {}
        self._of_cursors: set[Account] = set()

    def of_stage(self, share: Share, branch: int, number: int = 0) -> Account:
        """That of a stage in one branch of the plan; numbers from 1 on are for datasets that it reads."""
        key = id(share), branch, number
        account = self._of_stages.get(key)
        if account is None:
            account = self._of_stages[key] = Account(share)
        return account

    def of_cursor(self, share: Share) -> Account:
        """A new one, for a cursor that is one of many at a time."""
        account = Account(share)
        self._of_cursors.add(account)
        return account

    def forget(self, account: Account) -> None:
        """The cursor is closed."""
        account.close()
        self._of_cursors.discard(account)

    def close(self) -> None:
        for account in [*self._of_stages.values(), *self._of_cursors]:
            account.close()
