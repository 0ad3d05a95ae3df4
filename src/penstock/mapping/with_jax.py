"""Compiling with JAX: `jit` of `vmap`, on chunks that XLA's own account says fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .jit import NotCompiled

__all__ = ["JaxChunks", "chunks_of", "context"]

_FIRST_CHUNK = 4096
_MOST_ELEMENTS = 1 << 16
# More at a time would leave the processor's caches, and is no quicker.
_ENOUGH_BYTES = 8 << 20


@contextmanager
def context() -> Iterator[None]:
    """64-bit numbers, as in NumPy, whatever JAX is told elsewhere; and the memory that the budget speaks of."""
    import jax

    with jax.enable_x64(True), jax.default_device(jax.local_devices(backend="cpu")[0]):
        yield


class JaxChunks:
    """One program for chunks of one size; smaller ones are filled up."""

    num_parallel_calls = None  # XLA has threads of its own
    num_at_once = 1

    def __init__(self, function: Callable[[Any], Any], columns: Any, chunk: int) -> None:
        import jax

        shapes = jax.tree.map(lambda column: jax.ShapeDtypeStruct((chunk, *column.shape[1:]), column.dtype), columns)
        with context():
            self._program = jax.jit(jax.vmap(function)).lower(shapes).compile()
        self.chunk = chunk
        account = self._program.memory_analysis()
        #: Elements (which XLA may copy, and which are filled up), results, and what lies between.
        self.temporary_bytes = (
            2 * account.argument_size_in_bytes + account.output_size_in_bytes + account.temp_size_in_bytes
        )

    def __call__(self, columns: Any) -> Any:
        import jax

        size = len(jax.tree.leaves(columns)[0])
        with context():
            if size < self.chunk:
                columns = jax.tree.map(self._filled_up, columns)
            return jax.tree.map(lambda result: np.asarray(result)[:size], self._program(columns))

    def _filled_up(self, column: np.ndarray) -> np.ndarray:
        full = np.empty((self.chunk, *column.shape[1:]), column.dtype)
        full[: len(column)] = column
        full[len(column) :] = column[-1]  # an element that the function takes
        return full


def chunks_of(
    function: Callable[[Any], Any],
    columns: Any,
    result: Any,
    num_elements: int | None,
    room_bytes: int,
    temporary_bytes: int,
    num_parallel_calls: int | None,
) -> JaxChunks:
    """The function compiled for as many elements at a time as there is room for."""
    most = _MOST_ELEMENTS if num_elements is None else min(num_elements, _MOST_ELEMENTS)
    made = JaxChunks(function, columns, min(most, _FIRST_CHUNK))
    wanted = min(most, max(1, made.chunk * min(_ENOUGH_BYTES, room_bytes) // max(1, made.temporary_bytes)))
    if wanted > 2 * made.chunk or made.temporary_bytes > room_bytes:
        made = JaxChunks(function, columns, wanted)
    while made.temporary_bytes > room_bytes:
        if made.chunk == 1:
            raise NotCompiled(f"one element takes {made.temporary_bytes:,} bytes, and {room_bytes:,} are left to it")
        made = JaxChunks(function, columns, max(1, made.chunk // 2))
    return made
