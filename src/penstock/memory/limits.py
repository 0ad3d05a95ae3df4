"""What this process may use: the container's limit before the host's memory."""

from __future__ import annotations

import functools
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["CGROUPS", "Group", "available_bytes", "free_address_bytes", "memory_groups"]

CGROUPS = "/sys/fs/cgroup"
_NO_LIMIT = 1 << 60


class Group(NamedTuple):
    """A control group that this process is in, as far as memory goes."""

    path: Path
    limit_bytes: int
    usage_file: str
    #: The line of `memory.stat` with what the kernel could drop at once.
    reclaimable: str


def available_bytes(cgroup_root: str = CGROUPS) -> int:
    """Bytes of memory that this process may use at all."""
    host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([host, *(group.limit_bytes for group in memory_groups(cgroup_root))])


@functools.cache
def memory_groups(cgroup_root: str = CGROUPS) -> list[Group]:
    """This process's groups that have a limit: its own and all above it, of cgroup v2 and v1; looked up once."""
    groups = []
    for path, limit_file, usage_file, reclaimable in _candidates(Path(cgroup_root)):
        try:
            text = (path / limit_file).read_text().strip()
        except OSError:
            continue
        if text.isdigit() and 0 < int(text) < _NO_LIMIT:
            groups.append(Group(path, int(text), usage_file, reclaimable))
    return groups


def _candidates(root: Path) -> Iterator[tuple[Path, str, str, str]]:
    group = _own_group()
    while True:
        inner = group.lstrip("/")
        yield root / inner, "memory.max", "memory.current", "inactive_file"
        yield root / "memory" / inner, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
        if not inner:
            return
        group = group.rpartition("/")[0]


def _own_group() -> str:
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return ""
    groups = {}
    for line in lines:
        number, controllers, path = line.split(":", 2)
        groups["memory" if "memory" in controllers.split(",") else number] = path
    return groups.get("memory") or groups.get("0") or ""


def free_address_bytes() -> int | None:
    """Bytes of addresses that this process may still take; None where there is no limit on them."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:  # not Linux
        return None
    return max(0, limit - pages * os.sysconf("SC_PAGE_SIZE"))
