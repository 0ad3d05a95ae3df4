"""Blocks: columns and rows are two ways to hold the same elements."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.block import Block, concat_blocks, stack_leaves
from penstock.element import LEAF, Failed, Structure

PAIR = Structure.of((0, 0))


def columns_block(size: int, start: int = 0) -> Block:
    """Pairs (i, [i, i])."""
    numbers = np.arange(start, start + size)
    return Block.of_columns(PAIR, [numbers, np.stack([numbers, numbers], axis=1)], size, numbers * 10)


def plain(rows: list[Any]) -> list[Any]:
    return [(int(a), b.tolist()) for a, b in rows]


@settings(derandomize=True, deadline=None)
@given(size=st.integers(0, 8), start=st.integers(0, 9), count=st.integers(0, 9), as_rows=st.booleans())
def test_a_part_of_a_block_is_that_part_of_its_rows(size: int, start: int, count: int, as_rows: bool) -> None:
    block = columns_block(size)
    if as_rows:
        block = Block.of_rows(block.rows(), block.positions)
    start = min(start, size)
    part = block[start : start + count]
    expected = plain(block.rows())[start : start + count]
    assert part.size == len(expected)
    assert plain(part.rows()) == expected
    assert part.positions is not None
    assert part.positions.tolist() == [i * 10 for i, _ in expected]


@pytest.mark.parametrize("structure", [LEAF, PAIR, Structure.of({"a": 0, "b": (0,)}), Structure.of(((0, 0), 0))])
def test_rows_of_columns_have_the_structure(structure: Structure) -> None:
    columns = [np.arange(3) + 10 * j for j in range(structure.num_leaves)]
    rows = Block.of_columns(structure, columns, 3).rows()
    assert len(rows) == 3
    for i, row in enumerate(rows):
        assert Structure.of(row) == structure
        assert structure.flatten(row) == [i + 10 * j for j in range(structure.num_leaves)]


def test_rows_of_columns_are_views() -> None:
    column = np.zeros((3, 4))
    rows = Block.of_columns(LEAF, [column], 3).rows()
    assert all(np.shares_memory(row, column) for row in rows)


def test_a_part_of_columns_is_a_view() -> None:
    block = columns_block(6)
    part = block[2:4]
    assert block.columns is not None
    assert part.columns is not None
    assert all(np.shares_memory(a, b) for a, b in zip(part.columns, block.columns, strict=True))


def test_failures_are_noticed_and_lost_again_in_parts() -> None:
    failed = Failed(ValueError())
    block = Block.of_rows([1, failed, 3])
    assert block.has_failures
    assert not Block.of_rows([1, 3]).has_failures
    assert block[:2].has_failures
    assert not block[2:].has_failures
    assert not columns_block(3).has_failures


def test_bytes_are_those_of_the_elements() -> None:
    block = columns_block(4)
    assert block.nbytes == 4 * 8 * 3
    assert Block.of_rows(block.rows()).nbytes == block.nbytes
    assert Block.of_rows([Failed(ValueError()), np.zeros(2)]).nbytes == 16


def test_columns_as_one_element_are_a_batch() -> None:
    numbers, pairs = columns_block(3).as_element()
    assert numbers.tolist() == [0, 1, 2]
    assert pairs.shape == (3, 2)


def test_repr_says_size_and_kind() -> None:
    assert repr(columns_block(3)) == "Block(3 columns)"
    assert repr(Block.of_rows([1])) == "Block(1 rows)"


# --- stacking ---


class Allocator:
    """`np.empty` that remembers what it gave."""

    def __init__(self) -> None:
        self.given: list[np.ndarray] = []

    def __call__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        self.given.append(np.empty(shape, dtype))
        return self.given[-1]


@pytest.mark.parametrize("leaves", [
    [np.int64(1), np.int64(2)],
    [np.float16(1), np.float16(2)],
    [np.bool_(True), np.bool_(False)],
    [np.zeros(3), np.ones(3)],
    [np.zeros((2, 0)), np.zeros((2, 0))],
    [np.zeros((0, 2)), np.zeros((0, 2))],
    [np.arange(6).reshape(2, 3).T, np.arange(6).reshape(3, 2)],
    [np.array([b"a", b"bc"], object), np.array([b"", b"d"], object)],
    [np.datetime64("2020-01-01"), np.datetime64("2021-01-01")],
])  # fmt: skip
def test_stacking_equals_numpys(leaves: list[Any]) -> None:
    allocate = Allocator()
    stacked = stack_leaves(leaves, allocate)
    expected = np.stack(leaves)
    assert stacked is not None
    assert stacked.dtype == expected.dtype
    np.testing.assert_array_equal(stacked, expected)
    if stacked.dtype != object:
        assert stacked is allocate.given[0]  # written where the allocator said, so that it is on the ledger


def test_strings_are_stacked_as_objects() -> None:
    stacked = stack_leaves([b"a", b"long\0"], np.empty)
    assert stacked is not None
    assert (stacked.dtype, stacked.tolist()) == (object, [b"a", b"long\0"])


@pytest.mark.parametrize("leaves", [
    [np.int64(1), np.int32(1)],
    [np.int64(1), np.float64(1)],
    [np.int64(1), b"a"],
    [b"a", np.int64(1)],
    [np.zeros(2), np.zeros(3)],
    [np.zeros(2), np.zeros((2, 1))],
    [np.zeros(2), np.zeros(2, np.float32)],
    [np.zeros(2), np.float64(0)],
    [np.zeros(2), b"a"],
    [None, None],
    [np.str_("a"), np.str_("bcd")],
    [np.bytes_(b"a"), np.bytes_(b"bcd")],
    [np.datetime64("2020-01-01", "D"), np.datetime64("2020-01-01T12", "h")],
    [np.timedelta64(1, "s"), np.timedelta64(1, "ms")],
    [np.zeros((), "i4,i4")[()], np.zeros((), "i4,f4")[()]],
])  # fmt: skip
def test_leaves_that_differ_are_not_stacked(leaves: list[Any]) -> None:
    """None says so; a value must never be cut or cast to fit."""
    assert stack_leaves(leaves, np.empty) is None


@settings(derandomize=True, deadline=None)
@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4), kinds=st.lists(st.booleans(), min_size=4, max_size=4))
def test_joined_blocks_hold_the_same_rows(sizes: list[int], kinds: list[bool]) -> None:
    blocks, start = [], 0
    for size, as_rows in zip(sizes, kinds, strict=False):
        block = columns_block(size, start)
        blocks.append(Block.of_rows(block.rows()) if as_rows else block)
        start += size
    expected = plain([row for block in blocks for row in block.rows()])
    joined = concat_blocks(blocks, np.empty)
    assert joined is not None
    assert joined.columns is not None
    assert joined.size == start
    assert plain(joined.rows()) == expected


def test_one_block_of_columns_is_not_copied() -> None:
    block = columns_block(3)
    assert concat_blocks([block], np.empty) is block


def test_joined_columns_are_where_the_allocator_said() -> None:
    allocate = Allocator()
    joined = concat_blocks([columns_block(2), columns_block(3)], allocate)
    assert joined is not None
    assert joined.columns == allocate.given or all(a is b for a, b in zip(joined.columns, allocate.given, strict=True))


def leaf_block(column: np.ndarray) -> Block:
    return Block.of_columns(LEAF, [column], len(column))


@pytest.mark.parametrize("first, second", [
    (np.zeros((1, 2)), np.zeros((1, 3))),
    (np.zeros((1, 2)), np.zeros((1, 2), np.float32)),
    (np.zeros(1), np.zeros((1, 1))),
])  # fmt: skip
def test_blocks_of_unequal_elements_are_not_joined(first: np.ndarray, second: np.ndarray) -> None:
    assert concat_blocks([leaf_block(first), leaf_block(second)], np.empty) is None
    assert concat_blocks([leaf_block(first), Block.of_rows(list(second))], np.empty) is None


def test_joined_strings() -> None:
    joined = concat_blocks([leaf_block(np.array([b"a"], object)), Block.of_rows([b"bcd"])], np.empty)
    assert joined is not None
    assert joined.rows() == [b"a", b"bcd"]
