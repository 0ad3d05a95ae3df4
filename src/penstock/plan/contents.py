"""Contents: what a value holds, as a hash that other processes agree on.

Followed: numbers, text, dates, arrays (those of other libraries too), lists, dicts, sets, dataclasses, datasets,
functions with what they have captured, and attributes of objects whose classes are not Python's own.

Of an array up to `WHOLE_BYTES` every byte counts. Of a larger one dtype, shape and `NUM_SAMPLED` elements at equal
distances count; dtype and shape alone where it lies in a file of another library. Of an object that nothing is known of
(a lock, a file, a generator of random numbers), the type counts, by its name without the module: the program's own
module has another name where it is imported. Nothing ever depends on an address.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import dis
import enum
import functools
import hashlib
import pathlib
import re
import sys
import types
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from .array_sample import about, bytes_of, holds_objects, sampled
from .node import Node, Origin
from .op import Op
from .reads import attributes_read
from .writes import CHANGES_ITSELF, methods_of, writes_of

__all__ = [
    "NUM_SAMPLED",
    "WHOLE_BYTES",
    "Captured",
    "digest",
    "function_made_of",
    "in_one_order",
    "is_function",
    "operator_functions",
    "operator_made_of",
    "plain_function",
]

WHOLE_BYTES = 64 << 20
NUM_SAMPLED = 16_384

_PLAIN = (int, float, complex, str, bytes, bool, type(None), np.generic)
_SHOWN = (
    *(datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, pathlib.PurePath, re.Pattern),
    *(range, slice, np.dtype, type(...), type(NotImplemented)),
)
# By name: most programs need not load their modules.
_SHOWN_BY_NAME = ("decimal.Decimal", "fractions.Fraction", "uuid.UUID")
_FOLLOWED_BY_NAME = ("types.SimpleNamespace", "argparse.Namespace")
# Arguments that a fingerprint shows in full.
_IN_FULL = (int, float, bool, type(None))
_CONTAINERS = (list, dict, set, bytearray, collections.deque)
# Of a code's flags: *args, **kwargs, a generator.
_KIND_OF_CODE = 0x04 | 0x08 | 0x20
_DEEPEST = 100

#: A name, and the value that a function has captured under it.
Captured = list[tuple[str, Any]]


def digest(value: Any) -> str:
    """A value's contents in 12 characters."""
    contents = _Contents()
    contents.add(value)
    return contents.hash.hexdigest()


def operator_functions(op: Op) -> list[Any]:
    """The functions that a user gave an operator."""
    hidden = (*op.internal, *op.tuning)
    values = [getattr(op, field.name) for field in dataclasses.fields(op) if field.name not in hidden]
    return [value for value in values if callable(value)]


def operator_made_of(node: Node) -> tuple[list[Any], Captured]:
    """What an operator's functions are, and what they have captured; and arguments that no fingerprint shows whole.

    Sources of files show little more than their first argument, the files.
    """
    op = node.op
    hidden = (*op.internal, *op.tuning)
    of_files = hasattr(op, "file_names")
    if of_files:
        hidden += (dataclasses.fields(op)[0].name,)
    what: list[Any] = []
    captured: Captured = []
    for field in dataclasses.fields(op):
        value = getattr(op, field.name)
        if field.name in hidden:
            continue
        if callable(value):
            function, of_function = function_made_of(value)
            what.append(function)
            captured += of_function
        elif field.repr and (of_files or (node.inputs and not isinstance(value, _IN_FULL))):
            captured.append((f"argument {field.name}", value))
    return what, captured


def function_made_of(function: Any) -> tuple[list[Any], Captured]:
    """What a function is, and what it has captured: closures, defaults, arguments of a `partial`, attributes."""
    if isinstance(function, functools.partial):
        what, captured = function_made_of(function.func)
        given = [*enumerate(function.args), *function.keywords.items()]
        return ["partial", *what], [*captured, *((f"argument {name}", value) for name, value in given)]
    if isinstance(function, np.vectorize):  # its other attributes change as it is called
        what, captured = function_made_of(function.pyfunc)
        return ["vectorize", function.otypes, function.signature, function.excluded, *what], captured
    bound = getattr(function, "__self__", None)
    plain = plain_function(function)
    code = getattr(plain, "__code__", None)
    if isinstance(plain, FunctionType) and isinstance(code, CodeType):
        changed = writes_of(code).changed
        captured = [
            (f"captured {name}", _unless_changed(name, value, changed)) for name, value in _closure(plain, code)
        ]
        return [plain.__qualname__, code], captured + ([] if bound is None else _attributes(bound, plain))
    called: Any = type(function).__call__
    if isinstance(called, FunctionType):
        return [type(function).__qualname__, called.__code__], _attributes(function, called)
    # Written in C.
    name = getattr(function, "__qualname__", type(function).__qualname__)
    captured = []
    if hasattr(function, "__wrapped__"):
        captured.append(("captured function", function.__wrapped__))
    if bound is not None and not isinstance(bound, (types.ModuleType, type)):
        captured.append(("captured object", _unless_changed(name.rpartition(".")[2], bound, CHANGES_ITSELF)))
    return [getattr(function, "__module__", None), name], captured


def _closure(function: Any, code: CodeType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not bound yet
            yield name, None
    defaults = function.__defaults__ or ()
    yield from zip(code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount], defaults, strict=True)
    yield from sorted((function.__kwdefaults__ or {}).items())


def plain_function(function: Any) -> Any:
    """The function that a method, or a compiled function such as numba's, was made of; itself where there is none."""
    plain = getattr(function, "__func__", function)
    inner = None if isinstance(plain, FunctionType) else getattr(plain, "__wrapped__", None)
    # One that has the same code is that function, and no other that is called by it.
    return inner if isinstance(inner, FunctionType) and inner.__code__ is getattr(plain, "__code__", None) else plain


def is_function(value: Any) -> bool:
    """Whether a value is a function with Python's code: also a method, a partial, or one that was compiled."""
    is_partial = isinstance(value, functools.partial)
    return is_partial or (callable(value) and isinstance(plain_function(value), FunctionType))


def _attributes(owner: Any, method: FunctionType | None = None) -> Captured:
    """The attributes of an object, or those that a method of it may read."""
    kind: Any = type(owner)
    read = None if method is None else attributes_read(method, kind)
    values: dict[str, Any] = {}
    changed = frozenset[str]().union(*(writes_of(method.__code__).changed for method in methods_of(kind)))
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        values |= {name: getattr(owner, name) for name in _names(slots) if hasattr(owner, name)}
    values |= getattr(owner, "__dict__", {})
    return [
        (f"captured {name}", _unless_changed(name, value, changed))
        for name, value in sorted(values.items(), key=lambda item: str(item[0]))
        if (read is None or name in read)
        and not isinstance(getattr(kind, str(name), None), functools.cached_property)
        and not isinstance(value, Origin)  # where it stands in a program may change
    ]


def _names(slots: Any) -> list[str]:
    names = [slots] if isinstance(slots, str) else list(slots)
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def _unless_changed(name: str, value: Any, changed: Any) -> Any:
    # Where a function appends to a list, or fills an array, it keeps what it has seen, and not what it is.
    return type(value) if name in changed and isinstance(value, (*_CONTAINERS, np.ndarray)) else value


def in_one_order(value: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """The items of a dict in an order that equal ones share, as where they were made of sets."""
    items = list(value.items())
    if isinstance(value, collections.OrderedDict):  # its order is a part of what it is
        return items
    is_text = all(type(key) is str for key in value)
    return sorted(items, key=(lambda item: item[0]) if is_text else (lambda item: digest(item[0])))


class _Contents:
    """A hash that values are added to, one after the other."""

    def __init__(self) -> None:
        self.hash = hashlib.blake2b(digest_size=6)
        # What can contain itself, with its number; kept, so that no address is used twice.
        self._met: dict[int, tuple[int, Any]] = {}

    def add(self, value: Any, depth: int = 0) -> None:
        if isinstance(value, enum.Enum):
            self._tell(type(value).__qualname__, value.name)
        elif isinstance(value, _PLAIN):
            self._tell(type(value).__name__, repr(value))
        elif isinstance(value, CodeType):
            self._add_code(value, depth)
        elif depth > _DEEPEST:
            self._tell("deep")
        elif isinstance(value, np.ndarray):
            self._add_array(value, depth)
        elif isinstance(value, (tuple, frozenset)):
            self._add_container(value, depth)
        elif isinstance(value, (type, types.ModuleType)):
            self._tell("name", value.__name__)
        elif isinstance(value, _SHOWN) or _full_name(value) in _SHOWN_BY_NAME:
            self._tell(type(value).__qualname__, repr(value))
        elif id(value) in self._met:
            self._tell("again", str(self._met[id(value)][0]))
        else:
            self._met[id(value)] = len(self._met), value
            self._add_object(value, depth)

    def _tell(self, *words: str) -> None:
        # Lengths first: so no two lists of words look the same one after the other.
        for word in words:
            data = word.encode("utf-8", "surrogatepass")
            self.hash.update(b"%d:" % len(data))
            self.hash.update(data)

    def _add_all(self, kind: str, values: Any, depth: int) -> None:
        values = list(values)
        self._tell(kind, str(len(values)))
        if all(isinstance(value, (int, float, str)) and type(value).__module__ == "builtins" for value in values):
            self._tell("plain", repr(values))  # the same, quicker
            return
        for value in values:
            self.add(value, depth + 1)

    def _add_container(self, value: Any, depth: int) -> None:
        name = type(value).__name__
        if isinstance(value, (set, frozenset)):
            self._add_all(name, sorted(map(digest, value)), depth)
        elif isinstance(value, dict):
            self._add_all(name, (part for item in in_one_order(value) for part in item), depth)
        else:
            self._add_all(name, value, depth)

    def _add_object(self, value: Any, depth: int) -> None:
        node = getattr(value, "node", None)
        if isinstance(node, Node):  # a dataset
            self._tell("dataset")
            for child in node.walk():
                self._tell(child.op.fingerprint())
                self._add_all("operator", operator_made_of(child), depth)
        elif isinstance(value, _CONTAINERS):
            self._add_container(value, depth)
        elif hasattr(type(value), "__array__"):
            self._add_foreign(value, depth)
        elif callable(value):
            what, captured = function_made_of(value)
            self._add_all("function", what, depth)
            self._add_all("captured", captured, depth)
        elif _is_followed(value):
            self._add_all(type(value).__qualname__, _attributes(value), depth)
        else:
            self._tell(type(value).__qualname__)

    def _add_code(self, code: CodeType, depth: int) -> None:
        """Neither file nor lines, and of constants those that are used: not the docstring."""
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & _KIND_OF_CODE)
        self._tell("code", repr(counts), repr(code.co_names), repr(code.co_freevars))
        for step in dis.get_instructions(code):
            if step.opcode in dis.hasconst:
                self._tell(step.opname)
                self.add(step.argval, depth + 1)
            else:
                self._tell(step.opname, str(step.arg))

    def _add_array(self, array: np.ndarray, depth: int) -> None:
        if isinstance(array, np.ma.MaskedArray):
            self._tell("masked")
            self._add_array(np.ma.getmaskarray(array), depth)
            array = array.data
        array = np.asarray(array)
        self._tell("array", *about(array))
        array = sampled(array, WHOLE_BYTES, NUM_SAMPLED, 1)
        if holds_objects(array):
            self._add_all("objects", array.ravel().tolist(), depth)
        else:
            for piece in bytes_of(array):
                self.hash.update(piece)

    def _add_foreign(self, value: Any, depth: int) -> None:
        """An array or a table of another library."""
        self._tell(type(value).__qualname__, str(getattr(value, "dtype", "")), str(getattr(value, "shape", "")))
        is_torch = type(value).__module__.partition(".")[0] == "torch" or hasattr(value, "detach")
        if not is_torch and _num_bytes(value) > WHOLE_BYTES:  # it may lie in a file, and be larger than memory
            return
        for name in ("columns", "index", "name"):
            labels = getattr(value, name, None)
            if labels is not None and not callable(labels):
                self.add(np.asarray(labels, dtype=object), depth + 1)
        try:
            self._add_array(_of_torch(value) if is_torch else np.asarray(value), depth + 1)
        except Exception as error:  # on a device that is gone, or of a kind that NumPy has not
            self._tell(type(error).__name__)


def _of_torch(tensor: Any) -> np.ndarray:
    here = tensor.detach().cpu()
    try:
        return np.asarray(here.numpy())
    except TypeError:  # NumPy has no bfloat16
        return np.asarray(here.contiguous().reshape(-1).view(sys.modules["torch"].uint8).numpy())


def _num_bytes(value: Any) -> int:
    for name, each in (("nbytes", 1), ("size", 8)):
        number = getattr(value, name, None)
        if isinstance(number, (int, np.integer)):
            return int(number) * each
    return 0


def _full_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _is_followed(value: Any) -> bool:
    is_pythons_own = type(value).__module__.partition(".")[0] in sys.stdlib_module_names
    return not is_pythons_own or dataclasses.is_dataclass(value) or _full_name(value) in _FOLLOWED_BY_NAME
