"""The facts about the machine that a figure means nothing without."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

import psutil

PACKAGES = ("penstock", "numpy", "tensorflow-cpu", "tensorflow", "torch", "grain")


def machine_facts() -> dict[str, object]:
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
        "versions": {name: found for name in PACKAGES if (found := _version(name))},
    }


def is_busy(facts: dict[str, object]) -> bool:
    """Whether others use so much of the machine that wall-clock rates suffer."""
    load, cores = facts["load_before"], facts["cores"]
    assert isinstance(load, float)
    assert isinstance(cores, int)
    return load > 0.5 * cores


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
