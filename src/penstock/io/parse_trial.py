"""Finding out what a user's function does with a record: it is called once with a stand-in for one.

`parse_single_example` knows the stand-in and returns stand-ins for the values. Whatever else is done with any of them
(a look at its length, its type, a sum, a comparison) is refused, noted, and makes the function one that runs as it is
written, even if it catches the refusal. A function that returns nothing but stand-ins, in tuples and dicts, parses and
picks: it can be called on many records at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from ..element import LEAF, Structure

__all__ = ["Parsing", "RecordStandIn", "parsed_stand_in", "parsing_of"]


@dataclasses.dataclass(frozen=True)
class Parsing:
    """What a function was seen to do.

    Attributes:
        features: What it parses, by name, as given.
        structure: The nest that it returns.
        names: The features in that nest, leaf by leaf.
    """

    features: Mapping[str, Any]
    structure: Structure
    names: tuple[str, ...]


class _Touched(Exception):
    """A stand-in was used as if it were a value."""


class _Trial:
    """One call: what was parsed, and whether anything else was done."""

    def __init__(self) -> None:
        self.features: Mapping[str, Any] | None = None
        self.values: list[Any] = []  # kept, so that their ids stay theirs
        self.names: dict[int, str] = {}
        self.touched = False

    def refuse(self) -> NoReturn:
        self.touched = True
        raise _Touched("a stand-in for a record, or for a value of one, has no value")


def _refusing(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    trial: _Trial = object.__getattribute__(self, "_trial")
    trial.refuse()


class _StandIn:
    """Refuses all that can be asked of an object, its class included."""

    __slots__ = ("_trial",)

    def __init__(self, trial: _Trial) -> None:
        object.__setattr__(self, "_trial", trial)

    __getattribute__ = __setattr__ = __delattr__ = _refusing
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _refusing
    __repr__ = __str__ = __bytes__ = __format__ = __bool__ = __int__ = __float__ = __complex__ = __index__ = _refusing
    __len__ = __iter__ = __reversed__ = __contains__ = __getitem__ = __setitem__ = __delitem__ = __call__ = _refusing
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __matmul__ = __rmatmul__ = _refusing
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = _refusing
    __rdivmod__ = __pow__ = __rpow__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _refusing
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __neg__ = __pos__ = __abs__ = __invert__ = _refusing
    __round__ = __trunc__ = __floor__ = __ceil__ = __enter__ = __exit__ = __await__ = _refusing
    __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = __sizeof__ = __dir__ = _refusing


class _ValueStandIn(_StandIn):
    """Stands for a value of a record."""

    __slots__ = ()


class RecordStandIn(_StandIn):
    """Stands for a record."""

    __slots__ = ()


def parsed_stand_in(record: Any, features: Mapping[str, Any]) -> dict[str, Any]:
    """What `parse_single_example` returns for a stand-in."""
    trial: _Trial = object.__getattribute__(record, "_trial")
    if trial.features is not None:  # twice: more than one call can do
        trial.refuse()
    trial.features = dict(features)
    values = {name: _ValueStandIn(trial) for name in features}
    trial.names = {id(value): name for name, value in values.items()}
    trial.values = list(values.values())
    return values


def parsing_of(function: Callable[..., Any]) -> Parsing | None:
    """What a function of a record does, if it parses and picks; None if it does anything else."""
    trial = _Trial()
    try:
        result = function(RecordStandIn(trial))
        if trial.touched or trial.features is None:
            return None
        names: list[str] = []
        # A list that a function returns is a tuple of components.
        structure = _structure_of(tuple(result) if type(result) is list else result, trial, names)
        return Parsing(trial.features, structure, tuple(names)) if names else None
    except KeyboardInterrupt:
        raise
    except BaseException:  # whatever it is, it will be raised, or not, when the function runs as written
        return None


def _structure_of(result: Any, trial: _Trial, names: list[str]) -> Structure:
    """The nest of what was returned; the names of its leaves are added as they come."""
    if type(result) is _ValueStandIn:
        names.append(trial.names[id(result)])
        return LEAF
    if type(result) is tuple and result:
        keys, parts = tuple(range(len(result))), list(result)
    elif type(result) is dict and result:
        keys, parts = tuple(result), list(result.values())
    else:
        raise _Touched("something else was returned")
    return Structure(type(result), keys, tuple([_structure_of(part, trial, names) for part in parts]))
