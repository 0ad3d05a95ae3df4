"""Names of stages that are shown beside each other: as short as can be, and no two of them the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .node import Node

__all__ = ["Branch", "stage_labels"]

#: Which input to follow at each operator that has several, counted from 1 as plans are drawn.
Branch = tuple[int, ...]

# Longer ones would leave no room for the rest of a table's row.
_MOST_CHARACTERS = 28


def stage_labels(stages: Sequence[tuple[Node, Branch]]) -> list[str]:
    """What to call stages: by the operator's name, and where that is not enough by more, as far as it tells them apart.

    By its arguments, the line of the program, the branch of the plan, and at last by number.
    """
    labels = [node.op.name for node, _ in stages]
    arguments = [_with_arguments(node) for node, _ in stages]
    _tell_apart(labels, arguments, lambda label, text: text)
    _tell_apart(labels, [str(node.origin) for node, _ in stages], lambda label, text: f"{label} {text}")
    branches = [".".join(map(str, branch)) for _, branch in stages]
    _tell_apart(labels, branches, lambda label, text: f"{label} branch {text}" if text else label)
    numbers = [str(labels[: i + 1].count(label)) for i, label in enumerate(labels)]
    _tell_apart(labels, numbers, lambda label, text: f"{label} #{text}")
    return labels


def _tell_apart(labels: list[str], texts: list[str], joined: Callable[[str, str], str]) -> None:
    """Says more of those that are called the same, if it is not the same for all of them."""
    groups: dict[str, list[int]] = {}
    for i, label in enumerate(labels):
        groups.setdefault(label, []).append(i)
    for label, members in groups.items():
        if len({texts[i] for i in members}) > 1:
            for i in members:
                labels[i] = joined(label, texts[i])


def _with_arguments(node: Node) -> str:
    """The operator with its arguments, or the first of them, or none, as there is room."""
    text = node.op.describe()
    first = text.split(", ")[0] + ")"
    shortened = first if first.count("(") == first.count(")") else text
    return next((short for short in (text, shortened) if len(short) <= _MOST_CHARACTERS), node.op.name)
