"""What does a program that reads JPEGs take beyond one that has NumPy alone? `python -m benchmarks.jpeg_memory`

The workloads `jpeg` and `jpeg-shuffle` of `make bench` leave out what libraries take when they are imported and when
they start their threads. Who chooses between two libraries gets that with either.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.bench_images import (
    FILES,
    Folder,
    build_penstock,
    build_penstock_shuffle,
    build_tf_data,
    build_tf_data_shuffle,
)
from benchmarks.harness import ROOT, child_environment
from benchmarks.memory import held_bytes

BUILDS: dict[str, Any] = {
    "penstock": build_penstock,
    "tf.data": build_tf_data,
    "penstock, shuffle(1000)": build_penstock_shuffle,
    "tf.data, shuffle(1000)": build_tf_data_shuffle,
}
_LOOK_S = 0.005


def read_all(name: str, folder: str) -> None:
    """What a child does, once it is told to begin: one epoch."""
    print("ready", flush=True)
    sys.stdin.readline()
    names = sorted(map(str, Path(folder).iterdir()))
    for _ in BUILDS[name](SimpleNamespace(names=names))():
        pass


def measure(name: str, folder: str) -> int:
    """By how much a process grows that has nothing but NumPy, and these benchmarks, before."""
    code = f"from benchmarks.jpeg_memory import read_all; read_all({name!r}, {folder!r})"
    command, env = [sys.executable, "-c", code], child_environment()
    with subprocess.Popen(
        command, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()
        before = peak = held_bytes(child.pid)
        child.stdin.write("\n")
        child.stdin.flush()
        while child.poll() is None:
            peak = max(peak, held_bytes(child.pid))
            time.sleep(_LOOK_S)
    if child.returncode:
        raise SystemExit(f"{name} failed")
    return peak - before


def main() -> None:
    folder = Folder(FILES)
    for name in BUILDS:
        print(f"{name}: {measure(name, str(Path(folder.names[0]).parent)) / 1e6:,.0f} MB", flush=True)


if __name__ == "__main__":
    main()
