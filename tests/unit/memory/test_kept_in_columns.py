"""Kept elements that are small and alike lie in columns from the first, and others one by one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.block import Block
from penstock.element import Structure
from penstock.memory.kept import KeptElements
from penstock.memory.ledger import Ledger, Share
from penstock.memory.overflow import Overflow
from penstock.memory.place import Stretch
from penstock.memory.sealing import sealed
from penstock.memory.spill import SpillSpace

BUDGET_BYTES = 4_000_000


@pytest.fixture
def kept(tmp_path: Path) -> KeptElements:
    return KeptElements(Overflow(lambda: SpillSpace(str(tmp_path))))


def joined(kept: KeptElements, budget_bytes: int = BUDGET_BYTES) -> Share:
    share = Ledger(budget_bytes).share("cache")
    kept.join(share)
    return share


def row(i: int) -> dict[str, Any]:
    return {"image": np.full((3, 2), i, np.float32), "label": np.int64(i)}


def block(start: int, stop: int) -> Block:
    return Block.of_rows([row(i) for i in range(start, stop)])


def labels(kept: KeptElements) -> list[int]:
    found: list[int] = []
    while len(found) < kept.num_kept:
        part = kept.find(len(found), 1000)
        assert part is not None
        rows = part.place.reader.read(part.place.stored)[part.offset :] if isinstance(part, Stretch) else part.rows()
        assert all(np.array_equal(one["image"], row(int(one["label"]))["image"]) for one in rows)
        found += [int(one["label"]) for one in rows]
    return found


def fill(kept: KeptElements, stop: int, size: int = 7) -> None:
    while kept.num_kept < stop:
        size = min(size, stop - kept.num_kept, kept.num_together(32))
        assert kept.append_alike(kept.num_kept, block(kept.num_kept, kept.num_kept + size)) is not None


def test_they_are_given_as_they_are_kept(kept: KeptElements) -> None:
    share = joined(kept)
    shown = kept.append_alike(0, block(0, 5))
    assert shown is not None
    assert shown.columns is not None
    assert [int(x["label"]) for x in shown.rows()] == list(range(5))
    assert not any(column.flags.writeable for column in shown.columns)
    assert share.charged_bytes >= 5 * 32
    again = kept.find(2, 2)
    assert isinstance(again, Block)
    assert again.columns is not None
    assert np.shares_memory(again.columns[0], shown.columns[0])


@pytest.mark.parametrize("size", [1, 7, 100])
def test_many_are_read_again(kept: KeptElements, size: int) -> None:
    share = joined(kept)
    fill(kept, 1_000, size)
    assert labels(kept) == list(range(1_000))
    kept.finish()
    assert labels(kept) == list(range(1_000))
    # Chunks have 32 elements, 32, 64, 128, then 256: no more than what is kept, and the objects of seven of them.
    assert 1_000 * 32 <= share.charged_bytes <= 1_000 * 32 + 7 * 512
    share._ledger.close()
    assert share.charged_bytes == 0


def test_columns_are_taken_over_in_the_machines_order_of_bytes(kept: KeptElements) -> None:
    joined(kept)
    structure = Structure.of(row(0))
    columns = [np.zeros((4, 3, 2), ">f4"), np.arange(4, dtype=">i8")]
    shown = kept.append_alike(0, Block.of_columns(structure, columns, 4))
    assert shown is not None
    assert shown.columns is not None
    assert [column.dtype for column in shown.columns] == [np.dtype("<f4"), np.dtype("<i8")]
    columns[1][:] = 7
    assert [int(x["label"]) for x in shown.rows()] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "other",
    [
        {"image": np.zeros((3, 3), np.float32), "label": np.int64(0)},
        {"image": np.zeros((3, 2), np.float64), "label": np.int64(0)},
        {"image": np.zeros((3, 2), np.float32), "label": np.int32(0)},
        {"image": np.zeros((3, 2), np.float32), "label": b"0"},
        {"image": np.zeros((3, 2), np.float32)},
        np.zeros((3, 2), np.float32),
    ],
    ids=["shape", "dtype", "scalar", "string", "keys", "nest"],
)
def test_what_is_not_alike_is_kept_singly(kept: KeptElements, other: Any) -> None:
    share = joined(kept)
    fill(kept, 10)
    assert kept.append_alike(10, Block.of_rows([row(10), other])) is None
    assert labels(kept) == list(range(10))
    assert kept.append([sealed(row(10))]) == [True]
    assert labels(kept) == list(range(11))
    share._ledger.close()
    assert share.charged_bytes == 0


@pytest.mark.parametrize("element", [b"text", np.zeros(10_000), ps.Ragged(np.arange(3), np.array([0, 1, 3]))], ids=type)
def test_what_has_no_place_in_columns_is_not_taken(kept: KeptElements, element: Any) -> None:
    share = joined(kept)
    assert kept.append_alike(0, Block.of_rows([element])) is None
    assert (kept.num_kept, share.charged_bytes) == (0, 0)


def test_views_of_what_lives_anyway_are_not_copied(kept: KeptElements) -> None:
    joined(kept)
    array = np.zeros((4, 1_000))
    array.flags.writeable = False
    assert kept.append_alike(0, Block.of_columns(Structure.of(array[0]), [array], 4)) is None


def test_only_those_that_come_next_are_taken(kept: KeptElements) -> None:
    joined(kept)
    fill(kept, 3)
    assert kept.append_alike(2, block(2, 4)) is None
    assert kept.append_alike(4, block(4, 6)) is None
    assert labels(kept) == [0, 1, 2]


def test_without_room_nothing_is_taken(kept: KeptElements) -> None:
    share = joined(kept)
    share.charge(BUDGET_BYTES // 4 * 3)
    before = share.charged_bytes
    assert kept.append_alike(0, block(0, 5)) is None
    assert share.charged_bytes == before


def test_what_somebody_looks_at_is_on_the_ledger_also_when_it_went_to_disk(kept: KeptElements) -> None:
    share = joined(kept)
    fill(kept, 128)  # three chunks
    looked_at = [kept.find(3, 1)]
    small = joined(kept, 2_500)  # a run that has no room for them
    assert isinstance(kept.find(3, 1), Stretch)
    held = share.charged_bytes
    looked_at.clear()
    assert kept.append_alike(127, block(127, 128)) is None  # a look at what nobody looks at any more
    assert share.charged_bytes <= held - 32 * 32
    assert labels(kept) == list(range(128))
    small._ledger.close()
