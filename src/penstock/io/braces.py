"""Names with braces, as WebDataset writes many shards in one: `s-{000..127}.tar`, `{train,test}.tar`."""

from __future__ import annotations

import itertools
import re

from ..errors import BadArgument

__all__ = ["expand_braces"]

_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")
_MOST_NAMES = 1_000_000


def expand_braces(name: str) -> list[str]:
    """The names that one with braces means, the last braces the first to change; one without means itself.

    Numbers have as many characters as the longer bound if one of the bounds begins with a zero. What is in braces and
    is neither a range nor a list stays as it is.

    >>> expand_braces("{a,b}-{08..10}.tar")
    ['a-08.tar', 'a-09.tar', 'a-10.tar', 'b-08.tar', 'b-09.tar', 'b-10.tar']
    """
    names = [""]
    for i, part in enumerate(_BRACES.split(name)):  # text, and what stands in braces, in turn
        choices = _choices(part, _MOST_NAMES // len(names)) if i % 2 else [part]
        if choices is None:
            raise BadArgument(f"expected a name that means at most {_MOST_NAMES:,} files, got {name!r:.80}")
        names = [begin + end for begin, end in itertools.product(names, choices)]
    return names


def _choices(inside: str, most: int) -> list[str] | None:
    """What stands in braces one by one; None if it is too much."""
    found = _RANGE.fullmatch(inside)
    if found is None:
        choices = inside.split(",") if "," in inside else [f"{{{inside}}}"]
        return choices if len(choices) <= most else None
    first, last = int(found[1]), int(found[2])
    if abs(last - first) >= most:
        return None
    is_padded = any(len(digits) > 1 and digits.startswith("0") for digits in (s.lstrip("-") for s in found.groups()))
    width = max(map(len, found.groups())) if is_padded else 0
    step = 1 if first <= last else -1
    return [f"{number:0{width}}" for number in range(first, last + step, step)]
