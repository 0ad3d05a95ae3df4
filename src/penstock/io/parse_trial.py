"""Finding out what a user's function does with a record: a copy of it is called with a stand-in for one.

`parse_single_example` on trial returns stand-ins for the values. Whatever else is done with any of them (a look at its
length, its type, a sum, a comparison), or with things outside the function (see `outside`), is refused and makes the
function one that runs as it is written. A function that returns nothing but stand-ins, in tuples and dicts, parses and
picks: it can be called on many records at once, as long as what it refers to stays as it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from ..element import LEAF, Structure
from .outside import call_on_trial
from .stand_ins import RecordStandIn, Touched, Trial, ValueStandIn
from .surroundings import Surroundings

__all__ = ["Parsing", "parsing_of"]


@dataclasses.dataclass(frozen=True)
class Parsing:
    """What a function was seen to do.

    Attributes:
        features: What it parses, by name, as given.
        structure: The nest that it returns.
        names: The features in that nest, leaf by leaf.
        surroundings: What it refers to: it does the same while these are the same.
    """

    features: Mapping[str, Any]
    structure: Structure
    names: tuple[str, ...]
    surroundings: Surroundings


def parsing_of(function: Callable[..., Any]) -> Parsing | None:
    """What a function of a record does, if it parses and picks; None if it does anything else."""
    trial = Trial()
    try:
        result = call_on_trial(trial, function, (RecordStandIn(trial),), {})
        if trial.touched or trial.features is None:
            return None
        names: list[str] = []
        # A list that a function returns is a tuple of components.
        structure = _structure_of(tuple(result) if type(result) is list else result, trial, names)
        return Parsing(trial.features, structure, tuple(names), trial.surroundings) if names else None
    except KeyboardInterrupt:
        raise
    except BaseException:  # whatever it is, it will be raised, or not, when the function runs as written
        return None


def _structure_of(result: Any, trial: Trial, names: list[str]) -> Structure:
    """The nest of what was returned; the names of its leaves are added as they come."""
    if type(result) is ValueStandIn:
        names.append(trial.names[id(result)])
        return LEAF
    if type(result) is tuple and result:
        keys, parts = tuple(range(len(result))), list(result)
    elif type(result) is dict and result:
        keys, parts = tuple(result), list(result.values())
    else:
        raise Touched("something else was returned")
    return Structure(type(result), keys, tuple([_structure_of(part, trial, names) for part in parts]))
