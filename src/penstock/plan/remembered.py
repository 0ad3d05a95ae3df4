"""What a saved position remembers of its operators, besides their arguments: code, captured values and data, as hashes.

Enough to tell that a function or the data are others than before, at little cost: a few texts of 12 characters for each
operator. They are made when a position is first asked for, and kept with the plan. Other processes make the same: no
address or line goes into them. Of sources they know the names of all files, and what elements are like.

Whoever resumes must not be refused for nothing. So only that is looked at which stays as it is while a pipeline runs:
code, numbers and text that a function has captured, arrays, and lists, dicts or frozen dataclasses of those. Not looked
at are values that were written to while the pipeline ran, or that a function's code writes to, objects of other
kinds, and global variables; nor code that another version of Python compiled. Of arrays above `WHOLE_BYTES` a sample
counts. Processes that share a dataset load each other's positions, and may have captured their own numbers: so between
them captured values are not compared.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from types import CodeType

from ..spec import UNSEEN, spec_nest
from .at_first import written_to
from .contents import digest, operator_functions, operator_made_of
from .looked_at import Look, is_hash, unwritten, without_names
from .node import Node, is_ours
from .writes import NOTHING, Writes, writes_of_function

__all__ = ["Remembered", "first_change", "is_of_another_process", "remembered"]

#: By what it is: "code", "captured k", "data".
Remembered = dict[str, str]

WHOLE_BYTES = 1 << 20
_MOST = 1 << 14
_CODE, _PYTHON, _DATA, _PART, _FILES, _ELEMENTS = "code", "python", "data", "part", "files", "elements"
#: What processes that share a dataset have in common, and how it is told that it has changed.
_OF_ALL = {
    _CODE: "has a function with other code",
    _DATA: "has other data",
    _FILES: "has other files",
    _ELEMENTS: "has elements of other names, structure or types",
}


def remembered(node: Node) -> Remembered:
    """What is remembered of the operator of a node; nothing where there is nothing but its arguments."""
    kept: Remembered | None = node.__dict__.get("_remembered")
    if kept is None:
        kept = node.__dict__["_remembered"] = _of_operator(node)
    return kept


def is_of_another_process(was: Sequence[Remembered], now: Sequence[Remembered]) -> bool:
    """Whether a plan was that of another of the processes that share a dataset."""
    return [kept.get(_PART) for kept in was] != [kept.get(_PART) for kept in now]


def first_change(was: Remembered, now: Remembered, *, ignores_captured: bool) -> str:
    """Which thing is another, in words; empty where none is known to be."""
    is_same_python = was.get(_PYTHON) == now.get(_PYTHON)
    for name, text in was.items():
        other = now.get(name, text)
        if other == text or name in (_PYTHON, _PART) or (name == _CODE and not is_same_python):
            continue
        if name in _OF_ALL:
            return _OF_ALL[name]
        if ignores_captured:
            continue
        shown = not any(map(is_hash, (text, other)))
        return f"has another {name}: it was {text} and is {other}" if shown else f"has another {name}"
    return ""


def _of_operator(node: Node) -> Remembered:
    found: Remembered = {}
    what, captured = operator_made_of(node)
    codes = without_names(what)
    if codes and not any(isinstance(code, CodeType) and is_ours(code.co_filename) for code in codes):
        found[_CODE], found[_PYTHON] = digest(codes), "{}.{}".format(*sys.version_info[:2])
    functions, look = operator_functions(node.op), Look(WHOLE_BYTES, _MOST)
    writes = functools.reduce(Writes.joined, map(writes_of_function, functions), NOTHING)
    written = written_to(functions)
    for name, value in unwritten(captured, writes):
        text = None if name in written else look.text(value, writes.unnamed)
        if text is not None:
            found[name] = digest([found[name], text]) if name in found else text
    arrays = getattr(node.op, "aliased_arrays", None) or getattr(node.op, "rows_to_know_by", None)
    if arrays:
        found[_DATA] = digest([look.data(array) for array in arrays])
    names = getattr(node.op, "file_names", None)
    if names:
        found[_FILES] = digest(list(names))
    if not node.inputs and node.spec.element is not UNSEEN:
        structure, leaves = spec_nest(node.spec.element)
        found[_ELEMENTS] = digest([repr(structure.by_key()), *(str(leaves[i]) for i in structure.places_by_key())])
    if node.op.part is not None:
        found[_PART] = f"{node.op.part_index} of {node.op.part[0]}"
    return found
