"""Compiling with JAX: `jit` of `vmap`, on chunks that XLA's own account says fit."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..memory.transit import MOST_SINGLY
from .jit import NotCompiled
from .programs import Program, vectorized

__all__ = ["MEASURES_CALLS", "JaxChunks", "chunks_of", "context"]

#: Whether `chunks_of` asks what calls of the function itself take for a moment.
MEASURES_CALLS = False
# As many elements are on their way at most.
_MOST_ELEMENTS = MOST_SINGLY
# More at a time would leave the processor's caches, and is no quicker.
_ENOUGH_BYTES = 8 << 20
# Chunks that are filled up to so many times their size, and more than so often, are worth compiling for.
_WASTE = 4
_RARE = 2


@contextmanager
def context() -> Iterator[None]:
    """64-bit numbers, as in NumPy, whatever JAX is told elsewhere; and the memory that the budget speaks of."""
    import jax

    with jax.enable_x64(True), jax.default_device(_processor()):
        yield


@functools.cache
def _processor() -> Any:
    import jax

    return jax.local_devices(backend="cpu")[0]


class JaxChunks:
    """A program for chunks of one size. Smaller ones are filled up; a few of them, and they get a program of their own.

    To be made in the `context`.

    Args:
        function: The user's.
        columns: Some elements, stacked.
        chunk: The most elements at a time.
    """

    num_parallel_calls = None  # XLA has threads of its own
    num_at_once = 1
    takes_full_chunks = True

    def __init__(self, function: Callable[[Any], Any], columns: Any, chunk: int) -> None:
        import jax

        self._vectorized = vectorized(function)
        self._columns = jax.tree.map(lambda column: column[:1], columns)
        self.chunk = chunk
        self._programs = {chunk: self._compiled(chunk)}
        self._num_calls: dict[int, int] = {}
        self.temporary_bytes = self._programs[chunk].temporary_bytes

    @property
    def agreed(self) -> bool:
        return self._programs[self.chunk].agreed

    @agreed.setter
    def agreed(self, agreed: bool) -> None:
        self._programs[self.chunk].agreed = agreed

    def _compiled(self, chunk: int) -> Program:
        import jax

        def shape(column: np.ndarray) -> Any:
            return jax.ShapeDtypeStruct((chunk, *column.shape[1:]), column.dtype)

        return self._vectorized.program(jax.tree.map(shape, self._columns))

    def __call__(self, columns: Any) -> Any:
        import jax

        size = len(jax.tree.leaves(columns)[0])
        with context():
            chunk = self._chunk_for(size)
            if size < chunk:
                columns = jax.tree.map(lambda column: _filled_up(column, chunk), columns)
            return jax.tree.map(lambda result: np.asarray(result)[:size], self._programs[chunk].executable(columns))

    def _chunk_for(self, size: int) -> int:
        """The size of the program to use: one that is less than four times as large, if that comes up again."""
        chunk = self.chunk
        while chunk >= _WASTE * size and chunk >= _WASTE:
            chunk //= _WASTE
        if chunk not in self._programs:
            self._num_calls[chunk] = self._num_calls.get(chunk, 0) + 1
            if self._num_calls[chunk] <= _RARE:
                return self.chunk
            self._programs[chunk] = self._compiled(chunk)
        return chunk


def _filled_up(column: np.ndarray, size: int) -> np.ndarray:
    full = np.empty((size, *column.shape[1:]), column.dtype)
    full[: len(column)] = column
    full[len(column) :] = column[-1]  # an element that the function takes
    return full


def chunks_of(
    function: Callable[[Any], Any],
    columns: Any,
    result: Any,
    num_elements: int | None,
    room_bytes: int,
    temporary_bytes: Callable[[], int],
    num_parallel_calls: int | None,
) -> JaxChunks:
    """The function compiled for as many elements at a time as there is room for."""
    made = JaxChunks(function, columns, _even_chunk(_MOST_ELEMENTS, num_elements))
    enough = min(_ENOUGH_BYTES, room_bytes)
    if made.temporary_bytes > enough:
        wanted = max(1, made.chunk * enough // made.temporary_bytes)
        made = JaxChunks(function, columns, _even_chunk(wanted, num_elements))
    while made.temporary_bytes > room_bytes:
        if made.chunk == 1:
            raise NotCompiled(f"one element takes {made.temporary_bytes:,} bytes, and {room_bytes:,} are left to it")
        made = JaxChunks(function, columns, max(1, made.chunk // 2))
    return made


def _even_chunk(most: int, num_elements: int | None) -> int:
    """Chunks of at most so many elements, and about equal: what the last one lacks is computed for nothing."""
    if not num_elements:
        return most
    return -(-num_elements // -(-num_elements // most))
