"""Node: an operator on its inputs. The only plan type."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import PenstockError
from ..spec import Spec
from .op import Op

__all__ = ["Node", "Origin", "caller_origin", "is_ours", "located"]

_PACKAGE = str(Path(__file__).resolve().parent.parent)
_COMMANDS = str(Path(_PACKAGE, "cli.py"))  # its pipelines are a user's like any other


class Origin(NamedTuple):
    """The line of the user's program where an operator was written."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"


_NOWHERE = Origin("?", 0)
# Asked for every operator that is written: looked up by file, which is quicker than comparing names.
_OURS: dict[str, bool] = {}


def is_ours(file: str) -> bool:
    """Whether a file of code is penstock's own."""
    return _OURS.setdefault(file, file.startswith(_PACKAGE) and file != _COMMANDS)


def caller_origin(num_frames: int = 1) -> Origin:
    """The innermost line on the stack that is not penstock's own; the first `num_frames` are known to be."""
    frame = sys._getframe(num_frames)
    while True:
        file = frame.f_code.co_filename
        ours = _OURS.get(file)
        if not (is_ours(file) if ours is None else ours) or frame.f_back is None:
            return tuple.__new__(Origin, (file, frame.f_lineno))  # half the time of Origin(…)
        frame = frame.f_back


def located(error: PenstockError, name: str, origin: Origin) -> PenstockError:
    """The error with operator and line in front of its text, once."""
    if not error.is_located:
        error.args = (f"{name} at {origin}: {error.args[0] if error.args else ''}", *error.args[1:])
        error.is_located = True
    return error


@dataclasses.dataclass(frozen=True, init=False)
class Node:
    """An operator, what it reads from, and where the user wrote it.

    Nodes compare by value (operator and inputs); the origin is not part of it.
    """

    op: Op
    inputs: tuple[Node, ...] = ()
    origin: Origin = dataclasses.field(default=_NOWHERE, compare=False)

    def __init__(
        self, op: Op, inputs: tuple[Node, ...] = (), origin: Origin = _NOWHERE, spec: Spec | None = None
    ) -> None:
        # By hand: nodes are made by the thousand inside `flat_map`, and a frozen class's own way takes twice as long.
        fields = self.__dict__
        fields["op"] = op
        fields["inputs"] = inputs
        fields["origin"] = origin
        if spec is not None:  # known to who makes it
            fields["_spec"] = spec

    @property
    def spec(self) -> Spec:
        """What is known of the elements that this node gives; worked out once."""
        kept: Spec | None = self.__dict__.get("_spec")
        if kept is not None:
            return kept
        try:
            inputs = self.inputs
            spec = self.op.spec([inputs[0].spec] if len(inputs) == 1 else [node.spec for node in inputs])
        except PenstockError as error:
            raise located(error, self.op.name, self.origin) from None
        self.__dict__["_spec"] = spec
        return spec

    @property
    def input(self) -> Node:
        """The only input."""
        (node,) = self.inputs
        return node

    def on(self, *inputs: Node) -> Node:
        """This operator on other inputs."""
        return Node(self.op, inputs, self.origin)

    def with_op(self, op: Op) -> Node:
        """Another operator in this place."""
        return Node(op, self.inputs, self.origin)

    def walk(self) -> Iterator[Node]:
        """All nodes, inputs before those that read them."""
        for node in self.inputs:
            yield from node.walk()
        yield self

    def has_any(self, question: Callable[[Op], bool]) -> bool:
        """Whether the answer is yes for any operator of the plan."""
        node = self
        while not question(node.op):
            if len(node.inputs) != 1:
                return any(child.has_any(question) for child in node.inputs)
            node = node.inputs[0]
        return True

    def transform(self, function: Callable[[Node], Node]) -> Node:
        """A plan with `function` applied to each node, inputs first."""
        if len(self.inputs) == 1:  # nearly always, and the rest takes as long as a rule
            below = self.inputs[0].transform(function)
            return function(self if below is self.inputs[0] else self.on(below))
        inputs = tuple(node.transform(function) for node in self.inputs)
        changed = any(a is not b for a, b in zip(inputs, self.inputs, strict=True))
        return function(self.on(*inputs) if changed else self)

    def __repr__(self) -> str:
        inputs = ", ".join(repr(node) for node in self.inputs)
        return f"{self.op.describe()}{f' ← [{inputs}]' if inputs else ''}"

    def __getstate__(self) -> dict[str, Any]:
        return {"op": self.op, "inputs": self.inputs, "origin": self.origin}
