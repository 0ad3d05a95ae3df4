"""Ending: a run that is being closed, for who is in the midst of many slow elements.

Who closes a run waits for its threads. A thread may just be gathering a batch of a thousand elements, of a function
that takes a second for each: it is to leave the rest of them. Who makes elements one by one asks `Ending.is_near`
between two of them, and so does every stage that is asked for some.
"""

from __future__ import annotations

__all__ = ["Ended", "Ending"]


class Ended(BaseException):
    """Ends what a thread is at. No `Exception`: nobody is to take it for an element that failed."""


class Ending:
    """Of one run, and all its stages."""

    __slots__ = ("is_near",)

    def __init__(self) -> None:
        self.is_near = False
