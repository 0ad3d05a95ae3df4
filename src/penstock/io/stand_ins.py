"""Stand-ins for a record and its values: objects that refuse whatever is asked of them.

A refusal is noted as well as raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from .surroundings import Surroundings

__all__ = ["RecordStandIn", "StandIn", "Touched", "Trial", "ValueStandIn"]


class Touched(Exception):
    """A stand-in was used as if it were a value."""


class Trial:
    """One function tried out: what it parsed, what it refers to, and whether it did anything else."""

    def __init__(self) -> None:
        self.features: Mapping[str, Any] | None = None
        self.surroundings = Surroundings()
        self.names: dict[int, str] = {}
        self.touched = False
        self._values: list[Any] = []  # kept, so that their ids stay theirs

    def refuse(self) -> NoReturn:
        self.touched = True
        raise Touched("a stand-in has no value")

    def parse(self, features: Mapping[str, Any]) -> dict[str, Any]:
        """What `parse_single_example` returns for the record."""
        if self.features is not None:  # twice: more than one call can do
            self.refuse()
        self.features = features
        values = {name: ValueStandIn(self) for name in features}
        self.names = {id(value): name for name, value in values.items()}
        self._values = list(values.values())
        return values


def _refusing(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    trial: Trial = object.__getattribute__(self, "_trial")
    trial.refuse()


class StandIn:
    """Refuses all that can be asked of an object, its class included."""

    __slots__ = ("_trial",)

    def __init__(self, trial: Trial) -> None:
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


class ValueStandIn(StandIn):
    """Stands for a value of a record."""

    __slots__ = ()


class RecordStandIn(StandIn):
    """Stands for a record."""

    __slots__ = ()
