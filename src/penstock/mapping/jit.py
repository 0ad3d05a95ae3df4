"""Compiling `map_fn`'s function: with JAX, or with numba, whichever is installed and takes it.

A compiled function must return for a sample of elements what the function itself returns: nest, dtypes, shapes and, up
to rounding, values. So a function that draws random numbers, which JAX would draw once for all elements, is not
compiled, nor one whose compiled results would be of another dtype, or that leaves its array where JAX would not say so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

from ..element import Structure, nbytes_of
from ..errors import PenstockError, SpecMismatch
from ..leaf import dtype_of
from ..ops.calling import as_result
from ..runtime.temporaries import call_measured
from ..spec import describe, spec_of
from .elems import Elems

__all__ = ["COMPILERS", "FEWEST_COMPARED", "OTHER_SHAPE", "Chunks", "Compiled", "NotCompiled", "compiled"]

#: In the order in which they are tried: JAX makes one program of a whole chunk, and may find that it needs no memory.
COMPILERS = ("jax", "numba")
#: Elements that are compared at least, however large they are, where there are as many.
FEWEST_COMPARED = 2
OTHER_SHAPE = "fn returned results of different shapes: they are stacked, so all must have one"
# Where a program has agreed before, this many of other elements.
_COMPARED_AGAIN = 4


class NotCompiled(Exception):
    """A function that a compiler does not take, and why."""


class Chunks(Protocol):
    """A function of whole arrays with a leading axis, as a compiler made it."""

    #: The most elements at a time.
    chunk: int
    #: What a call takes beside what it returns.
    temporary_bytes: int
    #: Threads that may call it; None for the caller's alone.
    num_parallel_calls: int | None
    num_at_once: int
    #: Whether a smaller chunk takes as long as a full one.
    takes_full_chunks: bool
    #: Whether the same program was compared before, and agreed: then few elements are enough. Set when it has.
    agreed: bool

    def __call__(self, columns: Any) -> Any:
        """Results, stacked, of elements stacked."""


class Compiled:
    """The compiled function as the engine calls it."""

    def __init__(
        self,
        compiler: str,
        context: Callable[[], AbstractContextManager[None]],
        chunks: Chunks,
        pack: Callable[[tuple[Any, ...]], Any],
        function: Callable[[Any], Any],
        result_spec: Any,
        returns_list: bool,
        columns: list[np.ndarray],
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self.compiler = compiler
        self.chunk = chunks.chunk
        self.temporary_bytes = chunks.temporary_bytes
        self.num_parallel_calls = chunks.num_parallel_calls
        self.num_at_once = chunks.num_at_once
        self.takes_full_chunks = chunks.takes_full_chunks
        self.result_spec = result_spec
        self.returns_list = returns_list
        self._chunks = chunks
        self._pack = pack
        self._function = function
        self._context = context
        self._takes = _kinds(columns)

    def __call__(self, *parts: Any) -> Any:
        structure = Structure.of(parts)
        columns = _native(structure.flatten(parts))
        if _kinds(columns) != self._takes:
            return self._one_by_one(structure, columns)
        return self._chunks(self._pack(structure.unflatten(columns)))

    def _one_by_one(self, structure: Structure, columns: list[np.ndarray]) -> Any:
        """Elements unlike those that it was compiled for, as the last batch may be: the function itself takes them."""
        rows = [structure.unflatten(list(row)) for row in zip(*columns, strict=True)]
        with self._context():
            results = [as_result(self._function(self._pack(row))) for row in rows]
        found = Structure.of(results[0])
        try:
            return found.unflatten(_stacked(found, results))
        except NotCompiled:
            raise SpecMismatch(OTHER_SHAPE) from None


def compiled(
    function: Callable[[Any], Any],
    elems: Elems,
    sample: list[Any],
    compilers: tuple[str, ...],
    room_bytes: int,
    num_parallel_calls: int | None,
) -> Compiled:
    """The function compiled by the first of some compilers that takes it, or `NotCompiled`, which says why.

    Args:
        function: The user's.
        elems: What it will be called on.
        sample: Elements to compare with the function itself: the first ones, and others.
        compilers: Their names.
        room_bytes: What a chunk may take: elements, results, and what is needed between.
        num_parallel_calls: What the user said of threads.
    """
    reasons = []
    for name in compilers:
        if find_spec(name) is None:
            reasons.append(f"{name} is not installed")
            continue
        module = import_module(f".with_{name}", __package__)
        try:
            with module.context():
                return _compiled_by(module, name, function, elems, sample, room_bytes, num_parallel_calls)
        except NotCompiled as why:
            reasons.append(f"{name}: {why}")
    raise NotCompiled("; ".join(reasons))


def _compiled_by(
    module: Any,
    name: str,
    function: Callable[[Any], Any],
    elems: Elems,
    sample: list[Any],
    room_bytes: int,
    num_parallel_calls: int | None,
) -> Compiled:
    plain = _PlainCalls(function, elems, sample, room_bytes // 4, module.MEASURES_CALLS)
    structure = Structure.of(sample[0])
    columns = _stacked(structure, sample)
    if any(column.dtype.kind not in "biufc" for column in columns):
        raise NotCompiled(f"elements are {describe(spec_of(sample[0]))}, and only numbers can be compiled")
    plain.call(_COMPARED_AGAIN)
    first = plain.results[0]
    leaves = Structure.of(first).flatten(first)
    if any(not isinstance(leaf, np.ndarray | np.generic) or dtype_of(leaf).kind not in "biufc" for leaf in leaves):
        raise NotCompiled(f"fn returns {describe(spec_of(first))}, and only numbers can be compiled")
    nest = _packed(structure, columns, elems)
    try:
        chunks: Chunks = module.chunks_of(
            function, nest, first, elems.num_elements, room_bytes, plain.temporary_bytes, num_parallel_calls
        )
        if not chunks.agreed:
            plain.call(len(sample))
        found = []
        for start in range(0, len(plain.results), chunks.chunk):  # which may be of one element
            stop = min(start + chunks.chunk, len(plain.results))
            part = [column[start:stop] for column in columns]
            found.append(as_result(chunks(_packed(structure, part, elems))))
    except (NotCompiled, KeyboardInterrupt):
        raise
    except Exception as error:
        text = str(error).strip().splitlines()
        raise NotCompiled(f"{type(error).__name__}: {text[0] if text else ''}") from None
    _check_equal(found, plain.results)
    chunks.agreed = True
    return Compiled(name, module.context, chunks, elems.pack, function, spec_of(first), plain.returns_list, columns)


class _PlainCalls:
    """Calls of the function itself on elements of the sample, in their order: a few, and later more.

    Args:
        function: The user's.
        elems: What it will be called on.
        sample: The elements.
        most_bytes: What results may take together, however many elements are asked for.
        measured: Whether somebody will ask for `temporary_bytes`: calls of JAX's take twice as long with it.
    """

    def __init__(
        self, function: Callable[[Any], Any], elems: Elems, sample: list[Any], most_bytes: int, measured: bool
    ) -> None:
        self._function = function
        self._elems = elems
        self._sample = sample
        self._left_bytes = most_bytes
        self._measured = measured
        self._temporaries = [0]
        self.results: list[Any] = []
        self.returns_list = False

    def call(self, count: int) -> None:
        """Has results of so many elements, or as many as there is room for."""
        try:
            for row in self._sample[len(self.results) : count]:
                if len(self.results) >= FEWEST_COMPARED and self._left_bytes < 0:
                    break
                element = self._elems.pack(row if type(row) is tuple else (row,))
                if self._measured:
                    result = call_measured(self._temporaries.append, self._function, (element,), {})
                else:
                    result = self._function(element)
                self.returns_list = isinstance(result, list)
                self.results.append(as_result(result))
                self._left_bytes -= nbytes_of(self.results[-1])
        except Exception as error:  # the run will raise it, with its place
            raise NotCompiled(f"fn itself raised {type(error).__name__} for one of the elements tried") from None

    def temporary_bytes(self) -> int:
        """What a call took beside its result, at most: of the whole sample."""
        self.call(len(self._sample))
        return max(self._temporaries)


def _stacked(structure: Structure, rows: list[Any]) -> list[np.ndarray]:
    try:
        leaves = [structure.flatten(row) for row in rows]
        return _native([np.stack([np.asarray(leaf) for leaf in parts]) for parts in zip(*leaves, strict=True)])
    except (PenstockError, ValueError):
        raise NotCompiled("elements are of different shapes") from None


def _kinds(columns: list[np.ndarray]) -> list[tuple[np.dtype, tuple[int, ...]]]:
    return [(column.dtype, column.shape[1:]) for column in columns]


def _native(columns: list[np.ndarray]) -> list[np.ndarray]:
    """Numbers in the machine's byte order: numba takes no others, and JAX takes their bytes for its own."""
    return [column.astype(column.dtype.newbyteorder("="), copy=False) for column in columns]


def _packed(structure: Structure, columns: list[np.ndarray], elems: Elems) -> Any:
    """Columns as the one argument of the function."""
    nest = structure.unflatten(columns)
    return elems.pack(nest if structure.kind is tuple else (nest,))


def _check_equal(found: list[Any], expected: list[Any]) -> None:
    """Compares what was compiled, in chunks, with what the function itself returns for each element."""
    structure = Structure.of(expected[0])
    for result in (*found, *expected):
        if Structure.of(result) != structure:
            raise NotCompiled(f"compiled it returns {Structure.of(result)}, and else {structure}")
    chunks = [structure.flatten(result) for result in found]
    columns = [np.concatenate(parts) for parts in zip(*chunks, strict=True)]
    for column, *leaves in zip(columns, *map(structure.flatten, expected), strict=True):
        if not _are_equal(column, leaves):  # one by one, to say which is not
            for found_leaf, leaf in zip(column, leaves, strict=True):
                _check_leaf(found_leaf, leaf)


def _are_equal(column: np.ndarray, leaves: list[Any]) -> bool:
    alike = all(leaf.dtype == column.dtype and leaf.shape == column.shape[1:] for leaf in leaves)
    return alike and np.array_equal(column, np.array(leaves))


def _check_leaf(found: Any, expected: Any) -> None:
    if found.dtype != expected.dtype or found.shape != expected.shape:
        got, wanted = describe(spec_of(found)), describe(spec_of(expected))
        raise NotCompiled(f"compiled it returns {got}, and else {wanted}")
    if np.array_equal(found, expected):
        return
    rounding = 100 * np.finfo(found.dtype).eps if found.dtype.kind in "fc" else 0.0
    # Sums of many numbers differ by more than their last digit: there the largest says how much.
    scale = float(np.nan_to_num(np.abs(expected)).max(initial=0.0)) if rounding else 0.0
    if not np.allclose(found, expected, rtol=rounding, atol=rounding * min(scale, 1e300), equal_nan=bool(rounding)):
        raise NotCompiled(f"compiled it returns other values than fn itself: {_short(found)} for {_short(expected)}")


def _short(value: Any) -> str:
    # All digits: values that differ must not look alike.
    return f"{np.array2string(np.asarray(value), threshold=4, edgeitems=2, floatmode='unique'):.80}"
