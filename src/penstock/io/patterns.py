"""Names of files with `*`, `?` and `[…]` in them, as tf.data reads them."""

from __future__ import annotations

import os
import re

__all__ = ["as_regex", "matches"]

_WILD = re.compile(r"[*?\[\\]")


def matches(pattern: str) -> list[str]:
    """The paths that match, spelled as tf.data spells them."""
    wild = _WILD.search(pattern)
    if wild is None:
        return [pattern] if os.path.exists(pattern) else []
    fixed = pattern.rfind("/", 0, wild.start()) + 1
    paths = [pattern[:fixed] or "./"]
    for part in filter(None, pattern[fixed:].split("/")):
        fits = re.compile(as_regex(part), re.DOTALL).fullmatch
        # Every path but the last ones is a folder, and ends in a slash or is about to get one.
        folders = [path if path.endswith("/") else path + "/" for path in paths]
        paths = [folder + name for folder in folders for name in _entries(folder) if fits(name)]
    return paths


def _entries(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # not a folder, gone, or not ours to read: nothing in it matches
        return []


def as_regex(part: str) -> str:
    """One part of a pattern as a regular expression."""
    out, i = "", 0
    while i < len(part):
        char = part[i]
        i += 1
        if char == "*":
            out += ".*"
        elif char == "?":
            out += "."
        elif char == "\\":
            out += re.escape(part[i]) if i < len(part) else r"(?!)"
            i += 1
        elif char == "[":
            text, i = _bracket(part, i)
            out += text
        else:
            out += re.escape(char)
    return out


def _bracket(part: str, start: int) -> tuple[str, int]:
    """The set that begins after a `[`, and where it ends; one that is never closed is only a bracket."""
    negated = part[start : start + 1] in ("!", "^")
    first = i = start + negated
    items = ""
    while i < len(part) and (part[i] != "]" or i == first):  # a `]` that comes first stands for itself
        low, i = _literal(part, i)
        high = low
        if part[i : i + 1] == "-" and part[i + 1 : i + 2] not in ("", "]"):
            high, i = _literal(part, i + 1)
        if low <= high:
            items += f"{re.escape(low)}-{re.escape(high)}"
    if i >= len(part):
        return r"\[", start
    return (f"[{'^' if negated else ''}{items}]" if items else "." if negated else r"(?!)"), i + 1


def _literal(part: str, i: int) -> tuple[str, int]:
    """The character at i, or after a backslash, and what comes next."""
    return (part[i + 1], i + 2) if part[i] == "\\" and i + 1 < len(part) else (part[i], i + 1)
