"""Memory of a process as the operating system sees it: anonymous and shared pages, no files.

Pages of mapped files (libraries, page cache) are left out: the system takes them back when it wants to.
"""

from __future__ import annotations

import psutil


def held_bytes(pid: int, *, with_workers: bool = False) -> int:
    """Bytes that process `pid` holds now; with `with_workers`, together with all its descendants.

    A forked worker shares most of its pages with its parent. The sum therefore takes proportional sizes, in
    which a page shared by n processes counts 1/n for each.
    """
    if not with_workers:
        return _sum_kb(f"/proc/{pid}/status", ("RssAnon", "RssShmem"))
    total = 0
    try:
        tree = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for process in tree:
        total += _sum_kb(f"/proc/{process.pid}/smaps_rollup", ("Pss_Anon", "Pss_Shmem"))
    return total


def _sum_kb(path: str, keys: tuple[str, ...]) -> int:
    total = 0
    try:
        with open(path) as lines:
            for line in lines:
                key, _, rest = line.partition(":")
                if key in keys:
                    total += int(rest.split()[0]) * 1024
    except (FileNotFoundError, ProcessLookupError):  # it ended between two looks
        return 0
    return total
