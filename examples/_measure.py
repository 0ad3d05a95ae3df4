"""What the examples share: each contender in a process of its own, its rate, its memory as the system sees it.

A contender is a function of the program's arguments that returns a dict. "digest" says which data it saw, and must be
the same for all contenders that have one, or for those whose names have the same beginning up to a comma, where
`compare` is told that there are several `kinds` of data. The other entries are columns of the table that is printed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from penstock.observe.process import PeakMemory

Contender = Callable[[argparse.Namespace], dict[str, Any]]

# Quiet, and without a device that would have memory of its own.
ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "KERAS_BACKEND": "tensorflow"}


class Watch(PeakMemory):
    """How long a block took, and by how much the process grew meanwhile."""

    seconds = 0.0

    def __enter__(self) -> Watch:
        super().__enter__()
        self._start = time.perf_counter()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.seconds = time.perf_counter() - self._start
        super().__exit__(*exc_info)

    @property
    def growth_mb(self) -> float:
        return self.growth_bytes / 1e6


def digest_of(batches: Iterable[Any]) -> str:
    """A short name for the bytes of all batches, in their order."""
    digest = hashlib.blake2b(digest_size=8)
    for batch in batches:
        for part in batch if isinstance(batch, tuple) else (batch,):
            array = np.ascontiguousarray(part)
            digest.update(f"{array.dtype} {array.shape}".encode())
            digest.update(array)
    return digest.hexdigest()


def compare(contenders: dict[str, Contender], parser: argparse.ArgumentParser, kinds: bool = False) -> int:
    """Runs all contenders one after the other and prints a table; the exit code tells whether their data are equal."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--only", choices=tuple(contenders), help="run this contender, in this process")
    arguments = parser.parse_args()
    if arguments.only:
        print(json.dumps(contenders[arguments.only](arguments)))
        return 0
    found = {name: in_a_process_of_its_own(name) for name in contenders}
    digests: dict[str, set[str]] = {}
    for name, result in found.items():
        if "digest" in result:
            digests.setdefault(name.split(",")[0] if kinds else "", set()).add(result.pop("digest"))
    equal = all(len(seen) == 1 for seen in digests.values())
    if arguments.json:
        print(json.dumps({"equal": equal, "contenders": found}))
    else:
        print_table(found)
        print("All saw the same data." if equal else "THEIR DATA DIFFER.")
    return 0 if equal else 1


def in_a_process_of_its_own(name: str) -> dict[str, Any]:
    print(f"{name} …", file=sys.stderr, flush=True)  # some take minutes
    command = [sys.executable, *sys.argv, "--only", name]
    done = subprocess.run(command, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def print_table(found: dict[str, dict[str, Any]]) -> None:
    columns = list(dict.fromkeys(column for result in found.values() for column in result))
    width = max(map(len, found)) + 2
    print(" " * width + "".join(f"{column:>{len(column) + 3}}" for column in columns))
    for name, result in found.items():
        cells = (f"{shown(result.get(column)):>{len(column) + 3}}" for column in columns)
        print(f"{name:<{width}}" + "".join(cells))


def shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}"
    return str(value)
