"""A source read in its own order."""

import numpy as np

from penstock.block import Block
from penstock.element import LEAF
from penstock.inorder import InOrderCursor


class Numbers:
    def read(self, index: slice) -> Block:
        values = np.arange(index.start, index.stop)
        return Block.of_columns(LEAF, [values], len(values))


def rest(cursor: InOrderCursor, n: int) -> list[int]:
    found: list[int] = []
    while (block := cursor.pull(n)) is not None:
        assert 1 <= block.size <= n
        found += [int(row) for row in block.rows()]
    return found


def test_every_element_comes_once() -> None:
    for n in (1, 3, 7, 100):
        assert rest(InOrderCursor(Numbers(), 7), n) == list(range(7))
    assert rest(InOrderCursor(Numbers(), 0), 1) == []


def test_skip_counts_what_there_was() -> None:
    cursor = InOrderCursor(Numbers(), 7)
    assert (cursor.skip(2), cursor.skip(0)) == (2, 0)
    assert rest(cursor, 2) == [2, 3, 4, 5, 6]
    assert cursor.skip(3) == 0


def test_the_position_is_one_integer() -> None:
    cursor = InOrderCursor(Numbers(), 7)
    cursor.pull(3)
    assert cursor.state() == 3
    again = InOrderCursor(Numbers(), 7)
    again.restore(cursor.state())
    assert rest(again, 2) == rest(cursor, 2) == [3, 4, 5, 6]
