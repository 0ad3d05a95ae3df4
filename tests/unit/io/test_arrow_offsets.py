"""Fixed-size lists in fixed-size lists, sliced in every way: rows are gathered as plain Python would."""

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.io.arrow_offsets import with_inner_offsets
from penstock.testing import check_op

FIXED = pa.list_(pa.list_(pa.int32(), 2), 3)
KINDS: dict[str, Any] = {
    "numbers": FIXED,
    "bytes": pa.list_(pa.list_(pa.uint8(), 2), 2),
    "floats, three deep": pa.list_(pa.list_(pa.list_(pa.float64(), 2), 1), 2),
    "strings": pa.list_(pa.list_(pa.binary(), 2), 2),
    "booleans": pa.list_(pa.list_(pa.bool_(), 2), 2),
    "times": pa.list_(pa.list_(pa.timestamp("us"), 2), 2),
    "one deep": pa.list_(pa.int32(), 3),
    "in a struct": pa.struct([("a", FIXED), ("b", pa.int8())]),
    "in structs": pa.struct([("a", pa.struct([("b", FIXED)]))]),
    "in a list": pa.list_(FIXED),
    "in a large list": pa.large_list(FIXED),
}


def value(kind: Any, rng: random.Random) -> Any:
    if pa.types.is_struct(kind):
        return {kind.field(i).name: value(kind.field(i).type, rng) for i in range(kind.num_fields)}
    if pa.types.is_fixed_size_list(kind):
        return [value(kind.value_type, rng) for _ in range(kind.list_size)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [value(kind.value_type, rng) for _ in range(rng.randrange(3))]
    if pa.types.is_binary(kind):
        return b"%d" % rng.randrange(1000)
    return rng.random() < 0.5 if pa.types.is_boolean(kind) else rng.randrange(100)


def plain(element: Any) -> Any:
    if isinstance(element, dict):
        return {name: plain(part) for name, part in element.items()}
    if isinstance(element, (np.ndarray, np.generic)) and element.dtype.kind == "M":
        return element.astype(np.int64).tolist()
    return element.tolist() if isinstance(element, (np.ndarray, np.generic)) else element


def column(name: str, num_rows: int, seed: int = 0) -> tuple[list[Any], Any]:
    rng = random.Random(seed)
    values = [value(KINDS[name], rng) for _ in range(num_rows)]
    return values, pa.array(values, KINDS[name])


def gathered(table: Any) -> list[Any]:
    """The column `c` of all rows, which come shuffled, in their order."""
    rows = sorted(ps.Dataset.from_arrow(table).shuffle(7, seed=1), key=lambda row: int(row["i"]))
    assert [row["s"] for row in rows] == [b"%d" % row["i"] for row in rows]
    return [plain(row["c"]) for row in rows]


@pytest.mark.parametrize("name", KINDS)
def test_slices_of_tables(name: str) -> None:
    values, array = column(name, 12)
    table = pa.table({"c": array, "i": range(12), "s": [str(i) for i in range(12)]})
    for part in (slice(0, 12), slice(3, 12), slice(5, 9), slice(11, 12)):
        some = table.slice(part.start, part.stop - part.start)
        assert gathered(some) == values[part]
        assert [plain(row["c"]) for row in ps.Dataset.from_arrow(some)] == values[part]
    check_op(ps.Dataset.from_arrow(table.slice(3)).shuffle(4, seed=2).batch(2, drop_remainder=True).take(2))


@pytest.mark.parametrize("name", KINDS)
def test_columns_whose_chunks_end_at_other_rows(name: str) -> None:
    values, array = column(name, 20)
    chunks = pa.chunked_array([[str(i) for i in range(a, b)] for a, b in ((0, 7), (7, 8), (8, 20))])
    table = pa.table({"c": array, "s": chunks, "i": range(20)})
    assert gathered(table) == values
    assert gathered(pa.concat_tables([table.slice(2, 5), table.slice(9)])) == values[2:7] + values[9:]


@pytest.mark.parametrize("name", KINDS)
def test_slices_within_arrays(name: str) -> None:
    """What lists and structs hold may be a slice, too; nulls stay where they were, at each depth."""
    values, array = column(name, 12)
    values[5] = None
    nulls = pa.array(values, KINDS[name])
    for whole in (array, nulls):
        part = whole.slice(3, 8)
        for outer in (
            part,
            pa.StructArray.from_arrays([part], ["x"]),
            pa.FixedSizeListArray.from_arrays(part, 2),
            pa.ListArray.from_arrays(pa.array([0, 3, 3, 8], pa.int32()), part),
            pa.FixedSizeListArray.from_arrays(pa.StructArray.from_arrays([part], ["x"]), 2).slice(1),
        ):
            batch = pa.record_batch({"c": outer})
            moved = with_inner_offsets(batch)
            moved.validate(full=True)
            assert moved.equals(batch)
            places = [len(outer) - 1, 0, len(outer) // 2]
            taken = moved.take(pa.array(places)).column("c")
            taken.validate(full=True)
            expected = outer.to_pylist()
            assert taken.to_pylist() == [expected[place] for place in places]


def test_nothing_is_copied() -> None:
    array = pa.array([[[i, i], [i, i], [i, i]] for i in range(10)], FIXED)
    (moved,) = with_inner_offsets(pa.record_batch({"c": array.slice(4)})).columns
    innermost = moved.values.values
    assert innermost.buffers()[1].address == array.values.values.buffers()[1].address
    assert (moved.offset, moved.values.offset, innermost.offset) == (0, 0, 24)
    other = pa.record_batch({"c": [1, 2]})
    assert with_inner_offsets(other) is other
