"""Saving: all elements of a dataset into a directory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import BadArgument, BadType
from ..memory.compression import codec_of
from ..memory.saved_set import SetWriter, check_path, shard_of
from ..ops.calling import call
from ..plan.node import caller_origin
from ..plan.op import show
from ..spec import INFINITE, Spec
from .run import Run

__all__ = ["save"]


def save(
    run: Run,
    spec: Spec,
    path: Any,
    compression: str | None = None,
    shard_func: Callable[..., Any] | None = None,
    checkpoint_args: Any = None,
) -> None:
    """Writes all elements to a directory, for `load`; in the place of what was saved there before.

    The directory holds plain Arrow files, and changes as a whole when the last element was written: an error, or a
    crash, leaves it as it was.

    Args:
        path: The directory, which is made if it is not there.
        compression: "GZIP" for small files (zstd), "SNAPPY" for files that are quick to read (lz4), None or "AUTO"
            for files whose elements need not be unpacked at all.
        shard_func: Gets an element and returns the number of the file that it goes to. None: one file.
        checkpoint_args: Must be None.
    """
    path = check_path(path)
    codec = codec_of(compression)
    if shard_func is not None and not callable(shard_func):
        raise BadType(f"shard_func: expected a function, got {type(shard_func).__name__} {shard_func!r:.60}")
    if checkpoint_args is not None:
        raise BadArgument("checkpoint_args: there are no checkpoints of a save; one that fails leaves nothing behind")
    if spec.cardinality == INFINITE:
        raise BadArgument("cannot save an infinite dataset; use take(n) for a part of it")
    origin = caller_origin()
    writer = SetWriter(path, run.ledger.share("save"), spec.element, codec)
    try:
        for place, element in enumerate(run):
            shard = 0
            if shard_func is not None:
                try:
                    shard = shard_of(call(shard_func, element))
                except Exception as error:
                    error.add_note(f"in save(shard_func={show(shard_func)}) at {origin}, element {place}")
                    raise
            writer.write(element, shard)
        writer.finish()
    finally:
        writer.abort()
