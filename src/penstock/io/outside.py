"""Outside: what a function on trial finds outside itself, so wrapped that it can be used for parsing only.

A function on trial runs as a copy of itself: globals, variables of enclosing functions and default values are replaced
by plain values (strings, numbers, tuples of them), which are watched, and by `Outside` for all else. Of that it can
take attributes, and items of dicts, that are simply stored, and call `parse_single_example`, feature classes, functions
written in Python (on trial in their turn) and a few of Python's own, which only look at their arguments. Anything else
is refused: to change what is outside, random numbers, the time, files, other libraries. What does not show in what is
done with objects is refused by what the code looks like: names that are assigned outside, imports, comparisons by
identity. Nothing that is raised is caught in the copy: a refusal, or any other error, ends the trial.

So nothing outside is changed by a trial, and what it gives depends on nothing but what is watched.
"""

from __future__ import annotations

import dis
import functools
import inspect
import types
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np

from .example import parse_single_example
from .features import FixedLenFeature, FixedLenSequenceFeature, RaggedFeature, SparseFeature, VarLenFeature
from .stand_ins import RecordStandIn, StandIn, Trial
from .surroundings import MISSING

__all__ = ["call_on_trial"]

_PLAIN = (str, bytes, int, float, complex, bool, type(None))
_HARMLESS = (dict, enumerate, filter, iter, len, list, map, next, range, reversed, sorted, tuple, zip)
_FEATURES = (FixedLenFeature, FixedLenSequenceFeature, RaggedFeature, SparseFeature, VarLenFeature)
_FEATURE_NAMES = [each.__name__ for each in _FEATURES]

# By name, since numbers differ from one version of Python to the next; a name that a version lacks does no harm.
_ASSIGN_OUTSIDE = {"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_NAME", "DELETE_NAME"}
_NEED_ALL_BUILTINS = {"IMPORT_NAME", "IMPORT_FROM", "IMPORT_STAR", "LOAD_BUILD_CLASS"}
_LOOK_WITHOUT_ASKING = {"IS_OP", "MATCH_CLASS", "MATCH_KEYS", "MATCH_MAPPING", "MATCH_SEQUENCE", "GET_LEN"}
_REFUSED_OPERATIONS = _ASSIGN_OUTSIDE | _NEED_ALL_BUILTINS | _LOOK_WITHOUT_ASKING
_ASYNCHRONOUS = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE


class Outside(StandIn):
    """Something outside the function that is on trial."""

    __slots__ = ("_value",)

    def __init__(self, trial: Trial, value: Any) -> None:
        super().__init__(trial)
        object.__setattr__(self, "_value", value)

    def __getattribute__(self, name: str) -> Any:
        trial = _trial_of(self)
        return _outside(trial, _attribute(trial, _value_of(self), name))

    def __getitem__(self, key: Any) -> Any:
        trial, value = _trial_of(self), _value_of(self)
        found = trial.surroundings.look_up(value, key) if type(value) is dict and type(key) in _PLAIN else MISSING
        return trial.refuse() if found is MISSING else _outside(trial, found)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return call_on_trial(_trial_of(self), _value_of(self), args, kwargs)


def _trial_of(stand_in: StandIn) -> Trial:
    trial: Trial = object.__getattribute__(stand_in, "_trial")
    return trial


def _value_of(outside: Outside) -> Any:
    return object.__getattribute__(outside, "_value")


def _outside(trial: Trial, value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    if type(value) is tuple:
        return tuple([_outside(trial, each) for each in value])
    return Outside(trial, value)


# --- attributes ---


def _attribute(trial: Trial, owner: Any, name: str) -> Any:
    """An attribute that is stored as it is, or a method; what must be computed is refused."""
    kind: Any = type(owner)
    if isinstance(owner, types.ModuleType) and kind.__getattribute__ is types.ModuleType.__getattribute__:
        if owner.__name__.partition(".")[0] == __name__.partition(".")[0]:
            getattr(owner, name, None)  # ours are loaded when they are first asked for
        value = trial.surroundings.look_up(vars(owner), name)
    elif isinstance(owner, type) and kind.__getattribute__ is type.__getattribute__:
        value = _bound(trial, _of_class(trial, owner, name), None, owner)
    elif kind.__getattribute__ is object.__getattribute__:
        value = _of_instance(trial, owner, name)
    else:
        trial.refuse()
    if value is MISSING:
        trial.refuse()
    return value


def _of_class(trial: Trial, owner: type, name: str) -> Any:
    found = (trial.surroundings.look_up(vars(each), name) for each in owner.__mro__)
    return next((value for value in found if value is not MISSING), MISSING)


def _of_instance(trial: Trial, owner: Any, name: str) -> Any:
    of_class = _of_class(trial, type(owner), name)
    if hasattr(type(of_class), "__set__"):  # it has the first word, whatever is stored
        trial.refuse()
    try:
        stored = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        stored = {}
    value = trial.surroundings.look_up(stored, name)
    return _bound(trial, of_class, owner, type(owner)) if value is MISSING else value


def _bound(trial: Trial, value: Any, owner: Any, kind: type) -> Any:
    """What is stored in a class, as one of its instances, or the class itself, shows it."""
    if type(value) is types.FunctionType:
        return value if owner is None else types.MethodType(value, owner)
    if type(value) is staticmethod:
        return value.__func__
    if type(value) is classmethod:
        return types.MethodType(value.__func__, kind)
    if hasattr(type(value), "__get__"):
        trial.refuse()
    return value


# --- calls ---


def call_on_trial(trial: Trial, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls something outside with arguments that are stand-ins, plain values, or were made by the caller."""
    kind = type(target)
    if target is parse_single_example:
        return _parse(trial, *args, **kwargs)
    if kind is types.FunctionType:
        return _copy_on_trial(trial, target)(*args, **kwargs)
    if kind is types.MethodType:
        return call_on_trial(trial, target.__func__, (_outside(trial, target.__self__), *args), kwargs)
    if kind is functools.partial:
        bound = {name: _outside(trial, value) for name, value in target.keywords.items()}
        return call_on_trial(trial, target.func, (*_outside(trial, target.args), *args), bound | kwargs)
    if any(target is each for each in _HARMLESS):
        return target(*args, **kwargs)
    if isinstance(target, type):
        return _feature(trial, target, args, kwargs)
    method = _of_class(trial, kind, "__call__")
    if type(method) is not types.FunctionType:
        trial.refuse()
    return call_on_trial(trial, method, (_outside(trial, target), *args), kwargs)


def _parse(trial: Trial, serialized: Any, features: Any, example_names: Any = None, name: Any = None) -> dict[str, Any]:
    if type(serialized) is not RecordStandIn or example_names is not None:  # names would be those of one record
        trial.refuse()
    if type(features) is dict:
        return trial.parse({name: _bare(value) for name, value in features.items()})
    given = _bare(features)
    if type(given) not in (dict, OrderedDict):
        trial.refuse()
    return trial.parse(trial.surroundings.items(given))


def _bare(value: Any) -> Any:
    return _value_of(value) if type(value) is Outside else value


def _feature(trial: Trial, kind: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A feature that the function makes itself."""
    is_tensorflows = kind.__module__.partition(".")[0] == "tensorflow" and kind.__name__ in _FEATURE_NAMES
    if kind not in _FEATURES and not is_tensorflows:
        trial.refuse()
    return kind(*[_argument(trial, each) for each in args], **{k: _argument(trial, v) for k, v in kwargs.items()})


def _argument(trial: Trial, value: Any) -> Any:
    """An argument of a feature: dtypes are outside, and never change."""
    if type(value) in (list, tuple):
        return type(value)([_argument(trial, each) for each in value])
    bare = _bare(value)
    if type(value) is Outside:
        if not isinstance(bare, type | np.dtype) and not hasattr(type(bare), "as_numpy_dtype"):
            trial.refuse()
    elif type(value) not in _PLAIN:
        trial.refuse()
    return bare


def _copy_on_trial(trial: Trial, function: types.FunctionType) -> types.FunctionType:
    """A function whose surroundings are wrapped."""
    watched = trial.surroundings
    namespace: dict[str, Any] = {"__builtins__": {}, "__name__": function.__module__}
    builtins_of: Any = function  # which not every description of Python's types knows to have them
    for name in _global_names(trial, function.__code__):
        value = watched.look_up(function.__globals__, name)
        if value is MISSING:
            value = watched.look_up(builtins_of.__builtins__, name)
        if value is not MISSING:
            namespace[name] = _outside(trial, value)
    cells = []
    for cell in function.__closure__ or ():
        value = watched.contents(cell)
        cells.append(types.CellType() if value is MISSING else types.CellType(_outside(trial, value)))
    defaults = _outside(trial, function.__defaults__)
    copy = types.FunctionType(
        _without_handlers(function.__code__), namespace, function.__name__, defaults, tuple(cells)
    )
    by_name: Mapping[str, Any] = function.__kwdefaults__ or {}
    copy.__kwdefaults__ = {name: _outside(trial, value) for name, value in by_name.items()}
    return copy


def _global_names(trial: Trial, code: types.CodeType) -> set[str]:
    """Names outside that code refers to, that of functions inside it included; some code is refused."""
    if code.co_flags & _ASYNCHRONOUS:
        trial.refuse()
    names: set[str] = set()
    for step in dis.get_instructions(code):
        if step.opname in _REFUSED_OPERATIONS:
            trial.refuse()
        if step.opname in ("STORE_DEREF", "DELETE_DEREF") and step.argval in code.co_freevars:
            trial.refuse()
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names.add(step.argval)
        if step.opname == "PUSH_EXC_INFO" and code.co_flags & inspect.CO_GENERATOR:
            trial.refuse()
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            names |= _global_names(trial, inner)
    return names


def _without_handlers(code: types.CodeType) -> types.CodeType:
    """Code in which nothing that is raised is caught."""
    consts = tuple([_without_handlers(each) if isinstance(each, types.CodeType) else each for each in code.co_consts])
    if code.co_flags & inspect.CO_GENERATOR:  # its own is Python's, which makes another error of StopIteration
        return code.replace(co_consts=consts)
    return code.replace(co_consts=consts, co_exceptiontable=b"")
