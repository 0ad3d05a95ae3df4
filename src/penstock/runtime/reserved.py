"""Reserved: room for what is being made below, which others may have who cannot do without.

What a thread makes is counted by its makers until it is there, and only then by who has asked for it. Where both find
no room at a time, the makers come first.
"""

from __future__ import annotations

from threading import Lock, get_ident

from ..memory.ledger import Lease, Share

__all__ = ["Reserved"]


class Reserved:
    """The lease for one thing at a time, as long as that is not there.

    Args:
        for_all: Whether its owner can do without it; else it is given up only for makers in the same thread, who make
            what it is for.
    """

    __slots__ = ("_for_all", "_lease", "_lock", "_thread", "close")

    def __init__(self, share: Share, for_all: bool) -> None:
        self._for_all = for_all
        self._lease: Lease | None = None
        self._thread = 0
        self._lock = Lock()
        #: Nothing is reserved any more.
        self.close = share.on_shortage(self._give_up)

    def by(self, lease: Lease) -> Reserved:
        """To be entered while this thread makes what the lease is for."""
        self._thread, self._lease = get_ident(), lease
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._lease = None

    def _give_up(self) -> None:
        if (self._for_all or self._thread == get_ident()) and self._lock.acquire(blocking=False):
            try:
                if self._lease is not None:
                    self._lease.settle(0)
            finally:
                self._lock.release()
