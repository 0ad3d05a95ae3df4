"""The frames that an error came through, and what they keep alive; and errors that must not pass as they are."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from types import FrameType, FunctionType, TracebackType
from typing import Any

__all__ = ["ARGS", "forget_frames", "no_end", "taken"]

#: The arguments of an error as they are, whatever a class of the user's has put before them.
ARGS: Any = vars(BaseException)["args"]


def forget_frames(error: BaseException) -> list[BaseException]:
    """Lets go of the functions that an error came through and of all they had in hand; its traceback reads as before.

    A frame refers to its locals and to the frame that called it, which has those of the whole run, and this error
    among them: one that waits would keep blocks alive that were made beside it. So its traceback gets other frames,
    with the names and lines of those that were, nothing in them, and nobody who called them.

    Returns the error and those that it refers to, of which the same is true: its causes, what was handled meanwhile,
    members of a group. What the caller is handling is not among them.
    """
    found: dict[int, BaseException] = {}
    pending: list[Any] = [error]
    while pending:
        one = pending.pop()
        if not isinstance(one, BaseException) or id(one) in found:
            continue
        if one is not error and one.__traceback__ is not None and _is_callers(one.__traceback__.tb_frame):
            continue
        found[id(one)] = one
        pending += [one.__cause__, one.__context__, *ARGS.__get__(one)]
        if isinstance(one, BaseExceptionGroup):
            pending += one.exceptions
        one.with_traceback(_without_frames(one.__traceback__))  # for a frozen dataclass cannot be assigned to
    return list(found.values())


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
    code, module = frame.f_code, str(frame.f_globals.get("__name__"))
    empty = _empty_frame(
        code.co_filename, code.co_name, code.co_qualname, code.co_firstlineno, code.co_linetable, module
    )
    if empty.f_globals is not frame.f_globals:  # of a module that was made by hand, or replaced
        empty = FunctionType(empty.f_code, frame.f_globals)().gi_frame
    return empty


# Where one element fails, many may, and by the same way: they have these frames in common, which take five times as
# much as the rest of a traceback does.
@functools.lru_cache(maxsize=256)
def _empty_frame(file: str, name: str, qualname: str, first_line: int, lines: bytes, module: str) -> FrameType:
    place = _PLACE.replace(
        co_filename=file, co_name=name, co_qualname=qualname, co_firstlineno=first_line, co_linetable=lines
    )
    # Of modules alone: what else a function refers to, as its own, would be kept for good.
    names = vars(sys.modules[module]) if module in sys.modules else {}
    empty: FrameType = FunctionType(place, names)().gi_frame
    return empty


def taken(holder: Any) -> BaseException:
    """The error that somebody kept until now, when it is raised: `raise taken(holder)`.

    It is kept there no longer, for the functions that it comes through have the holder in hand: the error would keep
    them, by its traceback, and they would keep the error, until garbage is collected.
    """
    error: BaseException = holder.error
    holder.error = None
    return error


def no_end(error: StopIteration, who: str) -> RuntimeError:
    """The error to raise for a StopIteration of the user's, which would end a loop of theirs; with the same notes."""
    raised = RuntimeError(f"{who} raised StopIteration")
    for note in getattr(error, "__notes__", ()):
        raised.add_note(note)
    return raised
