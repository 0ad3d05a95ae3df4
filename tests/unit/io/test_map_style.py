"""Numbered items as a source, without a framework; see also tests/adapters/test_from_torch.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from penstock.dataset import Dataset
from penstock.io.map_style import FromMapStyle
from penstock.plan.node import Node, caller_origin
from penstock.testing import check_source


class Items:
    """Arrays by number; number 7 fails."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __getitem__(self, place: int) -> Any:
        self.asked.append(place)
        if place == 7:
            raise KeyError("seven")
        return {"n": place, "row": np.full(1000, place)}


def dataset_of(items: Any, num: int) -> Dataset:
    return Dataset(Node(FromMapStyle(items, num), (), caller_origin()))


def test_only_what_is_asked_for_is_read() -> None:
    items = Items()
    found = [int(element["n"]) for element in dataset_of(items, 100).shuffle(seed=1).shard(10, 3)]
    assert found == items.asked
    assert len(found) == 10


def test_laws() -> None:
    check_source(dataset_of([np.arange(3) * n for n in range(20)], 20))


def test_an_item_that_fails_keeps_its_place() -> None:
    run = dataset_of(Items(), 9).skip(6).run()
    assert int(next(run)["n"]) == 6
    with pytest.raises(KeyError) as caught:
        next(run)
    assert caught.value.__notes__[0].endswith("element 7")
    assert int(next(run)["n"]) == 8


def test_a_small_dataset_within_another_is_whole_where_there_is_no_room_for_it_at_once() -> None:
    def inner(i: Any) -> Dataset:
        return dataset_of([np.full(1 if i < 3 else 30_000, n) for n in range(20)], 20)

    firsts = Dataset.range(12).flat_map(inner).map(lambda row: row[0]).batch(64)
    assert [n for batch in firsts.run(memory="2MB") for n in batch] == list(range(20)) * 12


def test_items_stay_within_the_budget() -> None:
    with dataset_of(Items(), 5).batch(2).run(memory=100_000) as run:
        assert [len(batch["n"]) for batch in run] == [2, 2, 1]
        assert run.ledger.peak_bytes <= 100_000
