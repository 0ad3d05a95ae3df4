"""The index of TFRecord files where several readers need it at a time."""

import itertools
import threading
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.io import record_index
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
            found["ahead"], room = index.files(Reader(ledger.share("read")))  # type: ignore[arg-type]
            room.release()

    def go_on() -> None:
        found["caller"], _ = index.files(Reader(Ledger(1_000_000).share("read")))  # type: ignore[arg-type]

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


NUM_MANY = 20_000
INDEX_BYTES = 8 * (NUM_MANY + 2)  # of two files


@pytest.fixture
def many(tmp_path: Path) -> list[str]:
    """Two files of small records: their index takes as much as some budgets."""
    for part in range(2):
        records = [b"%d" % i for i in range(part, NUM_MANY, 2)]
        (tmp_path / f"many-{part}").write_bytes(framed(*records))
    return [str(tmp_path / f"many-{part}") for part in range(2)]


ORDERS = {
    "window": lambda dataset: dataset.shuffle(500, seed=1),
    "all": lambda dataset: dataset.shuffle(seed=1),
    "shard": lambda dataset: dataset.shard(4, 1),
    "skip": lambda dataset: dataset.shuffle(50, seed=2).skip(NUM_MANY - 300),
}


@pytest.mark.parametrize("order", ORDERS)
def test_an_index_without_room_in_memory_lies_on_disk(many: list[str], order: str) -> None:
    expected = list(ORDERS[order](ps.TFRecordDataset(many)))
    dataset = ORDERS[order](ps.TFRecordDataset(many)).batch(16)
    with dataset.run(memory="120kB") as run:
        first = [record for batch in itertools.islice(run, 5) for record in batch.tolist()]
        assert run.stats()["spilled_bytes"] >= INDEX_BYTES
        assert run.ledger.peak_bytes <= 120_000
        position = run.state_dict()
    assert run.ledger.charged_bytes == 0
    with ORDERS[order](ps.TFRecordDataset(many)).batch(16).run(memory="120kB") as run:  # another index, as large
        run.load_state_dict(position)
        assert first + [record for batch in run for record in batch.tolist()] == expected


def test_the_smallest_budget_has_no_index_in_it(many: list[str]) -> None:
    dataset = ps.TFRecordDataset(many).shuffle(50, seed=1).batch(16)
    minimum = dataset.explain(sample=4).minimum_bytes
    assert minimum < INDEX_BYTES // 2
    with dataset.run(memory=minimum, epoch=0) as run, dataset.run(memory="4MB", epoch=0) as other:
        for batch, expected in itertools.islice(zip(run, other, strict=True), 100):
            assert batch.tolist() == expected.tolist()


def test_each_run_has_the_index_where_it_has_room(many: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[str] = []
    indexed = record_index._indexed
    monkeypatch.setattr(record_index, "_indexed", lambda path, *rest: walked.append(path) or indexed(path, *rest))
    dataset = ps.TFRecordDataset(many).shuffle(50, seed=1, reshuffle_each_iteration=False)
    expected = list(dataset.run(memory="4MB"))
    for memory, is_held in ((120_000, False), (4_000_000, True), (120_000, False), (130_000, False)):
        with dataset.run(memory=memory) as run:
            assert list(itertools.islice(run, 300)) == expected[:300]
            assert (run.stats()["on_disk_bytes"] == 0) == is_held
            assert not is_held or run.ledger.charged_bytes >= INDEX_BYTES
    assert walked == many
    # Of runs that are open at the same time, too.
    with dataset.run(memory=120_000) as small, dataset.run(memory="4MB") as large:
        for records in (expected[:3000], expected[3000:6000]):
            assert list(itertools.islice(small, 3000)) == records
            assert list(itertools.islice(large, 3000)) == records


def test_nothing_of_it_is_left_behind_in_the_spill_directory(many: list[str], tmp_path: Path) -> None:
    (tmp_path / "spill").mkdir()
    dataset = ps.TFRecordDataset(many).shard(100, 3).with_options(ps.Options(spill_dir=str(tmp_path / "spill")))
    for _ in range(2):
        with dataset.run(memory="120kB") as run:
            assert len(list(itertools.islice(run, 100))) == 100
            assert run.stats()["on_disk_bytes"] >= INDEX_BYTES
        assert list((tmp_path / "spill").iterdir()) == []


@pytest.mark.parametrize("limit", [1, 50_000, 120_000])
def test_without_room_on_disk_the_index_is_in_memory_if_that_has_room(many: list[str], limit: int) -> None:
    options = ps.Options(spill_limit=limit)
    dataset = ps.TFRecordDataset(many).shuffle(50, seed=1).with_options(options)
    with dataset.run(memory="450kB") as run:
        assert len(list(run)) == NUM_MANY
        assert run.ledger.peak_bytes >= (INDEX_BYTES if limit < INDEX_BYTES // 2 else INDEX_BYTES // 2)
    assert run.ledger.charged_bytes == 0
    with pytest.raises(ps.errors.OverBudget):
        next(ps.TFRecordDataset(many).shuffle(50, seed=1).with_options(options).run(memory="60kB"))
