"""Compiling with numba: a loop over the elements of a chunk, without the interpreter's lock."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any

import numpy as np

from ..element import Structure
from ..errors import SpecMismatch
from ..options import AUTOTUNE
from .elems import as_tuple
from .frozen import frozen
from .jit import OTHER_SHAPE, NotCompiled
from .recent import Recent

__all__ = ["MEASURES_CALLS", "NumbaChunks", "chunks_of", "context"]

#: Whether `chunks_of` asks what calls of the function itself take for a moment.
MEASURES_CALLS = True
_MOST_ELEMENTS = 1 << 16
_ENOUGH_BYTES = 8 << 20
# What an element must take for threads to be worth it: pieces of a millisecond are handed to them.
_WORTH_THREADS_NS = 1_000
# The allocator that compiled code uses may round up, and what a call of NumPy's reuses may be allocated anew.
_MORE_TEMPORARIES = 2
# As NumPy has it: an index out of range is an error, and numbers are divided by zero without one. (numba's own choice
# is to read whatever lies there, and to raise.)
_LIKE_NUMPY = {"boundscheck": True, "error_model": "numpy"}
# Kinds of numbers that no number of a smaller kind can hold; within one, numba may compute with more bits than NumPy.
_KINDS = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


_loops: Recent[Any] = Recent()


@contextmanager
def context() -> Iterator[None]:
    """Nothing is to be set."""
    yield


class NumbaChunks:
    """A compiled loop that writes results into arrays of their dtype.

    Args:
        function: The user's.
        columns: Some elements, stacked: an array, or a tuple or list of arrays.
        result: What the function returns for the first of them.
    """

    takes_full_chunks = False
    agreed = False  # what calls take has to be measured anyhow

    def __init__(self, function: Callable[[Any], Any], columns: Any, result: Any) -> None:
        nest = as_tuple(columns)
        inputs, outputs = Structure.of(nest), Structure.of(result)
        for structure, what in ((inputs, "elements"), (outputs, "results")):
            if not (structure.is_leaf or structure.is_flat_tuple):
                raise NotCompiled(f"{what} are {structure}, and only arrays and tuples of arrays can be compiled")
        if isinstance(columns, list):
            raise NotCompiled("elements are lists of arrays, and only tuples of arrays can be compiled")
        self._inputs, self._outputs = inputs, outputs
        self._like = [(np.shape(leaf), leaf.dtype) for leaf in outputs.flatten(result)]
        self._loop = _loop_of(function, inputs, outputs)
        self.chunk = 1
        self.temporary_bytes = 0
        self.num_parallel_calls: int | None = None
        self.num_at_once = 1

    def __call__(self, columns: Any) -> Any:
        arrays = self._inputs.flatten(columns)
        size = len(arrays[0])
        made = [np.empty((size, *shape), dtype) for shape, dtype in self._like]
        self._loop(*arrays, *made)
        return self._outputs.unflatten(made)


def _loop_of(function: Callable[[Any], Any], inputs: Structure, outputs: Structure) -> Any:
    """The loop that calls a function; one that was compiled before, where nothing that it depends on has changed."""
    import numba

    if hasattr(function, "py_func"):
        return _loop(function, inputs, outputs)
    compile_one = numba.njit(nogil=True, **_LIKE_NUMPY)
    known = frozen(function)
    if known is None:
        return _loop(compile_one(function), inputs, outputs)
    key, copy = known
    return _loops.get((key, inputs, outputs), lambda: _loop(compile_one(copy), inputs, outputs))


def _loop(one: Any, inputs: Structure, outputs: Structure) -> Any:
    """The loop for so many arrays in and out: numba knows the types of tuples only where they are written out."""
    import numba

    ins = [f"in{i}" for i in range(inputs.num_leaves)]
    outs = [f"out{i}" for i in range(outputs.num_leaves)]
    element = "in0[i]" if inputs.is_leaf else f"({', '.join(f'{name}[i]' for name in ins)},)"
    lines = [
        f"def loop({', '.join([*ins, *outs])}):",
        "    for i in range(len(in0)):",
        f"        result = one({element})",
    ]
    lines += ["        put(out0, i, result)"] if outputs.is_leaf else []
    lines += [] if outputs.is_leaf else [f"        put({name}, i, result[{i}])" for i, name in enumerate(outs)]
    namespace: dict[str, Any] = {"one": one, "put": _put()}
    exec("\n".join(lines), namespace)
    return numba.njit(nogil=True)(namespace["loop"])


@functools.cache
def _put() -> Any:
    """What writes a result, for compiled code: assigned as it is, numba would cut off a fraction, or fill up a row."""
    from numba.core import types
    from numba.extending import overload
    from numba.np.numpy_support import as_dtype

    def put(out: Any, i: Any, result: Any) -> None:
        raise NotImplementedError  # compiled code has one of those below instead

    def put_of(out: Any, i: Any, result: Any) -> Any:
        is_array = isinstance(result, types.Array)
        number = result.dtype if is_array else getattr(result, "literal_type", result)  # which a constant has
        found, wanted = as_dtype(number), as_dtype(out.dtype)
        if _KINDS[found.kind] > _KINDS[wanted.kind]:
            raise NotCompiled(f"compiled it returns {found}, and else {wanted}")

        def put_array(out: Any, i: Any, result: Any) -> None:
            if result.shape != out.shape[1:]:
                raise SpecMismatch(OTHER_SHAPE)
            out[i] = result

        def put_number(out: Any, i: Any, result: Any) -> None:
            out[i] = result

        return put_array if is_array else put_number

    overload(put)(put_of)
    return put


def chunks_of(
    function: Callable[[Any], Any],
    columns: Any,
    result: Any,
    num_elements: int | None,
    room_bytes: int,
    temporary_bytes: Callable[[], int],
    num_parallel_calls: int | None,
) -> NumbaChunks:
    """The function compiled; chunks are as large as there is room for their elements and results."""
    made = NumbaChunks(function, columns, result)
    arrays = made._inputs.flatten(columns)
    each = sum(array.nbytes // len(array) for array in arrays)
    each += sum(dtype.itemsize * int(np.prod(shape)) for shape, dtype in made._like)
    made(columns)  # compiles
    start = perf_counter_ns()
    made(columns)
    each_ns = (perf_counter_ns() - start) // len(arrays[0])
    temporaries = _MORE_TEMPORARIES * temporary_bytes()
    threads = num_parallel_calls
    if threads == AUTOTUNE:
        threads = os.cpu_count() if each_ns >= _WORTH_THREADS_NS else None
    if threads is not None and threads * (temporaries + each) > room_bytes:
        threads = None
    if temporaries + each > room_bytes:
        raise NotCompiled(f"one element takes {temporaries + each:,} bytes, and {room_bytes:,} are left to it")
    made.num_parallel_calls, made.num_at_once = threads, threads or 1
    left = (room_bytes - made.num_at_once * temporaries) // made.num_at_once
    made.chunk = max(1, min(_MOST_ELEMENTS, min(_ENOUGH_BYTES, left) // max(1, each)))
    made.temporary_bytes = temporaries + made.chunk * each
    return made
