"""What a user's function raised, as an element in its place."""

from __future__ import annotations

from ..block import Block
from ..element import Failed
from ..errors import FormatError, RecordError
from ..plan.op import Context

__all__ = ["failed"]


def failed(error: Exception, context: Context, place: int, block: Block, i: int) -> Failed:
    """The error of a function that was called with element i of a block, the element number `place` of its input.

    A record that cannot be parsed has the file and the number that it came from, where its block knows them, and counts
    as one of that file; else the number of the element.
    """
    if isinstance(error, RecordError) and not error.is_located:
        _name(error, place, block.origin(i))
    if isinstance(error, FormatError) and error.file is not None:
        context.count_failed(error.file, 1)
    context.noted(error, place)
    if type(error) is TypeError and "argument" in str(error) and _is_of_the_call(error):
        (row,) = block[i : i + 1].rows()
        n = len(row) if type(row) is tuple else 1
        last = ", and a generator as the last" if context.node.op.traits.keyed else ""
        error.add_note(f"a tuple is handed over as several arguments, any other element as one: this one as {n}{last}")
    return Failed(error)


def _is_of_the_call(error: Exception) -> bool:
    """Whether it was raised by calling the function, and not within it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals.get("__package__") == __package__


def _name(error: RecordError, place: int, origin: tuple[str, int] | None) -> None:
    where = f"element {place:,}"
    if origin is not None:
        error.file, error.record = origin
        where = f"{error.file}, record {error.record:,}"
    elif error.record is None:
        error.record = place
    error.args = (f"{where}: {error}",)
