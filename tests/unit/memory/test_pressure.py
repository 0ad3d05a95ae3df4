"""Pressure, read from directories that look like the kernel's."""

from pathlib import Path

import numpy as np
import pytest

from penstock.memory import limits
from penstock.memory.pressure import Pressure, anonymous_bytes

GB = 10**9


def system(root: Path, *, rss_kb: int = 1000, psi: float = 0.0, available_kb: int = 10**9, **files: object) -> None:
    """A machine: its /proc, and its control groups."""
    texts = {
        "proc/self/status": f"Name:\tpython\nRssAnon:\t{rss_kb} kB\nRssShmem:\t0 kB\n",
        "proc/pressure/memory": f"some avg10={psi:.2f} avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00\n",
        "proc/meminfo": f"MemTotal: 999 kB\nMemAvailable: {available_kb} kB\n",
        **{f"cgroup/{name.replace('__', '.')}": str(text) for name, text in files.items()},
    }
    for name, text in texts.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(limits, "_own_group", lambda: "")
    monkeypatch.setattr("penstock.memory.pressure._PERIOD_S", 0.0)
    return tmp_path


def look(root: Path, budget_bytes: int = GB) -> Pressure:
    pressure = Pressure(budget_bytes, cgroup_root=str(root / "cgroup"), proc=str(root / "proc"))
    pressure.begin()
    return pressure


def test_there_is_none_on_a_machine_with_room(watched: Path) -> None:
    system(watched, memory__max=8 * GB, memory__current=2 * GB)
    assert not look(watched).is_on()


def test_a_full_container(watched: Path) -> None:
    system(watched, memory__max=8 * GB, memory__current=7_900_000_000)
    pressure = look(watched)
    assert pressure.is_on()
    assert pressure.reason == "the container uses 7,900,000,000 of 8,000,000,000 bytes"


def test_what_the_kernel_can_drop_does_not_count(watched: Path) -> None:
    system(watched, memory__max=8 * GB, memory__current=7_900_000_000, memory__stat=f"anon 5\ninactive_file {4 * GB}\n")
    assert not look(watched).is_on()


def test_a_full_container_of_the_first_version(watched: Path) -> None:
    (watched / "cgroup" / "memory").mkdir(parents=True)
    system(watched)
    (watched / "cgroup/memory/memory.limit_in_bytes").write_text(f"{8 * GB}\n")
    (watched / "cgroup/memory/memory.usage_in_bytes").write_text(f"{8 * GB}\n")
    (watched / "cgroup/memory/memory.stat").write_text("total_inactive_file 100\n")
    assert look(watched).is_on()


def test_tasks_that_wait_for_memory(watched: Path) -> None:
    system(watched, psi=35.2)
    pressure = look(watched)
    assert pressure.is_on()
    assert "35 % of the time" in pressure.reason


@pytest.mark.parametrize("available_kb, on", [(100_000, True), (10**8, False)])
def test_a_process_that_outgrew_its_budget_where_there_is_no_room(watched: Path, available_kb: int, on: bool) -> None:
    """Where there is room its growth is no sign: models grow too."""
    system(watched, rss_kb=1000)
    pressure = look(watched)
    system(watched, rss_kb=3_000_000, available_kb=available_kb)
    assert pressure.is_on() == on
    assert pressure.growth_bytes == (3_000_000 - 1000) * 1024


def test_what_caches_keep_of_runs_before_is_no_part_of_what_there_was(watched: Path) -> None:
    system(watched, rss_kb=5000)
    pressure = Pressure(GB, cgroup_root=str(watched / "cgroup"), proc=str(watched / "proc"))
    pressure.begin(kept_bytes=2000 * 1024)
    assert pressure.growth_bytes == 2000 * 1024


def test_it_sets_in_and_passes(watched: Path) -> None:
    pressure = look(watched)
    for psi, on, times in ((0, False, 0), (50, True, 1), (60, True, 1), (0, False, 1), (50, True, 2)):
        system(watched, psi=psi)
        assert (pressure.is_on(), pressure.num_times) == (on, times)


def test_it_looks_seldom(watched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.memory.pressure._PERIOD_S", 3600.0)
    system(watched, psi=0)
    pressure = look(watched)
    system(watched, psi=50)
    assert not pressure.is_on()


def test_a_system_that_says_nothing_is_not_short(watched: Path) -> None:
    pressure = Pressure(GB, cgroup_root=str(watched / "none"), proc=str(watched / "none"))
    assert not pressure.is_on()


def test_a_heap_that_holds_much_more_than_the_ledger_is_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    trimmed: list[int] = []
    monkeypatch.setattr("penstock.memory.pressure.trim_heap", lambda: trimmed.append(1))
    monkeypatch.setattr("penstock.memory.pressure.monotonic", lambda: clock[0])
    grown, held, clock = [0], [0], [0.0]
    monkeypatch.setattr("penstock.memory.pressure._anonymous_and_shared_bytes", lambda proc: (grown[0], 0))
    pressure = Pressure(GB, lambda: held[0])
    pressure.begin()
    for now, grown_bytes, held_bytes, times in [
        (1, 40 << 20, 39 << 20, 0),
        (2, 60 << 20, 39 << 20, 1),
        (2.1, 70 << 20, 0, 1),
    ]:
        clock[0], grown[0], held[0] = now, grown_bytes, held_bytes
        pressure.is_on()
        assert len(trimmed) == times


def test_a_heap_that_fills_again_each_time_is_trimmed_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model's steps take and free as much again: each look through the heap would cost them their pages."""
    trimmed: list[float] = []
    clock = [0.0]
    monkeypatch.setattr("penstock.memory.pressure.trim_heap", lambda: trimmed.append(clock[0]))
    monkeypatch.setattr("penstock.memory.pressure.monotonic", lambda: clock[0])
    grown = [0]
    monkeypatch.setattr("penstock.memory.pressure._anonymous_and_shared_bytes", lambda proc: (grown[0], 0))
    pressure = Pressure(GB)
    pressure.begin()
    grown[0] = 60 << 20
    for quarter in range(1, 401):
        clock[0] = quarter * 0.25
        pressure.is_on()
    assert trimmed[:4] == [0.25, 0.75, 1.75, 3.75]
    assert len(trimmed) < 12
    assert max(trimmed) > 80


def test_what_is_done_at_looks_begins_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, called = [0.0], list[float]()
    monkeypatch.setattr("penstock.memory.pressure.monotonic", lambda: clock[0])
    pressure = Pressure(GB, at_look=lambda: called.append(clock[0]))
    pressure.begin()
    for millisecond in range(1, 2001):
        clock[0] = millisecond / 1000
        pressure.is_on()
    assert called[:3] == [0.001, 0.003, 0.007]
    assert 8 <= len(called) <= 20


class Heap:
    """A process whose memory is a number, and whose heap gives back what it is told to have to spare."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, budget_bytes: int) -> None:
        self.grown_bytes = self.spare_bytes = self.num_trims = 0
        self.now = 0.0
        monkeypatch.setattr("penstock.memory.pressure.trim_heap", self.trim)
        monkeypatch.setattr("penstock.memory.pressure.monotonic", lambda: self.now)
        monkeypatch.setattr("penstock.memory.pressure.anonymous_bytes", lambda proc: self.grown_bytes)
        monkeypatch.setattr("penstock.memory.pressure._anonymous_and_shared_bytes", lambda proc: (self.grown_bytes, 0))
        monkeypatch.setattr("penstock.memory.pressure._left_bytes", 0)  # by runs of other tests
        self.pressure = Pressure(budget_bytes)
        self.pressure.begin()

    def trim(self) -> None:
        self.num_trims += 1
        self.grown_bytes -= self.spare_bytes

    def grow(self, grown_bytes: int, spare_bytes: int) -> None:
        self.grown_bytes, self.spare_bytes = grown_bytes, spare_bytes


MB = 1_000_000


def test_a_heap_beyond_the_budget_is_trimmed_as_bytes_come_into_being(monkeypatch: pytest.MonkeyPatch) -> None:
    heap = Heap(monkeypatch, budget_bytes=64 * MB)
    heap.grow(64 * MB, 9 * MB)
    heap.pressure.watch_heap(2 * MB)
    assert heap.num_trims == 0
    heap.grow(74 * MB, 9 * MB)
    heap.pressure.watch_heap(MB // 2)  # not enough came into being for a look
    assert heap.num_trims == 0
    heap.pressure.watch_heap(MB)
    assert (heap.num_trims, heap.grown_bytes) == (1, 65 * MB)
    heap.grow(74 * MB, 9 * MB)
    heap.pressure.watch_heap(2 * MB)
    assert heap.num_trims == 2


def test_a_heap_that_has_nothing_to_give_back_is_left_alone_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's model grew by a gigabyte."""
    heap = Heap(monkeypatch, budget_bytes=64 * MB)
    heap.grow(GB, 0)
    for now, times in ((0, 1), (0.1, 1), (0.2, 1), (0.3, 2), (0.4, 2)):
        heap.now = now
        heap.pressure.watch_heap(2 * MB)
        assert heap.num_trims == times


def test_a_heap_that_grew_after_a_trim_in_vain_is_trimmed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    heap = Heap(monkeypatch, budget_bytes=64 * MB)
    for grown_bytes, spare_bytes, times in ((70 * MB, 0, 1), (71 * MB, MB, 1), (75 * MB, 5 * MB, 2)):
        heap.grow(grown_bytes, spare_bytes)
        heap.pressure.watch_heap(2 * MB)
        assert heap.num_trims == times


@pytest.mark.parametrize(
    "made_bytes, left_bytes, times", [(2 * MB, 1 * MB, 0), (2 * MB, 10 * MB, 1), (MB // 2, 10 * MB, 0)]
)
def test_what_a_run_leaves_in_the_heap_goes_back_if_it_made_much(
    monkeypatch: pytest.MonkeyPatch, made_bytes: int, left_bytes: int, times: int
) -> None:
    heap = Heap(monkeypatch, budget_bytes=64 * MB)
    heap.pressure.watch_heap(made_bytes)
    heap.grow(left_bytes, left_bytes)
    heap.pressure.end()
    assert heap.num_trims == times


@pytest.mark.parametrize("left_bytes, beyond_bytes", [(5 * MB, 66 * MB + MB // 2), (500 * MB, 558 * MB)])
def test_what_a_run_could_not_give_back_the_next_one_fills_first(
    monkeypatch: pytest.MonkeyPatch, left_bytes: int, beyond_bytes: int
) -> None:
    """But for a model's memory: an eighth of the budget at most."""
    heap = Heap(monkeypatch, budget_bytes=64 * MB)
    heap.pressure.watch_heap(2 * MB)
    heap.grow(left_bytes, 0)
    heap.pressure.end()
    second = Pressure(64 * MB)
    second.begin()
    assert second._anonymous_baseline_bytes == max(0, left_bytes - 8 * MB)
    times = heap.num_trims
    for grown_bytes, more in ((beyond_bytes - 2 * MB, 0), (beyond_bytes, 1)):
        heap.grow(grown_bytes, 0)
        second.watch_heap(2 * MB)
        assert heap.num_trims == times + more


def test_a_system_that_does_not_say_what_a_process_occupies(watched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.memory.pressure.trim_heap", lambda: pytest.fail("nothing is known of the heap"))
    pressure = look(watched, budget_bytes=1000)
    pressure.watch_heap(GB)
    pressure.end()


def test_anonymous_memory_is_that_of_arrays() -> None:
    before = anonymous_bytes()
    data = np.ones(4 * MB)
    assert 30 * MB < anonymous_bytes() - before < 40 * MB
    del data
