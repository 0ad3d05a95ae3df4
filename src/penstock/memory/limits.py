"""What this process may use: the container's limit before the host's memory."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["available_bytes"]

_NO_LIMIT = 1 << 60


def available_bytes(cgroup_root: str = "/sys/fs/cgroup") -> int:
    """Bytes of memory that this process may use at all."""
    host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([host, *_container_limits(Path(cgroup_root))])


def _container_limits(root: Path) -> list[int]:
    """Limits of cgroup v2 (this group and all above it) and v1, where they can be read."""
    files = [root / "memory.max", root / "memory" / "memory.limit_in_bytes"]
    group = _own_group()
    while group not in ("", "/"):
        files += [
            root / group.lstrip("/") / "memory.max",
            root / "memory" / group.lstrip("/") / "memory.limit_in_bytes",
        ]
        group = group.rpartition("/")[0]
    limits = []
    for file in files:
        try:
            text = file.read_text().strip()
        except OSError:
            continue
        if text.isdigit() and 0 < int(text) < _NO_LIMIT:
            limits.append(int(text))
    return limits


def _own_group() -> str:
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0" or "memory" in controllers.split(","):
            return path
    return ""
