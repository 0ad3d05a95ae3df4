"""A lease: some bytes of a stage's share, which it may hold until it releases them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .share import Share

__all__ = ["Lease", "nothing_expected"]


class Lease:
    """Some bytes that a stage may hold; on the slack alone while they are `ahead` of others of the same stage."""

    __slots__ = ("_share", "ahead", "nbytes")

    def __init__(self, share: Share, nbytes: int, ahead: bool = False) -> None:
        self._share = share
        self.nbytes = nbytes
        self.ahead = ahead

    def settle(self, nbytes: int, single: bool = False) -> None:
        """Corrects the size to what the bytes turned out to be; more than was reserved may be refused."""
        if nbytes > self.nbytes:
            self._share.charge(nbytes - self.nbytes, single, self)
        elif nbytes < self.nbytes:
            self._share.discharge(self.nbytes - nbytes, self)

    def try_grow(self, nbytes: int) -> bool:
        """Adds bytes if there is room, or would be without what others can do without; waits for nobody."""
        return self._share.charge_if_room(nbytes, self)

    def release(self) -> None:
        """Gives the bytes back; a second call does nothing."""
        if self.nbytes:
            self._share.discharge(self.nbytes, self)

    def come_first(self) -> None:
        """It is this one's turn: from now on it may use the floor."""
        if self.ahead:
            self._share.come_first(self)


def nothing_expected() -> int:
    """What a stage expects to hold that does not gather."""
    return 0
