"""Rows of numbers held as strings: what comes out is what went in, to the type of each number."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.block import Block
from penstock.element import Failed, Structure
from penstock.errors import SpecMismatch
from penstock.ops.row_strings import RowStrings
from penstock.testing import check_op

D = ps.Dataset
TEXT = np.dtype(object)
DTYPES = [
    TEXT,
    TEXT,
    np.bool_,
    np.int8,
    np.uint16,
    np.int64,
    np.float16,
    np.float32,
    np.complex128,
    np.dtype("datetime64[s]"),
    np.dtype([("place", np.int16), ("weight", np.float32)]),
    np.dtype([("only", np.int64)]),
]


def comparable(element: Any) -> Any:
    if isinstance(element, dict):
        return {key: comparable(value) for key, value in element.items()}
    if isinstance(element, tuple):
        return tuple(map(comparable, element))
    return element if isinstance(element, Failed) else (np.asarray(element).dtype, np.asarray(element).tolist())


def column_of(dtype: Any, i: int, size: int) -> np.ndarray:
    """Numbers, or texts of as many bytes."""
    numbers = np.arange(i, i + size)
    return np.array([b"\0t" * n for n in numbers], object) if dtype is TEXT else numbers.astype(dtype)


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(
    dtypes=st.lists(st.sampled_from(DTYPES), min_size=2, max_size=6),
    size=st.integers(1, 5),
    is_dict=st.booleans(),
    is_stacked=st.booleans(),
)
def test_rows_come_out_as_they_went_in(dtypes: list[Any], size: int, is_dict: bool, is_stacked: bool) -> None:
    columns = [column_of(dtype, i, size) for i, dtype in enumerate(dtypes)]
    like = {f"k{i}": 0 for i in range(len(dtypes))} if is_dict else tuple(dtypes)
    block = Block.of_columns(Structure.of(like), columns, size)
    expected = list(map(comparable, block.rows()))
    if not is_stacked:
        block = Block.of_rows(block.rows())
    strings = RowStrings.of(block)
    assert strings is not None
    rows = strings.written(block)
    assert [type(row) for row in rows] == [bytes] * size
    assert list(map(comparable, strings.read(rows[::-1]).rows())) == expected[::-1]


def test_rows_that_are_not_like_the_first_stay_as_they_are() -> None:
    first = {"a": np.int64(1), "b": np.float32(2)}
    strings = RowStrings.of(Block.of_rows([first]))
    assert strings is not None
    wider, failed = {"a": np.int64(1), "b": np.float64(1e300)}, Failed(ValueError("x"))
    other_order = {"b": np.float32(4), "a": np.int64(3)}
    rows = strings.written(Block.of_rows([wider, first, failed, other_order]))
    assert rows[0] is wider
    assert rows[2] is failed
    found = strings.read(rows)
    assert found.has_failures
    assert found.rows() == [wider, first, failed, other_order]
    with pytest.raises(SpecMismatch, match="got a byte string"):
        strings.written(Block.of_rows([b"text"]))


def test_stacked_rows_in_another_order_of_keys_are_told_apart() -> None:
    one, other = np.arange(3), np.arange(3) + 10
    block = Block.of_columns(Structure.of({"a": 0, "b": 0}), [one, other], 3)
    turned = Block.of_columns(Structure.of({"b": 0, "a": 0}), [other, one], 3)
    strings = RowStrings.of(block)
    assert strings is not None
    rows = strings.written(block) + strings.written(turned)
    assert [(int(row["a"]), int(row["b"])) for row in strings.read(rows).rows()] == [(0, 10), (1, 11), (2, 12)] * 2


def test_stacked_rows_of_another_structure_stay_as_they_are() -> None:
    text = np.array([b"a", b"b", b"c"], object)
    block = Block.of_columns(Structure.of({"a": 0, "b": 0}), [np.arange(3), text], 3)
    other = Block.of_columns(Structure.of({"a": 0}), [np.arange(3)], 3)
    stacked = Block.of_columns(Structure.of({"a": 0, "b": 0}), [np.arange(3), np.array([text] * 3)], 3)
    strings = RowStrings.of(block)
    assert strings is not None
    assert RowStrings.of(stacked) is None
    for unlike in (other, stacked):
        assert [type(row) for row in strings.written(unlike)] == [dict] * 3


@pytest.mark.parametrize("is_stacked", [True, False])
def test_rows_with_long_texts_stay_as_they_are(is_stacked: bool) -> None:
    """Both forms of them would be there at a time."""
    texts = np.array([b"short", b"x" * 100_000, b""], object)
    block = Block.of_columns(Structure.of((0, 0)), [np.arange(3), texts], 3)
    if not is_stacked:
        block = Block.of_rows(block.rows())
    strings = RowStrings.of(block)
    assert strings is not None
    rows = strings.written(block)
    assert [type(row) for row in rows] == [bytes, tuple, bytes]
    assert rows[1][1] is texts[1]
    assert list(map(tuple, strings.read(rows).rows())) == list(zip(range(3), texts, strict=True))


@pytest.mark.parametrize("memory", [200_000, 10_000_000])
def test_a_shuffle_of_rows_with_texts_gives_what_it_gives_of_their_numbers(memory: int) -> None:
    count = 2000

    def elements() -> Iterator[dict[str, Any]]:
        for i in range(count):
            yield {"name": b"n" * (i % 7), "number": np.int64(i), "text": b"%d" % i * (1 + 400 * (i % 50 == 0))}

    rows = D.from_generator(elements).shuffle(1000, seed=4)
    expected = list(map(int, D.from_generator(lambda: map(np.int64, range(count))).shuffle(1000, seed=4)))
    with rows.run(memory=memory) as run:
        found = list(run)
        assert bool(run.stats()["spilled_bytes"]) == (memory < 10**6)
    assert [int(e["number"]) for e in found] == expected
    assert all(e["name"] == b"n" * (e["number"] % 7) for e in found)
    assert all(e["text"] == b"%d" % e["number"] * (1 + 400 * (e["number"] % 50 == 0)) for e in found)
    assert run.ledger.charged_bytes == 0
    check_op(D.from_generator(elements).take(30).shuffle(4, seed=1))


@pytest.mark.parametrize(
    "rows",
    [
        [np.int64(1)],
        [(np.int64(1),)],
        [b"text"],
        [(b"text",)],
        [(np.int64(1), b"x" * 2045)],
        [(np.int64(1), np.zeros(3))],
        [tuple(np.zeros(300))],  # 2400 bytes
        [Failed(ValueError("x"))],
    ],
)
def test_what_gains_nothing_is_left_alone(rows: list[Any]) -> None:
    assert RowStrings.of(Block.of_rows(rows)) is None


@pytest.mark.parametrize("memory", [60_000, 10_000_000])
def test_a_shuffle_of_rows_gives_what_it_gives_of_their_numbers(memory: int) -> None:
    count = 500

    def elements() -> Iterator[dict[str, Any]]:
        for i in range(count):
            yield {"number": np.int64(i), "half": np.float32(i / 2), "even": np.bool_(i % 2 == 0)}

    def fail(e: dict[str, Any]) -> dict[str, Any]:
        if e["number"] % 100 == 99:
            raise ValueError("hundred")
        return e

    rows = D.from_generator(elements).map(fail).shuffle(200, seed=4).ignore_errors()
    numbers = D.from_generator(lambda: map(np.int64, range(count))).shuffle(200, seed=4)
    expected = [int(i) for i in numbers if i % 100 != 99]
    with rows.run(memory=memory) as run:
        found = list(run)
    assert [int(e["number"]) for e in found] == expected
    assert all(e["half"] == np.float32(e["number"] / 2) and bool(e["even"]) == (e["number"] % 2 == 0) for e in found)
    assert {e["half"].dtype for e in found} == {np.dtype(np.float32)}
    assert run.ledger.charged_bytes == 0
    check_op(D.from_generator(elements).take(30).shuffle(4, seed=1))


def test_many_rows_are_read_some_at_a_time_and_leave_as_they_are_read() -> None:
    columns = [np.arange(5000), np.arange(5000) / 2]
    block = Block.of_columns(Structure.of((0, 0)), columns, 5000)
    strings = RowStrings.of(block)
    assert strings is not None
    assert 1 < strings.num_at_once < 5000
    rows = strings.written(block)
    failed = Failed(ValueError("x"))
    rows[4321] = failed
    found = strings.read(rows).rows()
    assert rows == []
    assert found[4321] is failed
    assert [(int(a), float(b)) for a, b in found[:4321]] == [(i, i / 2) for i in range(4321)]
    assert int(found[-1][0]) == 4999


@pytest.mark.parametrize("kind", [np.datetime64, np.timedelta64])
def test_scalars_of_one_type_and_several_units_stay_as_they_are(kind: Any) -> None:
    rows = [(kind(1_000_001 * i, unit), np.int64(i)) for i in range(1, 30) for unit in ("us", "s")]
    found = list(D.from_generator(lambda: rows).shuffle(20, seed=1))
    assert sorted(map(repr, found)) == sorted(map(repr, rows))
    assert {row[0].dtype for row in found} == {rows[0][0].dtype, rows[1][0].dtype}
