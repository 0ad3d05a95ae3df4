"""Advice: what to name when a run has no more room, in memory or on disk, judged by what was seen until then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..memory.divide import divide
from ..memory.ledger import Ledger, Share
from ..plan.footprint import Measured
from ..plan.node import Node
from .meter import Meter

__all__ = ["advice", "expected_on_disk"]

_MOST_GROWTH = 8


def advice(
    plan: Node,
    ledger: Ledger,
    shares: Mapping[int, Share],
    meters: Mapping[int, Meter],
    measured_of: Callable[[Node], Measured],
    refused: Share,
    one_bytes: int,
) -> int:
    """The smallest budget that works, as far as can be told from what was seen so far.

    `one_bytes` is what a stage was refused for one thing, which nobody has seen yet.
    """
    expected = _expected(plan, shares, meters, measured_of, refused, one_bytes)
    division = divide(plan, lambda node: expected[id(node)])
    needed = division.minimum_bytes
    # Of what goes in, where nothing came out yet: as much will, as long as nobody knows better.
    needed += sum(2 * need.input_bytes for need in division.needs if need.footprint.floor_bytes is None)
    # What others have on their way is given up for nobody, and there will be as much of it again.
    floors = {id(need.node): need.floor_bytes for need in division.needs}
    needed += sum(max(0, s.charged_bytes - floors[key]) for key, s in shares.items() if s is not refused)
    # Threads that read datasets of its own may each be making one as large beside one that waits: none gives that up.
    needed += 2 * min(refused.num_ahead, refused.num_datasets) * one_bytes
    # Of a source that has read, and given nothing yet: what comes of it is as large again, and there twice at a time.
    if not any(meter.num_elements for meter in meters.values()) and refused.charged_bytes:
        needed += 2 * (refused.charged_bytes + one_bytes)
    # Twice what there is: less would be refused again and again where few elements are far larger than the others.
    advised = max(needed, 2 * ledger.budget_bytes)
    # Where they keep growing, those to come are larger still: by as much again as they have grown, and more. That much
    # of the budget, or a little more: what is needed may have been judged by the largest already.
    growth = max(meter.growth for meter in meters.values())
    grows = min(max(needed, ledger.budget_bytes), 1.25 * ledger.budget_bytes)
    return max(advised, int(grows * min(_MOST_GROWTH, growth * growth)))


def _expected(
    plan: Node,
    shares: Mapping[int, Share],
    meters: Mapping[int, Meter],
    measured_of: Callable[[Node], Measured],
    refused: Share,
    one_bytes: int,
) -> dict[int, Measured]:
    """What stages were seen to give and to hold, and what they will once the one that was refused has come to them."""
    seen_of = {id(node): measured_of(node) for node in plan.walk()}
    one = next((node for node in plan.walk() if shares[id(node)] is refused), None) if one_bytes else None
    on_its_way = set() if one is None else _below_and_above(one, plan)
    before = 0 if one is None else seen_of[id(one)].element_bytes
    after = _with_refused(before, refused, one_bytes)
    expected: dict[int, Measured] = {}
    growths: dict[int, float] = {}  # how much larger the one that is on its way is than all before
    for node in plan.walk():
        seen, share, meter = seen_of[id(node)], shares[id(node)], meters[id(node)]
        came_of = [_largest_come(meters[id(child)], meter) or seen_of[id(child)].element_bytes for child in node.inputs]
        comes_of = [expected[id(child)].element_bytes for child in node.inputs]
        came, comes = sum(came_of), sum(comes_of)
        growth = max([1.0, *[growths[id(child)] for child in node.inputs]])
        for one_came, one_comes in zip(came_of, comes_of, strict=True):
            # Of an input that gave nothing yet: than what the others gave, of which it made what it did.
            before_it = one_came or max(came_of)
            growth = max(growth, one_comes / before_it if before_it else 1.0)
        largest = seen.element_bytes
        if node is one:
            largest = after
        elif growth > 1 or comes > came:
            made = meter.largest_before(1)
            # Nobody knows what a function makes of it; as much of each byte as before, say. Others gather what comes,
            # or take it apart: there are more rows then, and those are as they were.
            if node.op.spec_is_hidden:
                largest = max(largest, int(made * growth))
            elif not node.op.traits.takes_rows:
                largest = max(largest, made + comes - came)
            else:
                growth = 1.0
        elif one is not None and id(node) not in on_its_way and _is_alike(node, largest, before):
            largest = max(largest, after)  # another source may have as large a one
        growths[id(node)] = max(growth, largest / (seen.element_bytes or max(1, largest)))
        more = max(0, comes - came) + largest - seen.element_bytes
        expected[id(node)] = seen._replace(
            element_bytes=largest,
            held_bytes=max(seen.held_bytes + more if seen.held_bytes else 0, share.expects()),
            typical_bytes=meter.typical_bytes,
        )
    return expected


def _largest_come(meter: Meter, consumer: Meter) -> int:
    """The largest element of which a consumer has made something: the last may have been too much for it."""
    return meter.largest_before(-(-meter.num_pulls // max(1, consumer.num_pulls)))


def _below_and_above(one: Node, plan: Node) -> set[int]:
    """A stage, those that its elements come from, and those that they go to."""
    above = {id(node) for node in plan.walk() if any(below is one for below in node.walk())}
    return above | set(map(id, one.walk()))


def _is_alike(node: Node, nbytes: int, other_bytes: int) -> bool:
    """Whether its elements are about as large as others, as far as is known: a source may not have been read yet."""
    return other_bytes // 2 <= nbytes <= 2 * other_bytes if nbytes else not node.inputs


def _with_refused(largest_bytes: int, refused: Share, one_bytes: int) -> int:
    """How large an element is that was refused so much, beyond what was reserved for one like those before."""
    return max(largest_bytes, one_bytes + min(refused.charged_bytes, largest_bytes * 5 // 4))


def expected_on_disk(plan: Node, measured: Sequence[Measured]) -> int | None:
    """What the stages of a plan may have on disk together, with next to none of it in memory; None if unknown.

    `measured` is what each stage gave and held so far, sources first.
    """
    seen = {id(node): one for node, one in zip(plan.walk(), measured, strict=True)}
    needs = divide(plan, lambda node: seen[id(node)]).needs
    held = [need.footprint.held_bytes for need in needs if need.footprint.spills]
    return None if None in held else sum(nbytes or 0 for nbytes in held)
