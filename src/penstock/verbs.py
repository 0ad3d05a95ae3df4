"""Verbs: what makes methods of Dataset of operators, and of functions in the layers around it.

A verb has the signature and the documentation of its operator, which is loaded when the method is first looked up: that
keeps `import penstock` quick.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from .errors import BadType, PenstockError
from .options import Options, flag
from .plan.node import Node, Origin, caller_origin, located
from .plan.op import Op
from .runtime.epochs import Epochs

if TYPE_CHECKING:
    from .dataset import Dataset

__all__ = ["combination", "combination_method", "ending", "handing_over", "method", "source"]


class _Verb:
    """A method of Dataset that is made of an operator when it is first looked up."""

    def __init__(self, place: str, make: Callable[[Any, Any], Any]) -> None:
        self._module, self._class = place.split(":")
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        op = getattr(import_module(f".{self._module}", __package__), self._class)
        setattr(self._owner, self._name, self._make(op, self._owner))
        return getattr(owner if instance is None else instance, self._name)


def _verb(place: str, make: Callable[[Any, Any], Any]) -> Callable[..., Dataset]:
    """As type checkers and editors see it, so that a chain of calls is a dataset to them."""
    return cast("Callable[..., Dataset]", _Verb(place, make))


def method(place: str) -> Callable[..., Dataset]:
    """A method that puts an operator on top of the dataset."""

    def make(op: type[Op], owner: Any) -> Any:
        def wrapper(self: Any, *args: Any, name: str | None = None, **kwargs: Any) -> Any:
            try:
                made = op(*args, **kwargs)
                _check_flags(made)
                node = made.placed_on(self.node, caller_origin(2))
                return owner(node, self._options, Epochs((self._epochs,)))
            except (PenstockError, TypeError) as error:
                raise _told(error, op, caller_origin()) from None

        return _documented(wrapper, op, op, ("self",))

    return _verb(f"ops.{place}", make)


def source(place: str) -> Callable[..., Dataset]:
    """A static method that makes a dataset from a source."""

    def make(op: type[Op], owner: Any) -> Any:
        def wrapper(*args: Any, name: str | None = None, **kwargs: Any) -> Any:
            try:
                made = op(*args, **kwargs)
                _check_flags(made)
                return owner(Node(made, (), caller_origin(2)))
            except (PenstockError, TypeError) as error:
                raise _told(error, op, caller_origin()) from None

        return staticmethod(_documented(wrapper, op, op, ()))

    return _verb(f"io.{place}", make)


def combination(place: str) -> Callable[..., Dataset]:
    """A static method that puts an operator on several datasets; the operator's `of` tells which."""

    def make(op: Any, owner: Any) -> Any:
        def wrapper(*args: Any, name: str | None = None, **kwargs: Any) -> Any:
            try:
                made, datasets = op.of(*args, **kwargs)
                return _combined(owner, made, datasets, caller_origin())
            except (PenstockError, TypeError) as error:
                raise _told(error, op, caller_origin()) from None

        return staticmethod(_documented(wrapper, op, op.of, ()))

    return _verb(f"ops.{place}", make)


def combination_method(place: str) -> Callable[..., Dataset]:
    """Likewise a method: the dataset itself is the first one."""

    def make(op: Any, owner: Any) -> Any:
        def wrapper(self: Any, *args: Any, name: str | None = None, **kwargs: Any) -> Any:
            try:
                made, datasets = op.of(self, *args, **kwargs)
                return _combined(owner, made, datasets, caller_origin())
            except (PenstockError, TypeError) as error:
                raise _told(error, op, caller_origin()) from None

        return _documented(wrapper, op, op.of, ())

    return _verb(f"ops.{place}", make)


def ending(place: str) -> Any:
    """A method that runs the dataset to its end; its function gets the run and what is known of the elements."""

    def make(function: Any, owner: Any) -> Any:
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            spec = self.node.spec
            return self._ended(function.__name__, lambda run: function(run, spec, *args, **kwargs))

        method: Any = wrapper
        signature = inspect.signature(function)
        own = list(signature.parameters.values())[2:]
        me = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        method.__signature__ = signature.replace(parameters=[me, *own])
        method.__doc__, method.__name__ = function.__doc__, function.__name__
        method.__qualname__ = f"Dataset.{function.__name__}"
        return method

    return _Verb(f"runtime.{place}", make)


def handing_over(place: str) -> Any:
    """A method that gives the dataset to a framework; its function gets the dataset, and lives in a layer above."""

    def make(function: Any, owner: Any) -> Any:
        @functools.wraps(function)
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return function(self, *args, **kwargs)
            except PenstockError as error:
                raise located(error, function.__name__, caller_origin()) from None

        method: Any = wrapper
        signature = inspect.signature(function)
        me, *own = signature.parameters.values()
        method.__signature__ = signature.replace(parameters=[me.replace(name="self"), *own])
        method.__qualname__ = f"Dataset.{function.__name__}"
        return method

    return _Verb(f"adapters.{place}", make)


def _combined(owner: Any, op: Op, datasets: list[Any], origin: Origin) -> Any:
    """The dataset of an operator on several others."""
    _check_flags(op)
    options = Options()
    for dataset in datasets:
        if not isinstance(dataset, owner):
            raise BadType(f"expected a dataset, got {type(dataset).__name__} {dataset!r:.60}")
        options = options.merged(dataset._options)
    node = Node(op, tuple([dataset.node for dataset in datasets]), origin)
    return owner(node, options, Epochs([dataset._epochs for dataset in datasets]))


@functools.cache
def _flags_of(op: Any) -> tuple[str, ...]:
    """Those arguments of an operator that are True or False, or None where nothing was said."""
    fields = [field for field in dataclasses.fields(op) if field.init and field.name not in op.internal]
    return tuple([field.name for field in fields if field.type in ("bool", "bool | None")])


def _check_flags(op: Op) -> None:
    """Refuses numbers and text: whoever writes `batch(32, 4)` does not mean that the last batch is to be dropped."""
    kind: Any = type(op)
    for name in _flags_of(kind):
        object.__setattr__(op, name, flag(name, getattr(op, name)))


def _told(error: Exception, op: type[Op], origin: Origin) -> Exception:
    """A mistake in an operator's arguments, told with the operator's name and the user's line."""
    if isinstance(error, PenstockError):
        return located(error, op.verb(), origin)
    if "argument" not in str(error) or type(error) is not TypeError:
        return error
    text = str(error)
    for inner in ("__init__", "of"):
        text = text.replace(f"{op.__name__}.{inner}()", f"{op.verb()}()")
    return located(BadType(text), op.verb(), origin)


def _documented(wrapper: Any, op: type[Op], signature_of: Any, first: tuple[str, ...]) -> Any:
    """Gives a method the signature and documentation of its operator."""
    hidden = (*getattr(op, "internal", ()), "drawn")
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in first]
    parameters += [p for p in inspect.signature(signature_of).parameters.values() if p.name not in hidden]
    wrapper.__signature__ = inspect.Signature(parameters, return_annotation="Dataset")
    wrapper.__doc__ = op.__doc__
    wrapper.__name__ = op.verb()
    wrapper.__qualname__ = f"Dataset.{wrapper.__name__}"
    return wrapper
