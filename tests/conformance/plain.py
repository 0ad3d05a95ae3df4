"""The deterministic operators in plain Python, lists in and lists out: an oracle for pipelines drawn at random."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np


def call(function: Callable[..., Any], element: Any) -> Any:
    return function(*element) if type(element) is tuple else function(element)


def stack(elements: list[Any]) -> Any:
    if isinstance(elements[0], tuple):
        return tuple(stack([element[i] for element in elements]) for i in range(len(elements[0])))
    return np.stack([np.asarray(element) for element in elements])


def rows(element: Any) -> list[Any]:
    if isinstance(element, tuple):
        return list(zip(*(rows(part) for part in element), strict=True))
    return list(element)


def column(elements: list[Any], like: Any) -> Any:
    """A structure of datasets out of a list of structures."""
    if isinstance(like, tuple):
        return tuple(column([element[i] for element in elements], part) for i, part in enumerate(like))
    return Plain(elements)


class Plain:
    """A dataset that is a list."""

    def __init__(self, elements: Iterable[Any]) -> None:
        self.elements = list(elements)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.elements)

    @staticmethod
    def range(*args: int) -> Plain:
        return Plain(np.int64(i) for i in range(*args))

    @staticmethod
    def from_tensor_slices(array: Any) -> Plain:
        return Plain(rows(array))

    @staticmethod
    def from_tensors(element: Any) -> Plain:
        return Plain([element])

    @staticmethod
    def zip(structure: Any) -> Plain:
        if isinstance(structure, Plain):
            return structure
        return Plain(zip(*(Plain.zip(part) for part in structure), strict=False))

    def map(self, function: Callable[..., Any], **_: Any) -> Plain:
        return Plain(call(function, element) for element in self)

    def filter(self, predicate: Callable[..., Any]) -> Plain:
        return Plain(element for element in self if call(predicate, element))

    def flat_map(self, function: Callable[..., Any]) -> Plain:
        return Plain(inner for element in self for inner in call(function, element))

    def interleave(self, function: Callable[..., Any], cycle_length: int, block_length: int = 1, **_: Any) -> Plain:
        waiting, slots, out = iter(self), [None] * cycle_length, []
        at = 0
        while True:
            if slots[at] is None:
                slots[at] = next((iter(call(function, element)) for element in waiting), None)
            if slots[at] is not None:
                block = list(itertools.islice(slots[at], block_length))
                out += block
                if len(block) < block_length:
                    slots[at] = None
            elif all(slot is None for slot in slots):
                return Plain(out)
            at = (at + 1) % cycle_length

    def batch(self, size: int, drop_remainder: bool = False, **_: Any) -> Plain:
        groups = [self.elements[i : i + size] for i in range(0, len(self.elements), size)]
        return Plain(stack(group) for group in groups if len(group) == size or not drop_remainder)

    def unbatch(self) -> Plain:
        return Plain(row for element in self for row in rows(element))

    def window(self, size: int, shift: int | None = None, stride: int = 1, drop_remainder: bool = False) -> Plain:
        starts = range(0, len(self.elements), shift or size)
        windows = [self.elements[start : start + size * stride : stride] for start in starts]
        return Plain(column(window, window[0]) for window in windows if len(window) == size or not drop_remainder)

    def take(self, count: int) -> Plain:
        return Plain(self.elements if count < 0 else self.elements[:count])

    def skip(self, count: int) -> Plain:
        return Plain([] if count < 0 else self.elements[count:])

    def shard(self, num_shards: int, index: int) -> Plain:
        return Plain(self.elements[index::num_shards])

    def repeat(self, count: int) -> Plain:
        return Plain(self.elements * count)

    def enumerate(self, start: int = 0) -> Plain:
        return Plain((np.int64(i), element) for i, element in enumerate(self, start))

    def concatenate(self, other: Plain) -> Plain:
        return Plain([*self, *other])

    def take_while(self, predicate: Callable[..., Any]) -> Plain:
        return Plain(itertools.takewhile(lambda element: call(predicate, element), self))

    def scan(self, state: Any, function: Callable[[Any, Any], tuple[Any, Any]]) -> Plain:
        out = []
        for element in self:
            state, item = function(state, element)
            out.append(item)
        return Plain(out)

    def cache(self) -> Plain:
        return self

    def prefetch(self, size: int) -> Plain:
        return self
