"""Options: how a run behaves. None of them changes what it yields."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from .errors import BadArgument, BadType

__all__ = ["AUTOTUNE", "Options", "parse_memory"]

#: Leaves a number (of parallel calls, of prefetched elements) to measured rates.
AUTOTUNE = -1

_UNITS = {
    "": 1, "B": 1,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
    "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40,
}  # fmt: skip
DEFAULT_MEMORY_FRACTION = 0.25


@dataclasses.dataclass(frozen=True)
class Options:
    """Settings of a run; fields left None take the default.

    Args:
        memory: The budget: bytes, `"512MB"`, `"2GiB"`, or a fraction of what this process may use. Default 0.25.
        optimize: Whether the rules may rewrite the plan. Default True; results are the same either way.
        deterministic: Whether parallel stages keep the order of elements. Default True.

    >>> Options(memory="64MB").merged(Options(optimize=False))
    Options(memory='64MB', optimize=False, deterministic=None)
    """

    memory: int | float | str | None = None
    optimize: bool | None = None
    deterministic: bool | None = None

    def __post_init__(self) -> None:
        if self.memory is not None:
            parse_memory(self.memory, available_bytes=2**62)

    def merged(self, other: Options) -> Options:
        """These options with the fields that `other` sets."""
        changes = {f.name: getattr(other, f.name) for f in dataclasses.fields(other)}
        return dataclasses.replace(self, **{name: value for name, value in changes.items() if value is not None})


def parse_memory(memory: Any, available_bytes: int) -> int:
    """A budget in bytes.

    >>> parse_memory("64MB", 0), parse_memory("2GiB", 0), parse_memory(0.5, 1000), parse_memory(4096, 0)
    (64000000, 2147483648, 500, 4096)
    """
    how = "use bytes (64_000_000), text ('64MB', '2GiB') or a fraction of available memory (0.25)"
    if isinstance(memory, bool) or (not isinstance(memory, (int, float, str)) and not hasattr(memory, "__index__")):
        raise BadType(f"memory: expected a number or text, got {type(memory).__name__} {memory!r}; {how}")
    if isinstance(memory, str):
        match = re.fullmatch(r"\s*([0-9][0-9_,]*(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", memory)
        unit = _UNITS.get(match[2].upper()) if match else None
        if match is None or unit is None:
            raise BadArgument(f"memory: cannot read {memory!r}; {how}")
        nbytes = int(float(match[1].replace("_", "").replace(",", "")) * unit)
    elif isinstance(memory, float):
        if not 0 < memory <= 1:
            raise BadArgument(f"memory: a fraction must be in (0, 1], got {memory}; {how}")
        nbytes = int(memory * available_bytes)
    else:
        nbytes = int(memory)
    if nbytes <= 0:
        raise BadArgument(f"memory: expected more than 0 bytes, got {memory!r}; {how}")
    return nbytes
