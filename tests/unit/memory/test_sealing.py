"""Elements as they are kept: those of a block at once are what each would be alone."""

from typing import Any

import numpy as np
import pytest

from penstock.block import Block
from penstock.element import Structure, arrays_in
from penstock.memory.sealing import sealed, sealed_columns
from penstock.testing import same

ELEMENTS: dict[str, Any] = {
    "a number": np.float32(0),
    "an array": np.zeros((2, 3), np.int16),
    "no values": np.zeros((2, 0)),
    "a pair": (np.zeros(4), np.int64(0)),
    "a dict": {"y": np.bool_(False), "x": np.zeros(3, np.complex64)},
    "a text": b"",
    "a row of a table": {"text": b"", "number": np.int64(0), "more": b""},
    "an array and a text": (np.zeros(3), b""),
    "a nest": {"a": (np.zeros(2), {"b": np.uint8(0)}), "c": np.zeros((1, 1))},
}


def column_of(leaf: Any) -> np.ndarray:
    if type(leaf) is bytes:
        return np.array([b"text " * i for i in range(5)], object)
    array = np.asarray(leaf)
    return np.arange(5 * array.size).astype(array.dtype).reshape(5, *array.shape)


@pytest.mark.parametrize("copies", [True, False])
@pytest.mark.parametrize("name", ELEMENTS)
def test_those_of_a_block_are_what_each_is_alone(name: str, copies: bool) -> None:
    structure = Structure.of(ELEMENTS[name])
    columns = [column_of(leaf) for leaf in structure.flatten(ELEMENTS[name])]
    block = Block.of_columns(structure, columns, 5)
    at_once = sealed_columns(block, copies)
    assert at_once is not None
    for one, row in zip(at_once, block.rows(), strict=True):
        alone = sealed(row, copies)
        assert same(one.element, alone.element)
        assert type(one.element) is type(alone.element)
        assert (one.nbytes, one.lent, one.length) == (alone.nbytes, alone.lent, alone.length)
        for array in arrays_in(one.element):
            assert not array.flags.writeable
            assert not any(np.shares_memory(array, column) for column in columns)
        for leaf, other in zip(structure.flatten(one.element), structure.flatten(row), strict=True):
            assert type(leaf) is not bytes or (leaf is other) == (not copies)


@pytest.mark.parametrize(
    "column",
    [np.array([[b"a"], [b"b"]], object), np.zeros((2, 1), ">f4"), np.zeros((2, 1), "M8[s]"), np.array(["a", "b"])],
)
def test_other_blocks_are_not_sealed_at_once(column: np.ndarray) -> None:
    assert sealed_columns(Block.of_columns(Structure.of(column[0]), [column], 2)) is None
    assert sealed_columns(Block.of_rows([column[0], column[1]])) is None


def test_what_is_somebody_elses_is_not_copied() -> None:
    lent = np.zeros((2, 1000))
    lent.flags.writeable = False
    block = Block.of_columns(Structure.of(lent[0]), [lent], 2)
    assert sealed_columns(block) is None
    alone = sealed(block.rows()[0])
    assert alone.lent == {id(lent)}
    assert alone.nbytes < alone.length == 8000
