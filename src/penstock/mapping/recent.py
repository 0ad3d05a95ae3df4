"""Recent: the last few things that were compiled, by what they were compiled of."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["Recent"]

_MOST = 16

T = TypeVar("T")


class Recent(Generic[T]):
    """Those that were used last."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._made: dict[Hashable, T] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """What was made of `key`, or is made now."""
        # Without a lock, which forked children could find held: another thread may make the same meanwhile.
        made = self._made.pop(key, None)
        if made is None:
            made = make()
        self._made[key] = made
        for old in list(self._made)[: -self._most]:
            self._made.pop(old, None)
        return made

    def forget(self, key: Hashable) -> None:
        """Whatever was made of `key` is not kept any more."""
        self._made.pop(key, None)

    def __len__(self) -> int:
        return len(self._made)
