"""Slot: a piece of the arena's memory, the array that is laid out on it, and the account that it is on."""

from __future__ import annotations

from typing import Any

import numpy as np

from .ledger import Share

__all__ = ["Slot"]


class Slot:
    """Memory for one array at a time; whose it is, the reference count of its base tells."""

    __slots__ = ("array", "base", "charged_to", "dtype", "handed_over", "nbytes", "shape", "taken_at", "was_charged_to")

    def __init__(self, base: np.ndarray, shape: tuple[int, ...], dtype: np.dtype[Any], share: Share) -> None:
        self.base = base
        self.nbytes = base.nbytes
        self.charged_to: Share | None = share
        self.was_charged_to = share
        self.handed_over = False
        self.taken_at = 0
        self.lay_out(shape, dtype)

    def lay_out(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Puts the array that views are made of on the base: a view is quicker to make, and most are alike."""
        self.shape = shape
        self.dtype = dtype
        self.array = np.ndarray(shape, dtype, self.base)

    def take_off(self) -> None:
        """Takes its bytes off the ledger."""
        before, self.charged_to = self.charged_to, None
        if before is not None:
            self.was_charged_to = before
            before.discharge(self.nbytes)

    def move_to(self, share: Share) -> bool:
        """Moves its bytes to another account if they are free there as it is; whether it need not be tried again."""
        if self.charged_to is not None:
            if not share.charge_free(self.nbytes):
                return False
            self.charged_to.discharge(self.nbytes)
            self.charged_to = share
        return True
