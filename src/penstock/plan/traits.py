"""Traits: what rules and the lowering may ask of an operator.

Nobody outside an operator's own file asks for its class; a rule asks what it needs to know.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

__all__ = ["COLLATES", "CURSOR", "NESTS", "SOURCE", "TAKES_ROWS", "Runtime", "Traits"]

#: How an operator runs: a random-access source, arithmetic on an Order, a function of blocks, or a cursor of its own.
Runtime = Literal["source", "order", "elementwise", "cursor"]


@dataclasses.dataclass(frozen=True)
class Traits:
    """Answers an operator gives about itself.

    Attributes:
        runtime: Which of the four ways it runs in.
        one_to_one: Each input element gives exactly one output element, at the same place.
        pure: What it gives for an element depends on that element alone, so order may move past it.
        keyed: What it gives depends on the element and its place in the input (`random_map`, `enumerate`): order may
            move past it if places are numbered below.
        moves_below_map: An order operator that gives the same result below a pure one-to-one operator as above it.
        by_place: An order operator whose result depends on how many elements came before, so that it stays above one
            that goes by successes.
        tells_failures: A `take` was moved below it, and must hear how many of the elements it gave failed here.
        needs_index: An order operator that reaches for elements far apart, so that a source which must look for its
            elements first should do so.
        equal_parts: It gives a part of its input that should have as many batches as the parts of other processes.
        takes_rows: How many elements it gives goes by the rows of those that it takes (`unbatch`, `rebatch`).
        ends_by_value: It may end before its input does, by what is in an element (`take_while`).
        draws_places: It chooses among places before their elements exist (`shuffle`).
        live: Elements may take as long as they like to come (a generator): never pulled ahead of demand.
        num_parallel_calls: Threads asked for; 0 for none.
        deterministic: Whether parallel calls keep the order; None leaves it to the options.
        fills: How many results its calls write side by side, all threads into one block; 0 if each thread has its own.
        run_ahead: Elements to make ready before they are asked for; 0 for none.
        collates: It stacks its input elements, and gladly takes them stacked already.
        keeps: What it gave it may give again (`cache`, and datasets that functions return, which may have one): who
            writes to that changes later epochs.
        passes_columns: Gives its input's elements as they came, so that who stacks them may stand further down.
    """

    runtime: Runtime = "cursor"
    one_to_one: bool = False
    pure: bool = False
    keyed: bool = False
    moves_below_map: bool = False
    by_place: bool = False
    tells_failures: bool = False
    draws_places: bool = False
    equal_parts: bool = False
    takes_rows: bool = False
    ends_by_value: bool = False
    needs_index: bool = False
    live: bool = False
    num_parallel_calls: int = 0
    deterministic: bool | None = None
    fills: int = 0
    run_ahead: int = 0
    collates: bool = False
    keeps: bool = False
    passes_columns: bool = False


# Constants, because small datasets are made by the thousand inside `flat_map`.
#: What a random-access source answers.
SOURCE = Traits(runtime="source")
#: What an operator answers that has nothing to say.
CURSOR = Traits()
#: What one answers that makes batches.
COLLATES = Traits(collates=True)
#: What one answers that takes batches apart.
TAKES_ROWS = Traits(takes_rows=True)
#: What one answers that reads datasets which a function returns: nobody knows what is in them.
NESTS = Traits(keeps=True)
