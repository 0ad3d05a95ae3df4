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
    run: Run, spec: Spec, path: Any, compression: Any, shard_func: Callable[..., Any] | None, checkpoint_args: Any
) -> None:
    """Writes what a run delivers; the first error ends it, and leaves what was there before as it was."""
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
