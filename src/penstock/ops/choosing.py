"""Choosing: the next element of one of several inputs, as a selector says.

What `choose_from_datasets`, `sample_from_datasets` and `rejection_resample` share. A selector gives numbers of inputs;
`ChoosingCursor` pulls as many elements from each input as were chosen of it, all at once, and puts them in the order of
the choices. Which elements come out does not depend on how many are asked for at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..block import Block
from ..cursor import END_OF_INPUT, Cursor, State, expect_list
from ..element import Failed
from ..errors import BadArgument, BadType, OutOfRange
from ..leaf import is_dataset
from ..memory.transit import MOST_SINGLY
from ..plan.op import Context
from ..spec import INFINITE, UNKNOWN, Spec, merge
from .randomness import uniforms
from .weaving import unnumbered

__all__ = ["Choices", "ChoosingCursor", "Selector", "WeightedSelector", "chosen_spec", "dataset_list"]

#: Choices in a row that may fall on inputs which have ended; more is taken for a choice that never falls elsewhere.
MOST_MISSES = 1 << 24


def dataset_list(datasets: Any) -> list[Any]:
    """The `datasets` argument, checked."""
    if is_dataset(datasets) or not isinstance(datasets, Iterable):
        raise BadType(f"datasets: expected a list of datasets, got {type(datasets).__name__} {datasets!r:.60}")
    found = list(datasets)
    if not found:
        raise BadArgument("datasets: expected at least one, got none")
    for i, dataset in enumerate(found):
        if not is_dataset(dataset):
            raise BadType(f"datasets: expected datasets, got {type(dataset).__name__} {dataset!r:.60} as number {i}")
    return found


def chosen_spec(inputs: Sequence[Spec]) -> Spec:
    """What elements of any of the inputs have in common. How many there will be depends on the choices."""
    element = inputs[0].element
    for spec in inputs[1:]:
        element = merge(element, spec.element)
    return Spec(element, INFINITE if any(spec.cardinality == INFINITE for spec in inputs) else UNKNOWN)


class Choices(NamedTuple):
    """Some choices in a row: numbers of inputs, and -1 where a choice itself failed."""

    numbers: np.ndarray
    failures: dict[int, Failed]


class Selector(Protocol):
    """Says which input the next elements come from."""

    endless: bool

    def next(self, n: int, live: np.ndarray) -> Choices | None:
        """The next 1 to n choices, or None at the end. `live` tells which inputs have not ended."""

    def state(self) -> State: ...

    def restore(self, state: State) -> None: ...

    def close(self) -> None: ...


class WeightedSelector:
    """Chooses at random, each input by its weight. Its position is one integer."""

    endless = True

    def __init__(self, context: Context, weights: Sequence[float], key: int) -> None:
        cumulative = np.cumsum(np.asarray(weights, np.float64))
        self._bounds = cumulative[:-1] / cumulative[-1]
        self._context = context
        self._key = key
        self._step = 0

    def next(self, n: int, live: np.ndarray) -> Choices | None:
        if live.all():
            numbers = self._drawn(n)
            self._step += n
            return Choices(numbers, {})
        return Choices(self._hits(n, live), {})

    def _drawn(self, n: int) -> np.ndarray:
        return np.searchsorted(self._bounds, uniforms(self._key, self._step, n), side="right")

    def _hits(self, n: int, live: np.ndarray) -> np.ndarray:
        """The next n choices that fall on inputs which have not ended; those between are passed over."""
        found: list[np.ndarray] = []
        missing, misses, chunk = n, 0, max(n, 64)
        while missing:
            numbers = self._drawn(chunk)
            hits = np.flatnonzero(live[numbers])[:missing]
            found.append(numbers[hits])
            missing -= hits.size
            self._step += int(hits[-1]) + 1 if not missing else chunk
            misses = 0 if hits.size else misses + chunk
            if misses > MOST_MISSES:
                raise never_chosen(self._context, misses, live)
            chunk = min(2 * chunk, 1 << 16)
        return np.concatenate(found)

    def state(self) -> State:
        return self._step

    def restore(self, state: State) -> None:
        self._step = int(state)

    def close(self) -> None:
        """Holds nothing."""


def never_chosen(context: Context, misses: int, live: np.ndarray) -> Exception:
    """Why a run that cannot go on was ended."""
    left = np.flatnonzero(live).tolist()
    return context.located(
        OutOfRange(
            f"{misses:_} choices in a row fell on datasets that have ended, and none on those left (numbers {left}); "
            "use stop_on_empty_dataset=True, or choices that come to an end"
        )
    )


#: Takes some elements from an input: what there was (nothing, where they are skipped), and how many.
_Take = Callable[[Cursor, int], tuple[list[Block], int]]


class _Found(NamedTuple):
    """What some choices led to: blocks by input with the places that they fill, and how many places there are."""

    parts: list[tuple[list[Block], np.ndarray]]
    failures: list[tuple[int, Failed]]
    size: int


class ChoosingCursor(Cursor):
    """Elements of several inputs in the order that a selector chooses.

    An input that has ended ends the whole (`stop_on_empty`), or is passed over from then on.
    """

    __slots__ = ("_context", "_each_bytes", "_ended", "_inputs", "_live", "_misses", "_selector", "_stop_on_empty")

    def __init__(self, context: Context, selector: Selector, inputs: list[Cursor], stop_on_empty: bool) -> None:
        self._context = context
        self._selector = selector
        self._inputs = inputs
        self._live = np.ones(len(inputs), np.bool_)
        self._stop_on_empty = stop_on_empty
        self._ended = False
        self._misses = 0
        self._each_bytes = 0  # of an element, in the block with the largest

    def pull(self, n: int) -> Block | None:
        found = self._next(self._at_a_time(n), _pulled)
        if found is None:
            return None
        block = self._joined(found)
        self._each_bytes = max(1, self._each_bytes, block.nbytes // block.size)
        return block

    def _at_a_time(self, n: int) -> int:
        """How many to take: an input that gives fewer than asked is asked again, and what it gave is on no account."""
        if not self._each_bytes:  # the first comes alone
            return 1
        return max(1, min(n, MOST_SINGLY, self._context.share.spare_bytes // self._each_bytes))

    def skip(self, n: int) -> int:
        skipped = 0
        while skipped < n:
            found = self._next(n - skipped, _skipped)
            if found is None:
                break
            skipped += found.size
        return skipped

    def _next(self, n: int, take: _Take) -> _Found | None:
        """What the next choices lead to, at least one element; None at the end."""
        while not self._ended:
            choices = self._selector.next(n, self._live)
            if choices is None:
                self._ended = True
                break
            found = self._followed(choices, take)
            if found.size:
                self._misses = 0
                return found
            self._misses += choices.numbers.size
            if self._misses > MOST_MISSES and self._selector.endless and not self._ended:
                raise never_chosen(self._context, self._misses, self._live)
        return None

    def _followed(self, choices: Choices, take: _Take) -> _Found:
        numbers, failures = choices
        filled = np.zeros(numbers.size, np.bool_)
        filled[list(failures)] = True
        parts: list[tuple[list[Block], np.ndarray]] = []
        ends: list[int] = []
        for number in np.flatnonzero(np.bincount(numbers + 1)[1:]).tolist():
            if not self._live[number]:
                continue
            places = np.flatnonzero(numbers == number)
            blocks, count = take(self._inputs[number], places.size)
            filled[places[:count]] = True
            parts.append((blocks, places[:count]))
            if count < places.size:
                self._live[number] = False
                self._inputs[number].close()
                ends.append(int(places[count]))
        if ends and (self._stop_on_empty or not self._live.any()):
            self._ended = True
            filled[min(ends) if self._stop_on_empty else max(ends) :] = False
        if filled.all():
            return _Found(parts, list(failures.items()), numbers.size)
        target = np.cumsum(filled) - 1
        parts = [(blocks, target[places[filled[places]]]) for blocks, places in parts]
        kept = [(int(target[place]), failed) for place, failed in failures.items() if filled[place]]
        return _Found(parts, kept, int(target[-1]) + 1)

    def _joined(self, found: _Found) -> Block:
        blocks = [block for blocks, _ in found.parts for block in blocks]
        if len(blocks) == 1 and not found.failures and blocks[0].size == found.size:
            return unnumbered(blocks[0])  # positions number the elements of one input only
        if not found.failures and _stackable(blocks):
            return self._columns(found, blocks[0])
        rows: list[Any] = [None] * found.size
        for place, failed in found.failures:
            rows[place] = failed
        for blocks, places in found.parts:
            each = iter([row for block in blocks for row in block.rows()])
            for place, row in zip(places.tolist(), each, strict=False):
                rows[place] = row
        return Block.of_rows(rows)

    def _columns(self, found: _Found, like: Block) -> Block:
        empty = self._context.arena.empty
        columns = [empty((found.size, *column.shape[1:]), column.dtype) for column in like.columns or ()]
        for blocks, places in found.parts:
            start = 0
            for block in blocks:
                here = places[start : start + block.size]
                for column, part in zip(columns, block.columns or (), strict=True):
                    column[here] = part[: here.size]
                start += block.size
        return Block.of_columns(like.structure, columns, found.size)

    def state(self) -> State:
        each = zip(self._inputs, self._live, strict=True)
        inputs = [cursor.state() if live else END_OF_INPUT for cursor, live in each]
        return [int(self._ended), self._selector.state(), inputs]

    def restore(self, state: State) -> None:
        ended, selector, inputs = expect_list(state, 3)
        self._ended = bool(ended)
        self._selector.restore(selector)
        for i, below in enumerate(expect_list(inputs, len(self._inputs))):
            if below == END_OF_INPUT:
                self._live[i] = False
                self._inputs[i].close()
            else:
                self._inputs[i].restore(below)

    def close(self) -> None:
        self._selector.close()
        for cursor in self._inputs:
            cursor.close()


def _pulled(cursor: Cursor, n: int) -> tuple[list[Block], int]:
    blocks: list[Block] = []
    count = 0
    while count < n and (block := cursor.pull(n - count)) is not None:
        blocks.append(block)
        count += block.size
    return blocks, count


def _skipped(cursor: Cursor, n: int) -> tuple[list[Block], int]:
    return [], cursor.skip(n)


def _stackable(blocks: list[Block]) -> bool:
    """Whether blocks can be written into the same columns as they are."""
    first = blocks[0]
    if first.columns is None:
        return False
    like = [(column.shape[1:], column.dtype) for column in first.columns]
    for block in blocks[1:]:
        if block.columns is None or not first.structure.same_layout(block.structure):
            return False
        if [(column.shape[1:], column.dtype) for column in block.columns] != like:
            return False
    return True
