"""Calling users' functions the way tf.data does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..block import Block, stack_leaves
from ..element import Failed, Structure, has_dataset, nbytes_of, normalize
from ..ending import Ended
from ..errors import BadType, OverBudget
from ..leaf import as_leaf
from ..memory.singly import num_at_once
from ..options import AUTOTUNE
from ..owned import owned
from ..plan.carried import note_made
from ..plan.op import Context, Room, argument
from .failing import failed
from .stack import Likeness

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


def as_result(value: Any, given: Any = None) -> Any:
    """What a function returned for what it was given, as an element. A list is a tuple of components."""
    kind = type(value)
    if kind is np.ndarray and value.ndim and value.dtype.kind not in "OSUT":
        return value if value.base is None else owned(value, given)
    if kind is tuple and value and all(map(_is_element, value)):
        return value
    element = owned(normalize(tuple(value) if isinstance(value, list) else value), given)
    if has_dataset(element):
        note_made(value, element, given)
    if element is None or (isinstance(element, (tuple, dict)) and not element):
        got = "None; does the function return something?" if element is None else f"an empty {type(element).__name__}"
        raise BadType(f"expected at least one component, got {got}")
    return element


def _is_element(part: Any) -> bool:
    """Whether this is an array of its own, or a number: nothing is to be made of it."""
    if type(part) is np.ndarray:
        return part.base is None and part.ndim > 0 and part.dtype.kind not in "OSUT"
    return isinstance(part, np.number)


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


# Small results are counted together: a look at the account for each would take longer than a small function.
_COUNTED_BYTES = 1 << 16
# Of fewer elements the objects do not matter.
_FEW = 64


class Calls:
    """A user's function as a function of blocks: called on one element after the other.

    `key_argument`, where given, makes a last argument from an element's key (its place in the input, or its number).
    With `into_slot` results are stacked as they are made: arrays are written to their place in a slot at once, and no
    list of them is ever held. Where a block is only a part of a batch, its results are copied once more: then only
    small ones are stacked, for which looking at each would take longer than a copy.
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
        self._like: Likeness | None = None  # what results that were stacked last are like
        self._ending = context.share.ending
        self._uncounted_bytes = min(_COUNTED_BYTES, context.share.budget_bytes // 64)

    def __call__(self, block: Block, place: int) -> Block:
        return self.until_full(block, place, None)

    def until_full(self, block: Block, place: int, room: Room | None) -> Block:
        """What it makes of the first elements of a block, as many as there is room for, one at least.

        What is stacked needs no room but the slot's, which is on the ledger by itself.
        """
        if room is not None and not room.takes_all and block.size > _FEW and block.columns is not None:
            block = block[: num_at_once(block[:1].rows()[0])]  # rows of a table with many columns are many objects
        rows = block.rows()
        keys: Sequence[int] = range(place, place + len(rows))
        if self._numbered and block.positions is not None:
            keys = block.positions.tolist()
        if not self._into_slot or block.has_failures or len(rows) == 1:
            return self._listed([], rows, keys, block, place, room)
        first = self.one(rows[0], keys[0], place, block, 0)
        if isinstance(first, np.generic):
            return self._scalars(first, rows, keys, block, place, room)
        if room is not None:
            nbytes = nbytes_of(first)
            room.add(nbytes)
            if room.is_of_part and nbytes * len(rows) > self._uncounted_bytes:
                return self._listed([first], rows, keys, block, place, room)
        return self._stacked(first, rows, keys, block, place, room)

    def _listed(
        self, results: list[Any], rows: list[Any], keys: Sequence[int], block: Block, place: int, room: Room | None
    ) -> Block:
        """Results as rows, after those that are there already."""
        function, direct = self._function, self._key_argument is None and not block.has_failures
        has_failed = bool(results) or block.has_failures
        uncounted, num_uncounted, failed_bytes = 0, 0, 0
        for i in range(len(results), len(rows)):
            row = rows[i]
            if self._ending.is_near:
                raise Ended
            try:
                if direct:
                    result = function(*row) if type(row) is tuple else function(row)
                else:
                    result = row if type(row) is Failed else self._raw(row, keys[i])
                is_number = isinstance(result, np.number)
                if not is_number:
                    result = result if type(result) is Failed else as_result(result, row)
            except Exception as error:
                result, has_failed, is_number = failed(error, self._context, place + i, block, i), True, False
                failed_bytes += result.error_bytes
            results.append(result)
            if room is not None:
                uncounted += result.nbytes if is_number else nbytes_of(result)
                num_uncounted += 1
                if uncounted > self._uncounted_bytes:
                    has_room = room.add(uncounted, num_uncounted)
                    uncounted = num_uncounted = 0
                    if not has_room:
                        break
                if failed_bytes > self._uncounted_bytes and not room.takes_all:
                    break  # errors on their way are not counted, so that none is refused: there must be few
        if uncounted and room is not None:
            room.add(uncounted, num_uncounted)
        positions = None if block.positions is None else block.positions[: len(results)]
        return Block.of_rows(results, positions, None if has_failed else False)

    def one(self, row: Any, key: int, place: int, block: Block, i: int) -> Any:
        """What it makes of one element, the one number i of a block: `Failed` if it raises."""
        if type(row) is Failed:
            return row
        try:
            result = self._raw(row, key)
            return result if isinstance(result, np.number) else as_result(result, row)
        except Exception as error:
            return failed(error, self._context, place, block, i)

    def _raw(self, row: Any, key: int) -> Any:
        if self._key_argument is None:
            return self._function(*row) if type(row) is tuple else self._function(row)
        parts = row if type(row) is tuple else (row,)
        return self._function(*parts, self._key_argument(key))

    def _scalars(
        self, first: Any, rows: list[Any], keys: Sequence[int], block: Block, place: int, room: Room | None
    ) -> Block:
        """Small results: kept in a list and stacked at the end, which is quicker than a write for each."""
        results, kind = [first], type(first)
        function, append = self._function, results.append
        direct = self._key_argument is None and type(rows[0]) is not tuple
        ending = self._ending
        for i, row in enumerate(rows[1:], 1):
            if ending.is_near:
                raise Ended
            try:
                result = function(row) if direct else self._raw(row, keys[i])
                if type(result) is kind:
                    append(result)
                    continue
                result = as_result(result, row)
            except Exception as error:
                result = failed(error, self._context, place + i, block, i)
            if type(result) is kind:
                append(result)
                continue
            # Something else, and perhaps large: go on with rows, of which each is counted.
            if room is not None:
                room.add(nbytes_of(result))
            return self._listed([*results, result], rows, keys, block, place, room)
        column = stack_leaves(results, self._context.arena.empty)
        if column is None:
            return Block.of_rows(results, block.positions)
        return Block.of_columns(Structure.of(first), [column], len(rows), block.positions)

    def _stacked(
        self, first: Any, rows: list[Any], keys: Sequence[int], block: Block, place: int, room: Room | None
    ) -> Block:
        """Results with arrays in them: each is written to its place in a slot as soon as it is there."""
        like = self._like
        if like is None or not like.has(first):
            like = self._like = None if type(first) is Failed else Likeness.of(first)
        stack = None
        try:
            if like is not None:
                stack = like.stack(len(rows), self._context.arena.empty)
        except OverBudget:  # one by one there may be room
            if room is None:
                raise
        if stack is None:
            return self._listed([first], rows, keys, block, place, room)
        function, put, direct = self._function, stack.putter(), self._key_argument is None
        put(0, first)
        ending = self._ending
        for i in range(1, len(rows)):
            row = rows[i]
            if ending.is_near:
                raise Ended
            try:
                if direct:
                    result = function(*row) if type(row) is tuple else function(row)
                else:
                    result = self._raw(row, keys[i])
                if put(i, result):
                    continue
                result = as_result(result, row)
                if put(i, result):
                    continue
            except Exception as error:
                result = failed(error, self._context, place + i, block, i)
            # One result is unlike the first: go on with rows.
            return self._listed([*stack.rows(i), result], rows, keys, block, place, room)
        return stack.block(len(rows), block.positions)
