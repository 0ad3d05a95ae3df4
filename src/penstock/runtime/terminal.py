"""What ends a pipeline in a value: `reduce` and `get_single_element`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..element import Structure, normalize
from ..errors import BadType, OutOfRange, SpecMismatch
from ..leaf import dtype_of, is_dataset
from ..plan.node import caller_origin
from ..plan.op import show
from ..spec import describe, spec_of
from .run import Run

__all__ = ["reduce", "single_element"]


def reduce(run: Run, initial_state: Any, reduce_func: Callable[[Any, Any], Any]) -> Any:
    """Folds what a run delivers into one value; the first error ends it.

    States must agree with the initial one in structure and dtypes; shapes may change. As in tf.data tuples, lists and
    namedtuples stand for each other: the result has the structure of `initial_state`.
    """
    if not callable(reduce_func):
        raise BadType(f"reduce_func: expected a function, got {type(reduce_func).__name__} {reduce_func!r:.60}")
    state = normalize(initial_state)
    structure = Structure.of(state)
    leaves = structure.flatten(state)
    if not leaves or any(leaf is None or is_dataset(leaf) for leaf in leaves):
        raise BadType(f"initial_state: expected arrays, numbers or strings, got {initial_state!r:.60}")
    dtypes = [dtype_of(leaf) for leaf in leaves]
    origin = caller_origin()
    for place, element in enumerate(run):
        try:
            result = reduce_func(state, element)
        except Exception as error:
            error.add_note(f"in reduce({show(reduce_func)}) at {origin}, element {place}")
            raise
        if type(result) is type(state) and isinstance(result, np.generic):
            state = result
        else:
            state = _next_state(structure, dtypes, state, result)
    return state


def _next_state(structure: Structure, dtypes: list[np.dtype[Any]], state: Any, result: Any) -> Any:
    element = normalize(tuple(result) if isinstance(result, list) else result)
    found = Structure.of(element)
    if found == structure:
        leaves = structure.flatten(element)
    elif found.num_leaves == structure.num_leaves and _is_tuples(found) and _is_tuples(structure):
        leaves = found.flatten(element)
    else:
        raise SpecMismatch(f"reduce_func: expected a state like {describe(spec_of(state))}, got {found}")
    if [dtype_of(leaf) for leaf in leaves] != dtypes or any(leaf is None for leaf in leaves):
        raise SpecMismatch(
            f"reduce_func: expected a state like {describe(spec_of(state))}, got {describe(spec_of(element))}: "
            "dtypes must stay as they are"
        )
    return structure.unflatten(leaves)


def _is_tuples(structure: Structure) -> bool:
    """Whether a nest has no names that could differ: leaves and tuples of any kind."""
    if structure.kind is None:
        return True
    named = issubclass(structure.kind, Mapping) or not issubclass(structure.kind, tuple)
    return not named and all(map(_is_tuples, structure.children))


def single_element(run: Run) -> Any:
    """The only element that a run delivers."""
    try:
        element = next(run)
    except StopIteration:
        raise OutOfRange("expected exactly 1 element, got 0") from None
    for _ in run:
        raise OutOfRange("expected exactly 1 element, got at least 2; use take(1) for the first of several")
    return element
