"""Node: an operator on its inputs. The only plan type."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import PenstockError
from ..spec import Spec
from .op import Op

__all__ = ["Node", "Origin", "caller_origin", "located"]

_PACKAGE = str(Path(__file__).resolve().parent.parent)
_COMMANDS = str(Path(_PACKAGE, "cli.py"))  # its pipelines are a user's like any other


@dataclasses.dataclass(frozen=True)
class Origin:
    """The line of the user's program where an operator was written."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"


def caller_origin() -> Origin:
    """The innermost line on the stack that is not penstock's own."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_PACKAGE) or file == _COMMANDS:
            break
        frame = frame.f_back
    return Origin(frame.f_code.co_filename, frame.f_lineno)


def located(error: PenstockError, name: str, origin: Origin) -> PenstockError:
    """The error with operator and line in front of its text, once."""
    if not getattr(error, "_located", False):
        error.args = (f"{name} at {origin}: {error.args[0] if error.args else ''}", *error.args[1:])
        error._located = True  # type: ignore[attr-defined]
    return error


@dataclasses.dataclass(frozen=True)
class Node:
    """An operator, what it reads from, and where the user wrote it.

    Nodes compare by value (operator and inputs); the origin is not part of it.
    """

    op: Op
    inputs: tuple[Node, ...] = ()
    origin: Origin = dataclasses.field(default=Origin("?", 0), compare=False)

    @cached_property
    def spec(self) -> Spec:
        """What is known of the elements that this node gives."""
        try:
            return self.op.spec([node.spec for node in self.inputs])
        except PenstockError as error:
            raise located(error, self.op.name, self.origin) from None

    @property
    def input(self) -> Node:
        """The only input."""
        (node,) = self.inputs
        return node

    def on(self, *inputs: Node) -> Node:
        """This operator on other inputs."""
        return dataclasses.replace(self, inputs=inputs)

    def with_op(self, op: Op) -> Node:
        """Another operator in this place."""
        return dataclasses.replace(self, op=op)

    def walk(self) -> Iterator[Node]:
        """All nodes, inputs before those that read them."""
        for node in self.inputs:
            yield from node.walk()
        yield self

    def transform(self, function: Callable[[Node], Node]) -> Node:
        """A plan with `function` applied to each node, inputs first."""
        inputs = tuple(node.transform(function) for node in self.inputs)
        changed = any(a is not b for a, b in zip(inputs, self.inputs, strict=True))
        return function(self.on(*inputs) if changed else self)

    def __repr__(self) -> str:
        inputs = ", ".join(repr(node) for node in self.inputs)
        return f"{self.op.describe()}{f' ← [{inputs}]' if inputs else ''}"

    def __getstate__(self) -> dict[str, Any]:
        return {"op": self.op, "inputs": self.inputs, "origin": self.origin}
