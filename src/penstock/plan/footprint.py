"""What an operator will hold, worked out before it runs.

`Op.footprint(sizes)` answers with two numbers: what it likes to hold, and the *floor*, the least with which it goes on
at all. Sizes of elements come from specs, or from a sample that was run, or are not known.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from ..memory.arena import slot_bytes
from ..memory.singly import objects_per_element
from ..spec import UNSEEN, spec_leaves

__all__ = [
    "ElementSize",
    "Footprint",
    "Measured",
    "Sizes",
    "held_singly",
    "laid_in_one",
    "of_calls",
    "of_typical",
    "one_element",
    "several",
    "times",
]

# What was measured on some elements may be exceeded by others.
_MARGIN = 1.25


@dataclasses.dataclass(frozen=True)
class ElementSize:
    """Bytes of the leaves of one element.

    Attributes:
        leaves: Bytes of each leaf.
        exact: Whether all elements have these sizes; else they are the largest of a sample.
        is_view: Whether to hold such an element costs nothing, as its arrays are views of the user's.
        typical_bytes: What one takes on average, where that may be less by far; 0 where all count as the largest.
    """

    leaves: tuple[int, ...]
    exact: bool
    is_view: bool = False
    typical_bytes: int = 0

    @classmethod
    def of_spec(cls, spec: Any) -> ElementSize | None:
        """What a spec says; None where it leaves a size open."""
        if spec is UNSEEN:
            return None
        sizes = [leaf.nbytes for leaf in spec_leaves(spec)]
        return None if None in sizes else cls(tuple(sizes), exact=True)

    def as_copy(self) -> ElementSize:
        """The size of such an element that was read from disk: it is no view of the user's arrays any more."""
        return dataclasses.replace(self, is_view=False) if self.is_view else self

    def joined(self, other: ElementSize) -> ElementSize:
        """The larger of two sizes, leaf by leaf."""
        exact = self.exact and other.exact
        is_view = self.is_view and other.is_view
        if len(self.leaves) != len(other.leaves):
            return ElementSize((max(sum(self.leaves), sum(other.leaves)),), exact, is_view)
        typical = max(self.typical_bytes, other.typical_bytes) if self.typical_bytes and other.typical_bytes else 0
        return ElementSize(tuple(map(max, self.leaves, other.leaves)), exact, is_view, typical)

    def stacked(self, count: int) -> ElementSize:
        """The size of a batch of such elements, each of them as large as any."""
        return ElementSize(tuple(count * leaf for leaf in self.leaves), self.exact)

    def gathered(self, count: int) -> ElementSize:
        """The size of so many such elements together, each as large as it is."""
        most, nbytes = self.stacked(count), sum(self.leaves)
        if not self.typical_bytes or count < 1:
            return most
        return most.at_most(nbytes + (count - 1) * min(nbytes, self.typical_bytes))

    def at_most(self, nbytes: int) -> ElementSize:
        """The same if all leaves together are no larger than this, else so much of each that they are."""
        total = sum(self.leaves)
        if total <= nbytes:
            return self
        return dataclasses.replace(self, leaves=tuple(-(-leaf * nbytes // total) for leaf in self.leaves))

    @property
    def nbytes(self) -> int:
        """Bytes to reserve for one element."""
        return sum(self.leaves) if self.exact else int(sum(self.leaves) * _MARGIN)

    def slots(self, count: int) -> int:
        """Bytes of the slots for so many elements, each leaf stacked in its own."""
        margin = 1 if self.exact else _MARGIN
        stacked = [int(count * leaf * margin) for leaf in self.leaves]
        return sum(slot_bytes(nbytes) or nbytes for nbytes in stacked)


class Measured(NamedTuple):
    """What a stage was seen to do: the largest element that it gave, and what it held at most.

    `temporary_bytes` is the most that a call of its function took beside its result; None where that was not measured.
    `operator` names the stage. `typical_bytes` is what its elements take on average, where that is of interest.
    `needed_bytes` is what it held at most when it had to make do with as little as possible, in a sample.
    `num_elements` is how many it gave until there were no more; None where the end was not seen.
    `staying_bytes` is the most that it held and that disk cannot hold, of one that puts the rest there: errors.
    """

    element_bytes: int = 0
    held_bytes: int = 0
    temporary_bytes: int | None = None
    operator: str = ""
    typical_bytes: int = 0
    needed_bytes: int = 0
    num_elements: int | None = None
    staying_bytes: int = 0


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What is known of the elements that go into a stage and come out of it.

    Attributes:
        inputs: The size of an element of each input; None where it is not known.
        output: The size of an element that it gives.
        counts: How many elements each input has, or was seen to have, or `UNKNOWN`, or `INFINITE`.
        specs: What is known of the elements of each input otherwise.
        held_bytes: What the stage held in a sample, at most; 0 where none was run. For operators whose need follows
            from the data.
        stacked: Of each input, whether it gives its elements stacked; else each is an object of its own.
        needed_bytes: What the stage held in a sample that made do with as little as possible; 0 where none was run.
        is_all_seen: Whether the sample has seen its inputs to their end, and they are the same in every epoch.
        staying_bytes: What the stage was seen to hold, at most, that disk cannot hold.
    """

    inputs: tuple[ElementSize | None, ...]
    output: ElementSize | None
    counts: tuple[int, ...]
    specs: tuple[Any, ...]
    held_bytes: int = 0
    stacked: tuple[bool, ...] = ()
    needed_bytes: int = 0
    is_all_seen: bool = False
    staying_bytes: int = 0

    def at_least_as_seen(self, nbytes: int | None) -> int | None:
        """What an operator needs by its arguments, or held in a sample if that is more."""
        seen = int(self.held_bytes * _MARGIN)
        return seen or None if nbytes is None else max(nbytes, seen)

    def at_least_as_sampled(self, nbytes: int | None) -> int | None:
        """What an operator needs that holds a given number of elements.

        Of a known size they take so much and no more. Of others `nbytes` is for one of the largest among those that
        are common; in a sample there may have been more large ones at a time, or never as many at all.
        """
        if nbytes is None or not self.needed_bytes or (self.input is not None and self.input.exact):
            return nbytes
        sampled = int(self.needed_bytes * _MARGIN)
        return sampled if self.is_all_seen else max(nbytes, sampled)

    def beside_what_stays(self, nbytes: int) -> int:
        """What an operator needs that puts elements on disk, but for those that cannot lie there."""
        return nbytes + int(self.staying_bytes * _MARGIN)

    @property
    def input(self) -> ElementSize | None:
        return self.inputs[0]

    @property
    def count(self) -> int:
        return self.counts[0]

    @property
    def is_stacked(self) -> bool:
        return self.stacked[:1] == (True,)


@dataclasses.dataclass(frozen=True)
class Footprint:
    """Bytes that an operator holds, and why.

    Attributes:
        held_bytes: What it holds when the budget allows; None where that is not known before it runs.
        reason: What it is made of.
        floor_bytes: The least with which it can go on; None where that is not known before it runs.
        spills: Whether what does not fit goes to disk.
        known_bytes: What it needs in any case, where it is not known how much that makes with the rest.
    """

    held_bytes: int | None
    reason: str
    floor_bytes: int | None = 0
    spills: bool = False
    known_bytes: int = 0

    def multiplied(self, count: int) -> Footprint:
        """That of so many cursors of the operator at a time."""
        held, floor = (None if nbytes is None else count * nbytes for nbytes in (self.held_bytes, self.floor_bytes))
        return dataclasses.replace(self, held_bytes=held, floor_bytes=floor, known_bytes=count * self.known_bytes)


def times(count: int, size: ElementSize | None, slots: bool = False) -> int | None:
    """Bytes of so many elements, held as they are or copied into slots; None where their size is not known."""
    if size is None or count < 0:
        return None
    if slots:
        return size.slots(count)
    # As they are, they may each lie in a slot of their own.
    return 0 if size.is_view else count * max(size.nbytes, size.slots(1))


def held_singly(count: int, size: ElementSize | None) -> int | None:
    """Bytes of so many elements that are held one by one, with the objects around them."""
    nbytes = several(count, size)
    return None if nbytes is None or size is None else nbytes + count * objects_per_element(len(size.leaves))


def several(count: int, size: ElementSize | None) -> int | None:
    """Bytes of so many elements, of which few are as large as any, where it is known what is common."""
    nbytes = times(count, size)
    return None if nbytes is None or size is None else min(nbytes, of_typical(count, size) or nbytes)


def laid_in_one(count: int, size: ElementSize | None) -> int | None:
    """The same for elements that are copied into slots, one behind the other."""
    nbytes = times(count, size, slots=True)
    if nbytes is None or size is None or not (common := of_typical(count, size)):
        return nbytes
    return min(nbytes, slot_bytes(common) or common)


def of_typical(count: int, size: ElementSize) -> int:
    """Bytes of so many elements, one as large as any and the others as they are on average; 0 where that is unknown."""
    if not size.typical_bytes or count < 1:
        return 0
    return (times(1, size) or 0) + int((count - 1) * size.typical_bytes * _MARGIN)


def one_element(size: ElementSize | None, what: str) -> Footprint:
    """What an operator holds that makes one element after the other."""
    nbytes = times(1, size)
    return Footprint(nbytes, f"one {what} on its way", nbytes)


def of_calls(num_calls: int, sizes: Sizes) -> Footprint:
    """What a function of elements holds that is called in so many threads; 0: in the caller's own, -1: in some."""
    if not num_calls:
        return one_element(sizes.output, "result")
    one, into = times(1, sizes.output), times(1, sizes.input)
    floor = None if one is None or into is None else one + into
    calls = "as many calls as pay" if num_calls < 0 else f"{num_calls} calls"
    held = None if floor is None or num_calls < 0 else 2 * num_calls * floor
    return Footprint(held, f"what {calls} at a time take and return, and as much again waiting", floor)
