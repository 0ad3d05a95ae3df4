"""Watches over a part of the contract of cursors: who restores a position does so before anything was read."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.cursor import Cursor, State

__all__ = ["only_unmoved_are_restored"]


@contextmanager
def only_unmoved_are_restored() -> Iterator[None]:
    """Has `restore` fail on a cursor that was pulled from or skipped; for those of files that were imported by now."""
    moved: dict[int, Cursor] = {}  # the cursors too, so that their ids stay theirs

    def noting(function: Callable[[Any, int], Any]) -> Callable[[Any, int], Any]:
        def moves(self: Cursor, n: int) -> Any:
            moved[id(self)] = self
            return function(self, n)

        return moves

    def checking(function: Callable[[Any, State], None]) -> Callable[[Any, State], None]:
        def restores(self: Cursor, state: State) -> None:
            assert id(self) not in moved, f"{type(self).__name__} is restored, and was read before"
            function(self, state)

        return restores

    with pytest.MonkeyPatch.context() as patch:
        for cls in _below(Cursor):
            for name, watched in (("pull", noting), ("skip", noting), ("restore", checking)):
                if name in cls.__dict__:
                    patch.setattr(cls, name, watched(cls.__dict__[name]))
        yield


def _below(cls: type) -> set[type]:
    return {kind for child in cls.__subclasses__() for kind in (child, *_below(child))}
