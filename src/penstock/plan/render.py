"""Plans as text: the consumer on top, sources at the bottom, one line a stage."""

from __future__ import annotations

from .node import Node

__all__ = ["render"]


def render(node: Node, *, origins: bool = False) -> str:
    """The plan as a tree a person reads at a glance."""
    lines: list[tuple[str, str]] = []
    _lines(node, "", "", lines)
    if not origins:
        return "\n".join(text for text, _ in lines)
    width = max(len(text) for text, _ in lines)
    return "\n".join(f"{text:<{width}}  {origin}" for text, origin in lines)


def _lines(node: Node, lead: str, rest: str, lines: list[tuple[str, str]]) -> None:
    remark = node.op.remark()
    text = f"{lead}{node.op.describe()}{f' ({remark})' if remark else ''}  → {node.spec}"
    lines.append((text, str(node.origin)))
    for i, child in enumerate(node.inputs):
        last = i == len(node.inputs) - 1
        if len(node.inputs) == 1:
            _lines(child, rest, rest, lines)
        else:
            _lines(child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "), lines)
