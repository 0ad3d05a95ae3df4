"""Pressure: whether the system is short of memory, looked at four times a second at most.

There is no thread: who asks for memory that he could do without, and the run when it is asked for an element, look at
the clock, and now and then at the system. Pressure only ever shrinks: under it nobody makes more ahead than one
element, caches and shuffle buffers stop growing in memory, and what is held without need is let go.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from .allocator import trim_heap
from .limits import CGROUPS, Group, memory_groups

__all__ = ["Pressure", "PromisedMemory", "anonymous_bytes", "page_cache_bytes", "resident_bytes"]

_PERIOD_S = 0.25
# After so long, and twice as long each time, `at_look` is called for the first times: many runs are over sooner.
_FIRST_S = 0.001
# Of a container's limit, counting only what the kernel cannot drop at once.
_FULL = 0.9
# Percent of time in which some task waited for memory, over the last ten seconds.
_STALLED = 10.0
# How much more than the ledger has the process may have grown by before the heap is looked through: seldom, if it grows
# again each time. That is a model's steps, which would pay for their pages anew.
_SPARE_BYTES = 8 << 20
_MOST_SELDOM_S = 16.0
# And how much more than the budget, at any time.
_BEYOND_BUDGET_BYTES = 1 << 20
# Which is looked at whenever this part of the budget has come into being.
_PARTS_WATCHED = 64
# What a run may leave behind in the heap, for the next one to use: this, or that part of the budget.
_LEFT_BYTES = 2 << 20
# What one could not give back the next one fills first: up to this part of its budget, as a model may have taken it.
_FILLED_PART = 8
# A look through the heap that gave back less was in vain: what the process has grown by is somebody's, a model's say.
_WORTH_BYTES = 1 << 20

# Of the last run that used much of the heap.
_left_bytes = 0


def resident_bytes(proc: str = "/proc/self") -> int:
    """Bytes of memory this process really occupies: anonymous and shared pages, not files in the page cache."""
    return sum(_anonymous_and_shared_bytes(proc))


def _anonymous_and_shared_bytes(proc: str) -> tuple[int, int]:
    try:
        # Not by way of Path: every run looks once, and short ones feel it.
        file = os.open(f"{proc}/status", os.O_RDONLY)
    except OSError:
        import psutil

        return int(psutil.Process().memory_info().rss), 0
    try:
        text = os.read(file, 1 << 14)
    finally:
        os.close(file)
    return _kilobytes(text, b"RssAnon:"), _kilobytes(text, b"RssShmem:")


def _kilobytes(status: bytes, name: bytes) -> int:
    start = status.find(name)
    return 0 if start < 0 else int(status[start + len(name) :].split(None, 1)[0]) * 1024


def anonymous_bytes(proc: str = "/proc/self") -> int:
    """As `resident_bytes`, without shared pages, in a tenth of the time; 0 where the system does not say."""
    try:
        file = os.open(f"{proc}/statm", os.O_RDONLY)
    except OSError:
        return 0
    try:
        _, resident, shared, *_ = os.read(file, 256).split()
    finally:
        os.close(file)
    return (int(resident) - int(shared)) * mmap.PAGESIZE


class PromisedMemory:
    """What the system has promised to this process for itself: memory counts from when it is asked for, not written to.

    The file stays open: a look takes a quarter of the time then.
    """

    def __init__(self, proc: str = "/proc/self") -> None:
        try:
            self._file: int | None = os.open(f"{proc}/statm", os.O_RDONLY)
        except OSError:
            self._file = None

    def nbytes(self) -> int:
        """0 where the system does not say."""
        return 0 if self._file is None else int(os.pread(self._file, 256, 0).split()[5]) * mmap.PAGESIZE

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def page_cache_bytes(proc: str = "/proc/self") -> int:
    """Bytes of files that this process has mapped and that lie in the kernel's page cache."""
    for line in _read(Path(proc, "status")).splitlines():
        if line.startswith("RssFile:"):
            return int(line.split()[1]) * 1024
    return 0


class Pressure:
    """Looks at the system for one run.

    Args:
        budget_bytes: The run's budget: a process that grew by twice as much, in a container or on a machine that has
            not as much left, is under pressure too.
        held_bytes: What the run has on its ledger: where the process has grown by much more, malloc is told to give
            back what it holds without need.
        at_look: Called now and then, in any thread: soon at first, and in the end when memory is looked at.
    """

    def __init__(
        self,
        budget_bytes: int,
        held_bytes: Callable[[], int] = lambda: 0,
        at_look: Callable[[], object] = lambda: None,
        cgroup_root: str = CGROUPS,
        proc: str = "/proc",
    ) -> None:
        self._budget_bytes = budget_bytes
        self._held_bytes = held_bytes
        self._at_look = at_look
        self._proc = Path(proc)
        self._groups = memory_groups(cgroup_root)
        self._next_look = 0.0
        self._next_call, self._call_period_s = 0.0, _FIRST_S
        self._next_tidy, self._tidy_period_s = 0.0, _PERIOD_S
        self._baseline_bytes: int | None = None
        self._anonymous_baseline_bytes = 0
        self._unwatched_bytes = 0
        self._looked_at_heap = False
        self._next_trim = 0.0
        self._kept_bytes = 0
        #: Why there is pressure now; empty if there is none.
        self.reason = ""
        #: How many times it set in.
        self.num_times = 0

    @property
    def growth_bytes(self) -> int:
        """How much the process has grown since the first look."""
        if self._baseline_bytes is None:
            return 0
        return max(0, resident_bytes(str(self._proc / "self")) - self._baseline_bytes)

    def begin(self, kept_bytes: int = 0) -> None:
        """Takes what the process occupies now as what it had before the run.

        But for so much, which is in its budget: what caches keep of runs before, and what others hold of its pool.
        """
        anonymous, shared = _anonymous_and_shared_bytes(f"{self._proc}/self")
        anonymous -= kept_bytes
        self._baseline_bytes = anonymous + shared
        self._anonymous_baseline_bytes = anonymous - min(_left_bytes, self._budget_bytes // _FILLED_PART)
        now = monotonic()
        self._next_look, self._next_call = now + _PERIOD_S, now + _FIRST_S

    def is_on(self) -> bool:
        """Whether the system is short of memory; looks again if the last look was long ago."""
        now = monotonic()
        if now >= self._next_call:
            self._call_period_s = min(2 * self._call_period_s, _PERIOD_S)
            self._next_call = now + self._call_period_s
            self._at_look()
        if now >= self._next_look:
            self._next_look = now + _PERIOD_S
            if now >= self._next_tidy and self.growth_bytes > self._held_bytes() + _SPARE_BYTES:
                self._tidy_period_s = min(2 * self._tidy_period_s, _MOST_SELDOM_S)
                self._next_tidy = now + self._tidy_period_s
                trim_heap()
            reason = self._look()
            self.num_times += bool(reason and not self.reason)
            self.reason = reason
        return bool(self.reason)

    def watch_heap(self, nbytes: int) -> None:
        """So many bytes are about to be: has malloc give back what lies between arrays, if that is beyond the budget.

        In any thread: while buffers are filled nobody pulls from the run. Threads may get in each other's way here, and
        then look a little sooner or later.
        """
        self._unwatched_bytes += nbytes
        if self._unwatched_bytes > self._budget_bytes // _PARTS_WATCHED:
            self._unwatched_bytes = 0
            self._looked_at_heap = True
            self._at_look()
            before = anonymous_bytes(f"{self._proc}/self")
            beyond_bytes = before - self._anonymous_baseline_bytes - self._budget_bytes
            if beyond_bytes > _BEYOND_BUDGET_BYTES and self._is_trim_due(before):
                trim_heap()
                self._kept_bytes = anonymous_bytes(f"{self._proc}/self")
                in_vain = before - self._kept_bytes < _WORTH_BYTES
                self._next_trim = monotonic() + _PERIOD_S if in_vain else 0.0

    def _is_trim_due(self, anonymous_bytes: int) -> bool:
        """Not soon after one that was in vain, unless the process has grown since then."""
        return anonymous_bytes > self._kept_bytes + 2 * _WORTH_BYTES or monotonic() >= self._next_trim

    def end(self) -> None:
        """The run holds nothing any more: has malloc give back what it left, or the next run would begin with it."""
        global _left_bytes
        if not self._looked_at_heap:  # a short run, or one that needs little, and should not be kept from ending
            return
        left_bytes = anonymous_bytes(f"{self._proc}/self") - self._anonymous_baseline_bytes
        if left_bytes > max(_LEFT_BYTES, self._budget_bytes // _PARTS_WATCHED):
            trim_heap()
            _left_bytes = max(0, anonymous_bytes(f"{self._proc}/self") - self._anonymous_baseline_bytes)

    def _look(self) -> str:
        for group in self._groups:
            used = _unreclaimable_bytes(group)
            if used > _FULL * group.limit_bytes:
                return f"the container uses {used:,} of {group.limit_bytes:,} bytes"
            if self._outgrown(group.limit_bytes - used):
                return f"the process has grown by {self.growth_bytes:,} bytes, and the container has no more to give"
        stalled = self._stalled_percent()
        if stalled > _STALLED:
            return f"tasks waited for memory {stalled:.0f} % of the time"
        if self._outgrown(self._host_free_bytes()):
            return f"the process has grown by {self.growth_bytes:,} bytes, and the machine has no more to give"
        return ""

    def _outgrown(self, left_bytes: int) -> bool:
        """Whether the process grew far beyond the budget where there is no room for it.

        Where there is room, its growth is no sign: models grow too.
        """
        return left_bytes < self._budget_bytes and self.growth_bytes > 2 * self._budget_bytes

    def _stalled_percent(self) -> float:
        text = _read(self._proc / "pressure" / "memory")
        for line in text.splitlines():
            if line.startswith("some "):
                for field in line.split():
                    if field.startswith("avg10="):
                        return float(field[6:])
        return 0.0

    def _host_free_bytes(self) -> int:
        for line in _read(self._proc / "meminfo").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return 1 << 60


def _unreclaimable_bytes(group: Group) -> int:
    usage = _read(group.path / group.usage_file).strip()
    if not usage.isdigit():
        return 0
    for line in _read(group.path / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name == group.reclaimable and value.strip().isdigit():
            return int(usage) - int(value)
    return int(usage)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
