"""Options: how a run behaves. None of them changes what it yields."""

from __future__ import annotations

import contextlib
import dataclasses
import numbers
import operator
import os
import re
from typing import Any

from .errors import BadArgument, BadType

__all__ = ["AUTOTUNE", "MOST_THREADS", "Options", "flag", "parse_bytes", "parse_memory"]

#: Leaves a number (of parallel calls, of prefetched elements) to measured rates.
AUTOTUNE = -1
#: Where a number of threads is given, so many are started at most, whatever it is: more would only wait for each other.
MOST_THREADS = 1024

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
        spill_dir: Where buffers that outgrow the budget go, in a directory of their own that is removed with the run.
            Default: the system's directory for temporary files.
        spill_limit: Bytes that a run and its caches may have there at a time: a number, or `"20GB"`. Default: as many
            as the disk has.
        progress: Whether filling a buffer or writing a cache may show a progress bar, on a terminal. Default True.
        resume_changed: Whether a saved position may be loaded though the code of functions, what they have captured, or
            data have changed since. Default False: that is a `StateError`, which says what changed.

    >>> Options(memory="64MB").merged(Options(spill_limit="20GB")) == Options(memory="64MB", spill_limit="20GB")
    True
    """

    memory: int | float | str | None = None
    optimize: bool | None = None
    deterministic: bool | None = None
    spill_dir: str | os.PathLike[str] | None = None
    spill_limit: int | str | None = None
    progress: bool | None = None
    resume_changed: bool | None = None

    def __post_init__(self) -> None:
        if self.memory is not None:
            parse_memory(self.memory, available_bytes=2**62)
        if self.spill_dir is not None:
            _check_path("spill_dir", self.spill_dir)
        if self.spill_limit is not None:
            parse_bytes("spill_limit", self.spill_limit)
        for name in ("optimize", "deterministic", "progress", "resume_changed"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, bool):
                raise BadType(f"{name}: expected True or False, got {type(value).__name__} {value!r:.60}")

    def merged(self, other: Options) -> Options:
        """These options with the fields that `other` sets."""
        changes = {f.name: getattr(other, f.name) for f in dataclasses.fields(other)}
        return dataclasses.replace(self, **{name: value for name, value in changes.items() if value is not None})


def flag(name: str, value: Any) -> bool | None:
    """An argument that is True or False, or None where nothing is said, checked."""
    if value is None or type(value) is bool:
        return value
    if type(value).__name__ in ("bool", "bool_") and hasattr(value, "dtype"):  # NumPy's, which is not loaded for this
        return bool(value)
    raise BadType(f"{name}: expected True or False, got {type(value).__name__} {value!r:.60}")


_MOST_BYTES = 1 << 100


def parse_memory(memory: Any, available_bytes: int) -> int:
    """A budget in bytes.

    >>> parse_memory("64MB", 0), parse_memory("2GiB", 0), parse_memory(0.5, 1000), parse_memory(4096, 0)
    (64000000, 2147483648, 500, 4096)
    """
    how = "use bytes (64_000_000), text ('64MB', '2GiB') or a fraction of available memory (0.25)"
    if not isinstance(memory, numbers.Real) or isinstance(memory, numbers.Integral):
        return _parse_size("memory", memory, how)
    memory = float(memory)  # NumPy's too
    if not 0 < memory <= 1:
        raise BadArgument(f"memory: a fraction must be in (0, 1], got {memory}; {how}")
    nbytes = int(memory * available_bytes)
    if not nbytes:
        raise BadArgument(f"memory: expected more than 0 bytes, got {memory!r}; {how}")
    return nbytes


def parse_bytes(name: str, value: Any) -> int:
    """A size in bytes that an argument gives.

    >>> parse_bytes("spill_limit", "20GB")
    20000000000
    """
    return _parse_size(name, value, "use bytes (20_000_000_000) or text ('20GB', '2GiB')")


def _parse_size(name: str, value: Any, how: str) -> int:
    is_size = isinstance(value, str)
    if not is_size and not isinstance(value, bool):
        with contextlib.suppress(TypeError):  # an array has `__index__`, but only one of a single integer is one
            value, is_size = operator.index(value), True
    if not is_size:
        raise BadType(f"{name}: expected a number or text, got {type(value).__name__} {value!r:.60}; {how}")
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([0-9][0-9_,]*(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", value)
        unit = _UNITS.get(match[2].upper()) if match else None
        if match is None or unit is None or (unit == 1 and "." in match[1]):  # "1.5" of what?
            raise BadArgument(f"{name}: cannot read {value!r}; {how}")
        number = float(match[1].replace("_", "").replace(",", ""))
        nbytes = int(min(number, _MOST_BYTES) * unit)
    else:
        nbytes = value
    if nbytes >= _MOST_BYTES:
        raise BadArgument(f"{name}: expected less than 2**100 bytes, got more; {how}")  # Python may refuse to print it
    if nbytes <= 0:
        raise BadArgument(f"{name}: expected more than 0 bytes, got {value!r}; {how}")
    return nbytes


def _check_path(name: str, path: Any) -> None:
    if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str):
        raise BadType(f"{name}: expected the path of a directory, got {type(path).__name__} {path!r:.60}")
    if not os.fspath(path):
        raise BadArgument(f"{name}: expected the path of a directory, got none; leave it out for the usual one")
