"""The frames that an error came through, and what they keep alive."""

from __future__ import annotations

from types import FrameType

__all__ = ["forget_locals"]

# Flags of the code of generators and coroutines, as `inspect` has them.
_CO_GENERATORS = 0x20 | 0x80 | 0x200


def forget_locals(error: BaseException) -> None:
    """Lets go of what the functions that an error came through had in hand; where it came from can still be read.

    Their frames refer to each other, and so to blocks of elements that were made beside it.
    """
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        pending += [one.__cause__, one.__context__]
        trace = one.__traceback__
        _clear_callers(trace and trace.tb_frame)
        while trace is not None:
            _cleared(trace.tb_frame)
            trace = trace.tb_next


def _clear_callers(frame: FrameType | None) -> None:
    while frame is not None and _cleared(frame):
        frame = frame.f_back


def _cleared(frame: FrameType) -> bool:
    """Clears a frame; not that of a generator, which might be asked for more."""
    if frame.f_code.co_flags & _CO_GENERATORS:
        return False
    try:
        frame.clear()
    except RuntimeError:  # it is at work, and so are those that called it
        return False
    return True
