"""Pieces: how many elements a thread takes at a time, from what they cost."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from penstock.block import Block
from penstock.runtime.backends.pieces import Pieces

IMAGE = Block.of_rows([np.zeros(500_000, np.uint8)])
NUMBER = Block.of_rows([np.zeros(4, np.uint8)])
MS = 1_000_000


def pieces(free_bytes: int = 1 << 30, level: int = 2, may_reach: bool = True) -> Pieces:
    share: Any = SimpleNamespace(free_bytes=free_bytes)
    tuner: Any = SimpleNamespace(level=level)
    return Pieces(share, tuner, may_reach)


def after(made: Pieces, element_ns: int, result: Block = IMAGE, count: int = 200) -> Pieces:
    for _ in range(count):
        made.size(32)
        made.measure(1, 100, result, element_ns)
        made.num_delivered += 1
    return made


def test_images_for_a_batch_are_gathered() -> None:
    made = after(pieces(), MS)
    assert made.size(32) == 4
    assert made.size(1) == 4  # the rest of a batch: the next follows
    assert made.most(starving=False) == made.most(starving=True) == 3


def test_some_were_delivered_before_any_are_gathered() -> None:
    made = after(pieces(), MS, count=40)
    assert made.size(32) == 1
    assert made.most(starving=False) == 4


def test_a_demand_for_few_gathers_none() -> None:
    made = pieces()
    for _ in range(200):
        made.size(4)
        made.measure(1, 100, IMAGE, MS)
        made.num_delivered += 1
    assert made.size(4) == 1


def test_elements_that_take_long_are_not_gathered() -> None:
    assert after(pieces(), 6 * MS).size(32) == 1


def test_quick_elements_are_pieces_of_a_millisecond() -> None:
    made = after(pieces(), MS // 10, NUMBER)
    assert made.size(32) == 10
    assert made.most(starving=True) == 4


def test_nothing_is_gathered_that_others_may_miss() -> None:
    assert after(pieces(free_bytes=40_000_000), MS).size(32) == 1
    assert after(pieces(may_reach=False), MS).size(32) == 1
