"""The index of TFRecord files where several readers need it at a time."""

import threading
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.io.record_index import RecordIndex
from penstock.memory.ledger import Ledger, Share
from penstock.runtime.progress import ProgressBar
from tests.unit.io.test_tfrecord import SHORT, framed

WAIT_S = 20


class Reader:
    """As much of a stage's context as an index asks for."""

    def __init__(self, share: Share) -> None:
        self.share = share

    def progress(self, what: str, total: int) -> ProgressBar:
        return ProgressBar(what, total, enabled=False)


@pytest.fixture
def paths(tmp_path: Path) -> tuple[str, ...]:
    for name in "ab":
        (tmp_path / name).write_bytes(framed(*SHORT))
    return str(tmp_path / "a"), str(tmp_path / "b")


def test_who_needs_the_index_does_not_wait_for_one_who_waits_for_memory(paths: tuple[str, ...]) -> None:
    index = RecordIndex(paths)
    ledger = Ledger(1_000_000)
    in_the_callers_hands = ledger.share("prefetch").acquire(1_000_000)
    waits, released = threading.Event(), threading.Event()
    found: dict[str, Any] = {}

    def caller_may_release() -> bool:
        waits.set()
        return not released.is_set()

    def work_ahead() -> None:
        with ledger.waiting_while(caller_may_release):
            found["ahead"] = index.files(Reader(ledger.share("read")))  # type: ignore[arg-type]

    def go_on() -> None:
        found["caller"] = index.files(Reader(Ledger(1_000_000).share("read")))  # type: ignore[arg-type]

    ahead, caller = (threading.Thread(target=target, daemon=True) for target in (work_ahead, go_on))
    ahead.start()
    assert waits.wait(WAIT_S)
    caller.start()
    caller.join(WAIT_S)
    try:
        assert not caller.is_alive(), "waits for one who waits for what only this one can release"
    finally:
        in_the_callers_hands.release()
        released.set()
        ahead.join(WAIT_S)
    assert [file.num_records for file in found["caller"]] == [len(SHORT)] * 2
    # The files were gone through twice, and one index of each is kept.
    assert all(mine is other for mine, other in zip(found["ahead"], found["caller"], strict=True))
    assert ledger.charged_bytes == 0


def test_a_dataset_read_in_several_places_at_a_time(paths: tuple[str, ...]) -> None:
    records = ps.TFRecordDataset(list(paths)).shuffle(seed=1, reshuffle_each_iteration=False)
    twice = records.concatenate(records).prefetch(1)
    dataset = ps.Dataset.zip(twice, records.repeat(2).prefetch(2))
    rows: list[Any] = []
    reader = threading.Thread(target=lambda: rows.extend(dataset.run(memory="1MB")), daemon=True)
    reader.start()
    reader.join(WAIT_S)
    assert not reader.is_alive()
    assert [first for first, _ in rows] == [second for _, second in rows]
    assert sorted(first for first, _ in rows) == sorted(4 * SHORT)
