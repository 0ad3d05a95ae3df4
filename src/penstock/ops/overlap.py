"""Overlap: what windows that are held together have in common, counted once."""

from __future__ import annotations

from typing import Any

from ..element import nbytes_of
from ..memory.singly import held_in

__all__ = ["Overlap"]


class Overlap:
    """How many of the windows that are held have each thing in them."""

    __slots__ = ("_num_windows",)

    def __init__(self) -> None:
        self._num_windows: dict[int, int] = {}

    def entered(self, window: Any) -> int:
        """One more is held; returns the bytes of what no other one has."""
        new_bytes = 0
        for element in held_in(window):
            key = id(element)
            count = self._num_windows[key] = self._num_windows.get(key, 0) + 1
            new_bytes += nbytes_of(element) if count == 1 else 0
        return new_bytes

    def left(self, window: Any) -> int:
        """One is held no longer; returns the bytes of what no other one has."""
        freed_bytes = 0
        for element in held_in(window):
            key = id(element)
            self._num_windows[key] -= 1
            if not self._num_windows[key]:
                del self._num_windows[key]  # its number may be another's soon
                freed_bytes += nbytes_of(element)
        return freed_bytes
