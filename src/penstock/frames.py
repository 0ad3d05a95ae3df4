"""The frames that an error came through, and what they keep alive; and errors that must not pass as they are."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType, TracebackType

__all__ = ["forget_frames", "no_end"]


def forget_frames(error: BaseException) -> None:
    """Lets go of the functions that an error came through and of all they had in hand; its traceback reads as before.

    A frame refers to its locals and to the frame that called it, which has those of the whole run, and this error
    among them: one that waits would keep blocks alive that were made beside it. So its traceback gets other frames,
    with the names and lines of those that were, nothing in them, and nobody who called them.
    """
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if one is not error and one.__traceback__ is not None and _is_callers(one.__traceback__.tb_frame):
            continue
        pending += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            pending += one.exceptions
        one.__traceback__ = _without_frames(one.__traceback__)


def _is_callers(frame: FrameType) -> bool:
    """Whether an error is being handled by whoever asked for elements: then it is that one's own."""
    if frame.f_globals.get("__name__", "").partition(".")[0] == __name__.partition(".")[0]:
        return False
    at_work: FrameType | None = sys._getframe(1)
    while at_work is not None and at_work is not frame:
        at_work = at_work.f_back
    return at_work is not None


def _without_frames(traceback: TracebackType | None) -> TracebackType | None:
    steps = []
    while traceback is not None:
        steps.append(traceback)
        traceback = traceback.tb_next
    for step in reversed(steps):
        traceback = TracebackType(traceback, _empty_like(step.tb_frame), step.tb_lasti, step.tb_lineno)
    return traceback


def _place() -> Iterator[None]:
    yield


# A generator that was never asked has a frame which nobody called.
_PLACE = _place.__code__


def _empty_like(frame: FrameType) -> FrameType:
    """A frame that a traceback shows in the same way, as by its name, file, and table of lines."""
    code = frame.f_code
    place = _place_of(code.co_filename, code.co_name, code.co_qualname, code.co_firstlineno, code.co_linetable)
    empty: FrameType = FunctionType(place, frame.f_globals)().gi_frame
    return empty


# Where one element fails, many may, and by the same way.
@functools.lru_cache(maxsize=64)
def _place_of(file: str, name: str, qualname: str, first_line: int, lines: bytes) -> CodeType:
    return _PLACE.replace(
        co_filename=file, co_name=name, co_qualname=qualname, co_firstlineno=first_line, co_linetable=lines
    )


def no_end(error: StopIteration, who: str) -> RuntimeError:
    """The error to raise for a StopIteration of the user's, which would end a loop of theirs; with the same notes."""
    raised = RuntimeError(f"{who} raised StopIteration")
    for note in getattr(error, "__notes__", ()):
        raised.add_note(note)
    return raised
