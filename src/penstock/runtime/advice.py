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

    def measured(node: Node) -> Measured:
        seen, share, meter = measured_of(node), shares[id(node)], meters[id(node)]
        largest = seen.element_bytes
        if share is refused and one_bytes:  # beyond what was reserved for one like those before
            largest = max(largest, one_bytes + min(share.charged_bytes, largest * 5 // 4))
        return seen._replace(
            element_bytes=largest,
            held_bytes=max(seen.held_bytes, share.expects()),
            typical_bytes=meter.typical_bytes,
        )

    division = divide(plan, measured)
    needed = division.minimum_bytes
    # Of what goes in, where nothing came out yet: as much will, as long as nobody knows better.
    needed += sum(2 * need.input_bytes for need in division.needs if need.footprint.floor_bytes is None)
    # What others have on their way is given up for nobody, and there will be as much of it again.
    floors = {id(need.node): need.floor_bytes for need in division.needs}
    needed += sum(max(0, s.charged_bytes - floors[key]) for key, s in shares.items() if s is not refused)
    # Threads that read datasets of its own may each be making one as large beside one that waits: none gives that up.
    needed += 2 * min(refused.num_ahead, refused.num_datasets) * one_bytes
    # Twice what there is: less would be refused again and again where few elements are far larger than the others.
    advised = max(needed, 2 * ledger.budget_bytes)
    # Where they keep growing, those to come are larger still: by as much again as they have grown, and more. That much
    # of the budget, or a little more: what is needed may have been judged by the largest already.
    growth = max(meter.growth for meter in meters.values())
    grows = min(max(needed, ledger.budget_bytes), 1.25 * ledger.budget_bytes)
    return max(advised, int(grows * min(_MOST_GROWTH, growth * growth)))


def expected_on_disk(plan: Node, measured: Sequence[Measured]) -> int | None:
    """What the stages of a plan may have on disk together, with next to none of it in memory; None if unknown.

    `measured` is what each stage gave and held so far, sources first.
    """
    seen = {id(node): one for node, one in zip(plan.walk(), measured, strict=True)}
    needs = divide(plan, lambda node: seen[id(node)]).needs
    held = [need.footprint.held_bytes for need in needs if need.footprint.spills]
    return None if None in held else sum(nbytes or 0 for nbytes in held)
