"""Identity: a pipeline as text that is the same in another process, and another when what it yields may be.

For files that outlive a process. An operator is its fingerprint (name and arguments); where it has functions, a hash of
their bytecode; and a hash of each thing that they have captured (closures, defaults, arguments of a `partial`,
attributes of an object that is called), by name. Of arrays that are captured the contents count (see `contents.py`).
Not looked at: the data and files of sources, global variables, what a function calls in other modules.
"""

from __future__ import annotations

import sys

from .contents import digest, operator_made_of
from .node import Node

__all__ = ["identity_of", "same_operator", "what_changed"]

_CODE = " with code "
_WITH = " and "
_PYTHON = " of Python "


def identity_of(node: Node) -> list[str]:
    """The operators of a plan, one text each, sources first."""
    return [_operator(child) for child in node.walk()]


def _operator(node: Node) -> str:
    code, captured = operator_made_of(node)
    # Processes that share a dataset may load each other's positions, but each has other elements.
    text = node.op.fingerprint() if node.op.part is None else node.op.describe()
    if code:
        text += f"{_CODE}{digest(code)}"
    if captured:
        text += _WITH + ", ".join(f"{name}={digest(value)}" for name, value in captured)
    return text + f"{_PYTHON}{'{}.{}'.format(*sys.version_info[:2])}" if code else text


def same_operator(was: str, now: str) -> bool:
    """Whether two texts may be those of one operator: of code that other versions of Python made nothing is known."""
    if was == now:
        return True
    (old, _, old_python), (new, _, new_python) = was.rpartition(_PYTHON), now.rpartition(_PYTHON)
    return old_python != new_python and old.rpartition(_CODE)[0] == new.rpartition(_CODE)[0] != ""


def what_changed(was: str, now: str) -> str:
    """Of two texts that are not the same: what is another, in words."""
    (old, old_captured), (new, new_captured) = _apart(was), _apart(now)
    names = [name for name in {**old_captured, **new_captured} if old_captured.get(name) != new_captured.get(name)]
    if old == new and names:
        return f"is still {old.partition(_CODE)[0]}, but {', '.join(names)} changed"
    return f"was {old} and is {new}"


def _apart(text: str) -> tuple[str, dict[str, str]]:
    """A text without what is captured, and that by name."""
    text, python, version = text.rpartition(_PYTHON) if _PYTHON in text else (text, "", "")
    head, separator, listed = text.rpartition(_WITH)
    if not separator or not listed.startswith(("captured ", "argument ")):
        return text + python + version, {}
    pairs = (entry.rpartition("=") for entry in listed.split(", "))
    return head + python + version, {name: hashed for name, _, hashed in pairs}
