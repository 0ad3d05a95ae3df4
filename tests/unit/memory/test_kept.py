"""Kept elements: in memory while others have enough, on disk when they do not, on every ledger that has joined."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.block import Block
from penstock.errors import SpillError
from penstock.memory.batch_index import BatchIndex
from penstock.memory.kept import KeptElements
from penstock.memory.ledger import Ledger, Share
from penstock.memory.overflow import Overflow
from penstock.memory.place import Stretch
from penstock.memory.sealing import sealed
from penstock.memory.spill import SpillSpace


@pytest.fixture
def space(tmp_path: Path) -> SpillSpace:
    return SpillSpace(str(tmp_path))


def joined(kept: KeptElements, budget_bytes: int) -> Share:
    share = Ledger(budget_bytes).share("cache")
    kept.join(share)
    return share


def over(share: Share) -> None:
    """Its run is."""
    share._ledger.close()


def append(kept: KeptElements, *rows: Any) -> None:
    new = [sealed(row) for row in rows]
    while new:
        new = new[len(kept.append(new)) :]
        if new:
            kept.make_room()


def read(kept: KeptElements, number: int, n: int = 1) -> list[Any]:
    found = kept.find(number, n)
    if isinstance(found, Stretch):
        return found.place.reader.read(found.place.stored)[found.offset :][:n]
    return [] if found is None else found.rows()


def all_of(kept: KeptElements) -> list[int]:
    return [int(np.ravel(read(kept, i)[0])[0]) for i in range(kept.num_kept)]


def on_disk(kept: KeptElements) -> list[int]:
    return [i for i in range(kept.num_kept) if isinstance(kept.find(i, 1), Stretch)]


def sparing() -> Share:
    """One of a sample, for datasets that a function makes."""
    ledger = Ledger(10_000_000)
    ledger.frugal = True
    share = ledger.share("flat_map")
    share.num_datasets = 1
    return share


def test_small_ones_are_stacked(space: SpillSpace) -> None:
    kept = KeptElements(Overflow(lambda: space))
    share = joined(kept, 1_000_000)
    for start in range(0, 1000, 100):
        append(kept, *np.arange(start, start + 100))
    block = kept.find(0, 50)
    assert isinstance(block, Block)
    assert block.columns is not None
    assert block.size == 50
    assert all_of(kept) == list(range(1000))
    assert share.charged_bytes == kept.nbytes < 1000 * 64
    assert kept.find(1000, 1) is None
    over(share)
    assert share.charged_bytes == 0


def test_a_quarter_is_left_to_others(space: SpillSpace) -> None:
    kept = KeptElements(Overflow(lambda: space))
    share = joined(kept, 200_000)
    for i in range(100):
        append(kept, np.full(1000, i))
    assert share.free_bytes >= 40_000
    assert share.charged_bytes >= 100_000
    assert all_of(kept) == list(range(100))
    assert on_disk(kept)[-1] > 90
    assert on_disk(kept)[0] > 5  # the first ones stay
    assert share.spilled_bytes == kept.stored_bytes < space.used_bytes


def test_it_gives_way_to_a_stage_that_is_short(space: SpillSpace) -> None:
    kept = KeptElements(Overflow(lambda: space))
    ledger = Ledger(200_000)
    share, other = ledger.share("cache"), ledger.share("batch")
    kept.join(share)
    for i in range(11):  # the last one waits for what would be stored with it
        append(kept, np.full(1000, i))
    assert on_disk(kept) == []
    other.charge(150_000)
    assert ledger.charged_bytes <= 200_000
    assert on_disk(kept) == list(range(on_disk(kept)[0], 10))
    assert 0 < on_disk(kept)[0] < 8  # no more than was asked for
    other.charge(30_000)
    assert all_of(kept) == list(range(11))


def test_what_somebody_looks_at_stays(space: SpillSpace) -> None:
    kept = KeptElements(Overflow(lambda: space))
    ledger = Ledger(400_000)
    share, other = ledger.share("cache"), ledger.share("batch")
    kept.join(share)
    for i in range(11):  # the last one waits for what would be stored with it
        append(kept, (np.full(2000, i), np.int64(i)))
    held = read(kept, 9)[0]
    view = read(kept, 7)[0][0][5:9]
    other.charge(300_000)
    assert 9 not in on_disk(kept)
    assert 7 not in on_disk(kept)
    assert on_disk(kept)
    assert int(held[1]) == 9
    del held
    other.charge(50_000)
    assert 9 in on_disk(kept)
    assert view.tolist() == [7] * 4


def test_every_run_has_it_on_its_ledger(space: SpillSpace) -> None:
    kept = KeptElements(Overflow(lambda: space))
    large = joined(kept, 1_000_000)
    for i in range(10):
        append(kept, np.full(1000, i))
    small = joined(kept, 60_000)
    assert small.charged_bytes == large.charged_bytes == kept.nbytes < 60_000
    append(kept, np.full(1000, 10))
    assert small.charged_bytes == large.charged_bytes == kept.nbytes
    kept.join(small)
    assert small.charged_bytes == kept.nbytes  # once, however many cursors read
    over(small)
    assert small.charged_bytes == 0
    assert all_of(kept) == list(range(11))


def test_elements_of_another_kind_go_to_another_file(space: SpillSpace) -> None:
    kept = KeptElements(Overflow(lambda: space))
    joined(kept, 40_000)
    for i in range(60):
        append(kept, np.full(500, i) if i // 20 != 1 else {"a": np.full(500, i, np.float32)})
    assert all_of_any(kept) == list(range(60))
    assert len(os.listdir(space.directory)) >= 4  # three, and the lock


def all_of_any(kept: KeptElements) -> list[int]:
    rows = [read(kept, i)[0] for i in range(kept.num_kept)]
    return [int(row["a"][0] if isinstance(row, dict) else row[0]) for row in rows]


def test_what_cannot_be_stored_is_kept_in_memory_only(space: SpillSpace) -> None:
    class Files:
        failed = False
        index: BatchIndex | None = None

        def store(self, rows: list[Any]) -> None:
            return None

        def finish(self) -> None: ...

    kept = KeptElements(Files())
    share = joined(kept, 40_000)
    for i in range(60):
        append(kept, np.full(500, i))
        if kept.num_kept <= i:
            break
    assert 4 <= kept.num_kept < 10
    assert share.charged_bytes <= 40_000
    smaller = joined(kept, 12_000)
    assert smaller.charged_bytes <= 12_000
    assert all_of(kept) == list(range(kept.num_kept))


@pytest.mark.parametrize("limit", [10_000, 30_000])
def test_a_full_disk_loses_nothing(tmp_path: Path, limit: int) -> None:
    space = SpillSpace(str(tmp_path), limit)
    kept = KeptElements(Overflow(lambda: space))
    share = joined(kept, 60_000)

    def fill() -> None:
        while True:
            append(kept, np.full(1000, kept.num_kept))

    with pytest.raises(SpillError, match="limit"):
        fill()
    assert all_of(kept) == list(range(kept.num_kept))
    assert share.charged_bytes == kept.nbytes
    space.limit_bytes = None
    for _ in range(10):
        append(kept, np.full(1000, kept.num_kept))
    assert all_of(kept) == list(range(kept.num_kept))


def test_nothing_is_kept_without_files() -> None:
    kept = KeptElements(None)
    joined(kept, 1000)
    append(kept, np.int64(1))
    assert kept.num_kept == 0
    assert kept.find(0, 1) is None


@pytest.mark.parametrize(
    "element, expected",
    [
        (np.int64(1), 40),
        (b"text", 40),
        (np.zeros(1000), 8000),
        ((np.zeros(1000), np.int8(1)), 8000),
        ({"a": np.zeros(10)}, 80),
    ],
)
def test_python_objects_count(element: Any, expected: int) -> None:
    assert expected < sealed(element)[1] < expected + 500


def test_what_no_file_can_hold(space: SpillSpace) -> None:
    assert Overflow(lambda: space).store([object()]) is None
    assert space.used_bytes == 0


def test_a_smaller_run_moves_each_chunk_once(space: SpillSpace) -> None:
    kept = KeptElements(Overflow(lambda: space))
    first = joined(kept, 1_000_000)
    for i in range(23):
        append(kept, np.full(1000, i))
    assert not on_disk(kept)
    over(first)
    share = joined(kept, 30_000)
    assert share.charged_bytes == kept.nbytes <= 30_000 * 3 // 4
    assert all_of(kept) == list(range(kept.num_kept))
    assert len(on_disk(kept)) > 10


def test_what_is_too_large_for_a_smaller_run_goes_to_disk_in_pieces(space: SpillSpace) -> None:
    kept = KeptElements(Overflow(lambda: space))
    first = joined(kept, 10_000_000)
    for i in range(300):  # the second chunk is the tail
        append(kept, np.full(100 + i, i))
    over(first)
    share = joined(kept, 200_000)
    assert share.charged_bytes == kept.nbytes <= 200_000 * 3 // 4
    places = {found.place for i in on_disk(kept) if isinstance(found := kept.find(i, 1), Stretch)}
    assert len(places) > 30
    assert max(place.stored.nbytes for place in places) < 200_000 // 8
    assert all_of(kept) == list(range(300))
    over(share)


def test_rows_that_are_alike_can_be_read_one_by_one(space: SpillSpace) -> None:
    kept = KeptElements(Overflow(lambda: space))
    share = joined(kept, 800_000)
    for i in range(0, 200, 4):
        append(kept, *[np.full(1000, i + j) for j in range(4)])
    found = kept.find(190, 1)
    assert isinstance(found, Stretch)
    rows = found.place.rows
    assert rows is not None
    columns = rows.kind.empty(1, np.empty)
    rows.read(found.place.reader, found.offset, 1, columns, 0)
    assert (columns[0] == 190).all()
    assert found.place.index_bytes > 340  # what is known of its rows counts as well
    over(share)


def test_places_that_follow_each_other_on_disk_are_remembered_together(space: SpillSpace) -> None:
    kept = KeptElements(Overflow(lambda: space))
    ledger = Ledger(100_000)
    share, other = ledger.share("cache"), ledger.share("batch")
    kept.join(share)
    other.charge(90_000)
    for i in range(15):
        append(kept, np.full(1000, i))
    charged = [share.charged_bytes]
    while kept.shorten_index():
        charged.append(share.charged_bytes)
        assert all_of(kept) == list(range(15))
        assert [int(read(kept, i)[0][0]) for i in reversed(range(15))] == list(reversed(range(15)))
    assert len(charged) == 5
    assert charged == sorted(charged, reverse=True)
    assert charged[-1] == kept.nbytes == 340
    over(share)
    assert share.charged_bytes == 0


def test_what_follows_them_comes_after_them(space: SpillSpace) -> None:
    kept = KeptElements(Overflow(lambda: space))
    ledger = Ledger(100_000)
    share, other = ledger.share("cache"), ledger.share("batch")
    kept.join(share)
    other.charge(90_000)
    for i in range(40):
        append(kept, np.full(1000, i))
        if i % 7 == 0:
            kept.shorten_index()
    assert all_of(kept) == list(range(40))


def test_the_index_has_room_where_others_let_go(space: SpillSpace) -> None:
    """Nothing is free while elements are appended, but who is asked has something to spare."""
    kept = KeptElements(Overflow(lambda: space))
    ledger = Ledger(100_000)
    share, other = ledger.share("cache"), ledger.share("batch")
    kept.join(share)
    spare = [other.acquire(99_900)]
    ledger.on_shortage(lambda: spare and spare.pop().settle(0))
    append(kept, np.full(1000, 0))
    assert kept.num_kept == 1
    assert not spare


def test_places_on_disk_are_on_the_ledger_or_nothing_more_is_kept(space: SpillSpace) -> None:
    kept = KeptElements(Overflow(lambda: space))
    ledger = Ledger(100_000)
    share, other = ledger.share("cache"), ledger.share("batch")
    kept.join(share)
    other.charge(99_600)
    append(kept, np.full(1000, 0))
    assert kept.num_kept == 0
    other.discharge(90_000)
    append(kept, np.full(1000, 99))
    assert kept.num_kept == 0  # this pass has lost some; the next goes on from there
    kept.join(share)
    for i in range(20):
        append(kept, np.full(1000, i))
        assert kept.nbytes == share.charged_bytes
    assert all_of(kept) == list(range(20))


def test_what_somebody_looks_at_goes_to_disk_for_a_smaller_run(space: SpillSpace) -> None:
    kept = KeptElements(Overflow(lambda: space))
    large = joined(kept, 1_000_000)
    for i in range(50):
        append(kept, np.full(1000, i))
    looked_at = [read(kept, i)[0] for i in range(50)]
    over(large)
    small = joined(kept, 60_000)
    assert kept.num_kept == 50
    assert all_of(kept) == [int(row[0]) for row in looked_at] == list(range(50))
    assert small.charged_bytes == kept.nbytes <= 45_000


def test_views_are_as_long_on_disk_as_they_are(space: SpillSpace) -> None:
    """They take nothing while they are views; a chunk of many would be more than any budget."""
    kept = KeptElements(Overflow(lambda: space))
    share = joined(kept, 400_000)
    array = np.arange(40 * 20_000, dtype=np.uint8).reshape(40, 20_000)
    array.flags.writeable = False
    for row in array:
        append(kept, row)
    share.charge(share.free_bytes)
    kept._give_way(share)
    places = [found.place for i in range(40) if isinstance(found := kept.find(i, 1), Stretch)]
    assert max((place.stored.nbytes for place in places), default=0) < 60_000


def test_strings_that_everybody_has_keep_nothing_in_memory(space: SpillSpace) -> None:
    """There is one empty string in a process, and who holds it does not hold the element."""
    kept = KeptElements(Overflow(lambda: space))
    share = sparing()
    kept.join(share)
    for i in range(2000):
        append(kept, b"x" * (i % 100))
    assert share.charged_bytes < 30_000
    assert read(kept, 1901) == [b"x"]


def test_a_sample_of_what_a_function_makes_keeps_nothing_in_memory(space: SpillSpace) -> None:
    kept = KeptElements(Overflow(lambda: space))
    early = joined(kept, 10_000_000)
    append(kept, *[np.full(1000, i) for i in range(5)])
    assert on_disk(kept) == []
    over(early)
    share = sparing()
    kept.join(share)
    append(kept, *[np.full(2000, i) for i in range(5, 100)])
    assert all_of(kept) == list(range(100))
    assert share.peak_bytes < 64 * 500  # places on disk, and no element


def test_it_is_on_the_ledger_until_the_run_is_over(space: SpillSpace) -> None:
    """Though nobody reads it any more: it is in memory."""
    kept = KeptElements(Overflow(lambda: space))
    share = joined(kept, 400_000)
    for i in range(20):
        append(kept, np.full(1000, i))
    kept.join(share)
    assert share.charged_bytes == kept.nbytes > 150_000
    over(share)
    assert share.charged_bytes == 0 < kept.nbytes


def test_what_nobody_has_any_more_is_on_no_ledger(space: SpillSpace) -> None:
    kept = KeptElements(Overflow(lambda: space))
    ledger = Ledger(400_000)
    kept.join(ledger.share("flat_map"))
    append(kept, np.zeros(10_000))
    assert ledger.charged_bytes >= 80_000
    del kept
    assert ledger.charged_bytes == 0
    ledger.let_go(400_000)  # asks nobody who is gone
    ledger.close()


def test_what_one_run_looks_at_is_not_counted_by_another(space: SpillSpace) -> None:
    """A smaller run has it moved to disk; for who holds it, it is the cache's, and stays on the ledger of that run."""
    kept = KeptElements(Overflow(lambda: space))
    large = joined(kept, 1_000_000)
    for i in range(50):
        append(kept, np.full(1000, i))
    looked_at = [read(kept, i)[0] for i in range(50)]
    before = large.charged_bytes
    small = joined(kept, 60_000)
    assert small.charged_bytes == kept.nbytes <= 45_000
    assert large.charged_bytes > before * 0.95
    looked_at.clear()
    append(kept, np.full(1000, 50))
    assert large.charged_bytes == small.charged_bytes == kept.nbytes


def test_what_is_forgotten_is_counted_while_somebody_looks_at_it(
    space: SpillSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Overflow(lambda: space)
    monkeypatch.setattr(files, "store", lambda rows: None)
    kept = KeptElements(files)
    large = joined(kept, 1_000_000)
    append(kept, *[np.full(1000, i) for i in range(9)])
    looked_at = read(kept, 8)[0]
    small = joined(kept, 60_000)
    assert kept.num_kept == 0
    assert small.charged_bytes == 0
    assert large.charged_bytes >= looked_at.nbytes
    del looked_at
    joined(kept, 60_000)
    assert large.charged_bytes == 0


def test_an_element_that_is_kept_twice_is_held_by_nobody_else(space: SpillSpace) -> None:
    """As those of windows that overlap: both go to disk, and off the ledger."""
    kept = KeptElements(Overflow(lambda: space))
    ledger = Ledger(400_000)
    share, other = ledger.share("cache"), ledger.share("batch")
    kept.join(share)
    for i in range(6):
        array = np.full(3000, i)
        append(kept, array)
        append(kept, array)
        del array
    assert on_disk(kept) == []
    other.charge(320_000)
    assert len(on_disk(kept)) > 6
    assert all_of(kept) == [i for i in range(6) for _ in range(2)]
    assert share.charged_bytes == kept.nbytes < 80_000
