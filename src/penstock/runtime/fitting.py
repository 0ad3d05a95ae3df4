"""Fitting: whether a saved position is one of this pipeline, and what differs first where it is not."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import numpy as np

from ..errors import StateError
from ..plan.node import Node
from ..plan.remembered import first_change, is_of_another_process, remembered

__all__ = ["about_plan", "check_state"]

_FIELDS = {"version", "plan", "optimized", "epoch", "seeds", "position"}
_OTHER_FIELDS = {"contents", "parts", "delivered"}
_OTHER = "the saved position is of another pipeline"


def about_plan(written: Node) -> dict[str, Any]:
    """What a position says of its pipeline: its operators, and what is remembered of each besides its arguments."""
    nodes = list(written.walk())
    return {"plan": [node.op.fingerprint() for node in nodes], "contents": [dict(remembered(node)) for node in nodes]}


def check_state(state: Any, written: Node, optimized: bool, *, accepts_changes: bool) -> None:
    """Raises StateError where a position is damaged, or of another pipeline; the first difference is named.

    Other code and data are no reason if the user says so: the operators and their arguments must still be the same.
    """
    if not isinstance(state, dict) or state.get("version") != 1 or not state.keys() >= _FIELDS:
        raise StateError(f"expected what state_dict() returned, got {state!r:.80}")
    unknown = state.keys() - _FIELDS - _OTHER_FIELDS
    if unknown:
        raise StateError(f"the saved position is damaged: no position has {min(map(repr, unknown)):.60}")
    _check_fields(state)
    nodes, contents = list(written.walk()), [] if accepts_changes else state.get("contents", [])
    now = [remembered(node) for node in nodes] if contents else []
    of_other = is_of_another_process(contents, now)
    for i, (text, node) in enumerate(zip_longest(state["plan"], nodes)):
        if text is None or node is None:
            missing = f"had {text}" if node is None else f"did not have {node.op.fingerprint()}, at {node.origin}"
            raise StateError(f"{_OTHER}: it {missing}")
        fingerprint = node.op.fingerprint()
        if text != fingerprint:
            raise StateError(f"{_OTHER}: operator {i} was {text} and is {fingerprint}, at {node.origin}")
        change = first_change(contents[i], now[i], ignores_captured=of_other) if i < len(contents) else ""
        if change:
            raise StateError(
                f"{_OTHER}: operator {i}, {fingerprint} at {node.origin}, {change}. To go on all the same: "
                "dataset.with_options(Options(resume_changed=True))"
            )
    if state["optimized"] != optimized:
        raise StateError(
            f"the saved position is of a run with optimize={state['optimized']}; this one has optimize={optimized}"
        )


def _check_fields(state: dict[str, Any]) -> None:
    epoch, delivered = state["epoch"], state.get("delivered")
    if not _is_count(epoch):
        raise StateError(f"the saved position is damaged: epoch: expected an integer from 0 on, got {epoch!r:.60}")
    if delivered is not None and not _is_count(delivered):
        raise StateError(f"the saved position is damaged: delivered: expected a number, got {delivered!r:.60}")
    for name, kind in (("plan", str), ("seeds", (int, np.integer)), ("contents", dict), ("parts", list)):
        given = state.get(name, [])
        if not isinstance(given, (list, tuple)) or not all(isinstance(part, kind) for part in given):
            raise StateError(f"the saved position is damaged: {name}: expected a list, got {given!r:.60}")
    for kept in state.get("contents", []):
        if not all(isinstance(text, str) for item in kept.items() for text in item):
            raise StateError(f"the saved position is damaged: contents: expected text, got {kept!r:.60}")
    for part in state.get("parts", []):
        if len(part) != 2 or not all(map(_is_count, part)):
            raise StateError(f"the saved position is damaged: parts: expected pairs of numbers, got {part!r:.60}")


def _is_count(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= 0
