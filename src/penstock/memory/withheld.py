"""What a run leaves unused of its slack once it writes to disk.

Libraries that write there, and what their allocators touch first, are in the process from then on: about 10 MB that are
on no stage's account. Under a budget of that order a process would grow by much more than it was told, so who can do
with less gets less. Who cannot gets all.
"""

from __future__ import annotations

__all__ = ["Withheld"]

_LIBRARIES_BYTES = 10 << 20
# Under a smaller budget it would not matter.
_LEAST_BUDGET_BYTES = 4 << 20
# At most these parts of the budget and of what the floors leave of it.
_PART_OF_BUDGET = 8
_PART_OF_SLACK = 4


class Withheld:
    """Of one ledger."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._is_needed = False

    def begin(self, budget_bytes: int, floor_bytes: int) -> None:
        """The run uses files; that it did so before makes no difference."""
        if not self._is_needed and budget_bytes >= _LEAST_BUDGET_BYTES:
            part = min(budget_bytes // _PART_OF_BUDGET, (budget_bytes - floor_bytes) // _PART_OF_SLACK)
            self.nbytes = max(0, min(_LIBRARIES_BYTES, part))

    def give_out(self) -> bool:
        """Somebody cannot go on without it: nothing is withheld any more. Whether anything was."""
        nbytes, self.nbytes, self._is_needed = self.nbytes, 0, True
        return nbytes > 0
