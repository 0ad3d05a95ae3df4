"""Where arrays lie that are made for a run: in memory that leaves the process when they are freed.

By itself glibc keeps freed arrays of up to 32 MB for the next time, in every thread: a pipeline that holds 60 MB, by
its ledger, can make the process grow by 130. So arrays above a threshold are mapped, and go back to the system when
they are freed. The price is a page fault for every 4 kB of such an array.

malloc could be told such a threshold, too, but for the whole process: frameworks that take memory in each training step
would pay for it with a third of their steps. NumPy lets each thread say where its arrays are to lie (NEP 49), and each
array knows where it came from: threads of a run say it for good, the caller's thread as long as it is in a run.

A function that makes an array for each element frees one as well. Once many were made, some of those that were freed
are kept for the next, as many bytes as the ledger has to spare, and nobody pays for their pages again.
"""

from __future__ import annotations

import threading
from types import TracebackType

from .._native import array_memory, keep_arrays, mapped_so_far, use_array_memory, used_array_memory
from .ledger import Ledger

__all__ = ["ArrayMemory"]

# Arrays of so much of the budget are mapped, within these bounds.
_PART_OF_BUDGET = 64
_LEAST_BYTES = 128 << 10
_MOST_BYTES = 1 << 20
# What is kept at most: so many of the largest array, and so much of the budget.
_MOST_KEPT = 16
_KEPT_PART = 8
# So many of the largest are made without before any is kept.
_FEW = 4


class ArrayMemory:
    """Memory for the arrays of one run."""

    def __init__(self, ledger: Ledger) -> None:
        mapped_from_bytes = min(_MOST_BYTES, max(_LEAST_BYTES, ledger.budget_bytes // _PART_OF_BUDGET))
        # Larger ones can't be kept: one of them must not keep others from it.
        self._handler = array_memory(mapped_from_bytes, ledger.budget_bytes // _KEPT_PART)
        self._mapped_before = 0  # what is kept was given back the last time
        self._closed = False
        self._ledger = ledger
        self._share = ledger.share("freed arrays")
        # Of who changes how much is kept. Who finds it taken leaves it at that.
        self._lock = threading.Lock()
        ledger.on_shortage(self.let_go, of_use=True)

    @property
    def kept_bytes(self) -> int:
        """What freed arrays may take up that are kept for the next."""
        return self._share.charged_bytes

    def use(self) -> Use:
        """A context: within it arrays that this thread makes lie here."""
        return Use(self._handler)

    def keep_some(self) -> None:
        """Keeps what is freed from now on, if some arrays were made without, and there is room to spare."""
        ledger, share = self._ledger, self._share
        if share.charged_bytes or ledger.frugal or ledger.under_pressure:
            return
        total_bytes, largest_bytes = mapped_so_far(self._handler)
        nbytes = min(_MOST_KEPT * largest_bytes, ledger.aim_bytes // _KEPT_PART)
        if not 0 < largest_bytes <= nbytes or total_bytes - self._mapped_before < _FEW * largest_bytes:
            return
        if self._lock.acquire(blocking=False):
            try:
                if not self._closed and share.charge_to_keep(nbytes, ledger.headroom_bytes):
                    keep_arrays(self._handler, nbytes)
            finally:
                self._lock.release()

    def let_go(self) -> None:
        """Gives back what is kept, and keeps nothing until it is asked to again."""
        if self._share.charged_bytes and self._lock.acquire(blocking=False):
            try:
                self._give_back()
            finally:
                self._lock.release()

    def close(self) -> None:
        """Gives back what is kept, and will be freed, from now on."""
        with self._lock:
            self._closed = True
            self._give_back()

    def _give_back(self) -> None:
        keep_arrays(self._handler, 0)
        self._mapped_before, _ = mapped_so_far(self._handler)
        self._share.discharge(self._share.charged_bytes)


class Use:
    """Within it arrays that a thread makes lie in some memory."""

    __slots__ = ("_handler", "_outside")

    def __init__(self, handler: object) -> None:
        self._handler = handler

    @classmethod
    def as_here(cls) -> Use:
        """For another thread to do as this one does now."""
        return cls(used_array_memory())

    def __enter__(self) -> None:
        self._outside = use_array_memory(self._handler)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        use_array_memory(self._outside)
