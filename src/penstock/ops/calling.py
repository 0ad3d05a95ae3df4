"""Calling users' functions the way tf.data does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..block import Block, stack_leaves
from ..element import Failed, Structure, as_leaf, normalize
from ..errors import BadType, PenstockError
from ..options import AUTOTUNE
from ..plan.op import Context, argument

__all__ = ["Calls", "as_result", "call", "check_callable", "check_parallel_calls", "truth"]


def check_callable(name: str, function: Any) -> None:
    """Refuses what cannot be called, when the pipeline is written."""
    if not callable(function):
        raise BadType(f"{name}: expected a function, got {type(function).__name__} {function!r:.60}")


def check_parallel_calls(op: Any, value: Any) -> None:
    """Normalizes and checks `num_parallel_calls` of a frozen operator."""
    if value is None:
        return
    number = argument("num_parallel_calls", value)
    if number != AUTOTUNE:
        number = argument("num_parallel_calls", value, at_least=1)
    object.__setattr__(op, "num_parallel_calls", number)


def call(function: Callable[..., Any], element: Any) -> Any:
    """Calls with an element's parts: a plain tuple is unpacked, anything else is one argument."""
    return function(*element) if type(element) is tuple else function(element)


def as_result(value: Any) -> Any:
    """What a function returned, as an element. A list is a tuple of components."""
    kind = type(value)
    if kind is np.ndarray and value.ndim and value.dtype.kind not in "OSU":
        return value
    if isinstance(value, list):
        value = tuple(value)
    element = normalize(value)
    if element is None or (isinstance(element, (tuple, dict)) and not element):
        got = "None; does the function return something?" if element is None else f"an empty {type(element).__name__}"
        raise BadType(f"expected at least one component, got {got}")
    return element


def truth(value: Any, what: str) -> bool:
    """A predicate's answer: one boolean."""
    kind = type(value)
    if kind is bool or kind is np.bool_:
        return bool(value)
    leaf = as_leaf(value) if not isinstance(value, (tuple, dict)) else value
    if not isinstance(leaf, np.bool_):
        shape = getattr(leaf, "shape", None)
        got = f"{getattr(leaf, 'dtype', type(leaf).__name__)}{f' of shape {shape}' if shape else ''}"
        raise BadType(f"{what}: expected one boolean, got {got} {value!r:.60}; compare, or use bool(...)")
    return bool(leaf)


class Calls:
    """A user's function as a function of blocks: called on one element after the other.

    `key_argument`, where given, makes a last argument from an element's key (its place in the input, or its number).
    With `into_slot` results are stacked as they are made: arrays are written to their place in a slot at once, and no
    list of them is ever held.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        context: Context,
        into_slot: bool = False,
        key_argument: Callable[[int], Any] | None = None,
        numbered: bool = False,
    ) -> None:
        self._function = function
        self._context = context
        self._into_slot = into_slot
        self._key_argument = key_argument
        self._numbered = numbered

    def __call__(self, block: Block, place: int) -> Block:
        rows = block.rows()
        keys: Sequence[int] = range(place, place + len(rows))
        if self._numbered and block.positions is not None:
            keys = block.positions.tolist()
        if not self._into_slot or block.has_failures or len(rows) == 1:
            results = [self._one(row, key, place + i) for i, (row, key) in enumerate(zip(rows, keys, strict=True))]
            return Block.of_rows(results, block.positions)
        first = self._one(rows[0], keys[0], place)
        if isinstance(first, (np.generic, bytes)):
            return self._scalars(first, rows, keys, block, place)
        return self._stacked(first, rows, keys, block, place)

    def _one(self, row: Any, key: int, place: int) -> Any:
        if type(row) is Failed:
            return row
        try:
            result = self._raw(row, key)
            return result if isinstance(result, np.number) else as_result(result)
        except Exception as error:
            return self._failed(error, place)

    def _raw(self, row: Any, key: int) -> Any:
        if self._key_argument is None:
            return self._function(*row) if type(row) is tuple else self._function(row)
        parts = row if type(row) is tuple else (row,)
        return self._function(*parts, self._key_argument(key))

    def _failed(self, error: Exception, place: int) -> Failed:
        if isinstance(error, PenstockError):
            return Failed(self._context.located(error))
        return Failed(self._context.noted(error, place))

    def _scalars(self, first: Any, rows: list[Any], keys: Sequence[int], block: Block, place: int) -> Block:
        """Small results: kept in a list and stacked at the end, which is quicker than a write for each."""
        results = [first]
        if self._key_argument is None and type(rows[0]) is not tuple:
            function, append = self._function, results.append
            try:
                for row in rows[1:]:
                    append(function(row))
            except Exception as error:
                append(self._failed(error, place + len(results)))
        done = len(results)
        results += [self._one(rows[i], keys[i], place + i) for i in range(done, len(rows))]
        column = stack_leaves(results, self._context.arena.empty)
        if column is not None:
            return Block.of_columns(Structure.of(first), [column], len(rows), block.positions)
        return Block.of_rows([self._normal(result, place + i) for i, result in enumerate(results)], block.positions)

    def _normal(self, result: Any, place: int) -> Any:
        if type(result) is Failed:
            return result
        try:
            return as_result(result)
        except Exception as error:
            return self._failed(error, place)

    def _stacked(self, first: Any, rows: list[Any], keys: Sequence[int], block: Block, place: int) -> Block:
        """Results with arrays in them: each is written to its place in a slot as soon as it is there."""
        stack = None if type(first) is Failed else _Stack.for_results_like(first, len(rows), self._context.arena.empty)
        if stack is None:
            rest = [self._one(rows[i], keys[i], place + i) for i in range(1, len(rows))]
            return Block.of_rows([first, *rest], block.positions)
        stack.put(0, first)
        direct = self._key_argument is None and type(rows[0]) is not tuple
        function, put = self._function, stack.quickest_put()
        for i in range(1, len(rows)):
            try:
                result = function(rows[i]) if direct else self._raw(rows[i], keys[i])
                if put(i, result):
                    continue
                result = as_result(result)
                if put(i, result):
                    continue
            except Exception as error:
                result = self._failed(error, place + i)
            # One result is unlike the first: go on with rows.
            rest = [self._one(rows[j], keys[j], place + j) for j in range(i + 1, len(rows))]
            return Block.of_rows([*stack.rows(i), result, *rest], block.positions)
        return stack.block(len(rows), block.positions)


class _Stack:
    """Columns being filled row by row."""

    def __init__(self, structure: Structure, leaves: list[Any], slots: list[np.ndarray]) -> None:
        self._structure = structure
        self._flat = structure.is_leaf or structure.is_flat_tuple
        self._slots = slots
        self._likes = [(type(leaf), leaf.shape, leaf.dtype) for leaf in leaves]
        self._slot, self._shape, self._dtype = slots[0], leaves[0].shape, leaves[0].dtype

    @classmethod
    def for_results_like(cls, first: Any, size: int, allocate: Callable[..., np.ndarray]) -> _Stack | None:
        """A stack for results like the first; None where they cannot be stacked as they come."""
        structure = Structure.of(first)
        leaves = structure.flatten(first)
        for leaf in leaves:
            if not isinstance(leaf, (np.ndarray, np.generic)) or leaf.dtype.hasobject:
                return None
        return cls(structure, leaves, [allocate((size, *leaf.shape), leaf.dtype) for leaf in leaves])

    def put(self, i: int, result: Any) -> bool:
        """Writes a result to its place; False if it is not like the first one."""
        if self._structure.is_leaf:
            leaves = (result,)
        elif self._flat:
            leaves = result
            if type(leaves) is not tuple or len(leaves) != len(self._slots):
                return False
        elif Structure.of(result) == self._structure:
            leaves = tuple(self._structure.flatten(result))
        else:
            return False
        for leaf, (kind, shape, dtype) in zip(leaves, self._likes, strict=True):
            if type(leaf) is not kind or leaf.shape != shape or leaf.dtype != dtype:
                return False
        for slot, leaf in zip(self._slots, leaves, strict=True):
            slot[i] = leaf
        return True

    def quickest_put(self) -> Callable[[int, Any], bool]:
        """`put`, or what does the same for this kind of result. (Not kept: a cycle would hold the slots for long.)"""
        return self._put_array if self._structure.is_leaf and self._likes[0][0] is np.ndarray else self.put

    def _put_array(self, i: int, result: Any) -> bool:
        """`put` for results that are one array, the commonest and the one whose speed is felt."""
        if type(result) is not np.ndarray or result.shape != self._shape or result.dtype != self._dtype:
            return False
        self._slot[i] = result
        return True

    def rows(self, size: int) -> list[Any]:
        """The first rows, one by one."""
        return Block.of_columns(self._structure, [slot[:size] for slot in self._slots], size).rows()

    def block(self, size: int, positions: np.ndarray | None) -> Block:
        return Block.of_columns(self._structure, self._slots, size, positions)
