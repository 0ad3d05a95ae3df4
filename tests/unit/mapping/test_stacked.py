"""Results that are stacked as they are made: equal to those that are written one by one, and refused alike."""

import collections
import dataclasses
import re
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.block import Block
from penstock.element import Structure
from penstock.errors import SpecMismatch
from penstock.mapping import map_fn as map_fn_module
from penstock.mapping import results as results_module
from penstock.mapping.elems import elems_of
from penstock.mapping.results import Results
from penstock.mapping.stacked import plain_reader
from penstock.ops import calling
from penstock.ops.calling import Calls
from penstock.ops.stack import leaves_reader
from penstock.plan.op import Context

NUMBERS = np.arange(3000)
Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Box:
    width: Any
    height: Any


FUNCTIONS = {
    "tuple": lambda x: (x * 2, x / 3),
    "of one": lambda x: (x,),
    "dict": lambda x: {"a": x * 2, "b": x % 2 == 0},
    "order of keys": lambda x: {"a": x, "b": -x} if x % 2 else {"b": -x, "a": x},
    "nested": lambda x: {"a": (x, {"b": np.float32(x)}), "c": np.full((2, 3), x, np.uint8)},
    "namedtuple": lambda x: Point(x, (np.int16(x % 100), x)),
    "dataclass": lambda x: Box(x, np.full(3, x / 2)),
    "array": lambda x: np.full(100, x, np.float32),
    "array and scalar": lambda x: (np.full(100, x, np.float32), x),
    "4 kB": lambda x: (np.full(1000, x, np.float32), x),
    "empty arrays": lambda x: (np.empty((0, 2)), x),
    "no copies": lambda x: (np.arange(6)[::2] + x, np.arange(4).reshape(2, 2).T * x),
    "Python's numbers": lambda x: (float(x), int(x), x > 5, bool(x % 2)),
    "Python's or NumPy's": lambda x: (float(x) if x % 3 else np.float64(x), {"a": int(x) if x % 2 else x}),
    "list": lambda x: [x, float(x)],
    "text": lambda x: (x, str(x), f"{x}" * 3),
    "times": lambda x: (np.datetime64(int(x), "s"), x),
    "byte order": lambda x: (np.full(2, x, ">i4"), x),
}


class OneByOne(Calls):
    """As any map: each result an element of its own."""

    def __init__(self, function: Any, context: Context, into_slot: bool) -> None:
        super().__init__(function, context, into_slot=False)


def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_fn_module, "StackedCalls", OneByOne)
    monkeypatch.setattr(results_module, "_STACKED_ROWS", 1)


def as_dict(box: Any) -> Any:
    return vars(box) if isinstance(box, Box) else box


def assert_same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    structure = Structure.of(as_dict(expected))
    mine, other = structure.flatten(as_dict(found)), structure.flatten(as_dict(expected))
    for one, two in zip(mine, other, strict=True):
        if isinstance(one, list):  # of components
            assert_same(tuple(one), tuple(two))
            continue
        assert one.dtype == two.dtype
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("num_parallel_calls", [None, 1, 3, ps.AUTOTUNE])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_that_are_written_one_by_one(
    name: str, num_parallel_calls: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ps.map_fn(FUNCTIONS[name], NUMBERS, "8MB", num_parallel_calls=num_parallel_calls)
    one_by_one(monkeypatch)
    expected = ps.map_fn(FUNCTIONS[name], NUMBERS, "8MB", num_parallel_calls=None)
    assert_same(found, expected)


UNLIKE = {
    "another dtype": lambda x: (x, x if x < 2500 else x / 2),
    "another shape": lambda x: (np.zeros(3 + (x == 2500)), x),
    "another length": lambda x: (x, x) if x < 2500 else (x, x, x),
    "another key": lambda x: {"a": x, "b": x} if x < 2500 else {"a": x, "c": x},
    "one key more": lambda x: {"a": x} if x < 2500 else {"a": x, "c": x},
    "no nest": lambda x: (x, (x, x)) if x < 2500 else (x, x),
    "a nest": lambda x: (x, x) if x < 2500 else (x, (x, x)),
    "another kind": lambda x: (x, (x, x)) if x < 2500 else (x, {"a": x, "b": x}),
    "a larger number": lambda x: (x, int(x) if x < 2500 else 2**63),
    "a number for a truth": lambda x: (x, x > 5 if x < 2500 else 1),
    "text": lambda x: {"a": x, "b": x if x < 2500 else "text"},
    "a number for an array": lambda x: (x, np.full(1, x) if x < 2500 else x),
}


@pytest.mark.parametrize("num_parallel_calls", [None, 3, ps.AUTOTUNE])
@pytest.mark.parametrize("name", UNLIKE)
def test_results_unlike_the_first_are_refused_in_the_same_words(
    name: str, num_parallel_calls: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = []
    for stacked in (True, False):
        if not stacked:
            one_by_one(monkeypatch)
        with pytest.raises(SpecMismatch, match=r"for element 2,500, and") as caught:
            ps.map_fn(UNLIKE[name], NUMBERS, "8MB", num_parallel_calls=num_parallel_calls)
        texts.append(re.sub(r"\.py:\d+", "", str(caught.value)))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("num_parallel_calls", [None, 1])
@pytest.mark.parametrize(
    "name", ["tuple", "dict", "nested", "namedtuple", "Python's numbers", "list", "array and scalar", "4 kB"]
)
def test_small_results_are_not_made_elements_of(
    name: str, num_parallel_calls: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    num_made, num_put = [0], [0]
    as_result, put_row = calling.as_result, Results._put_row

    def counted(value: Any, given: Any = None) -> Any:
        num_made[0] += 1
        return as_result(value, given)

    def counted_row(results: Results, row: Any) -> None:
        num_put[0] += 1
        put_row(results, row)

    monkeypatch.setattr(calling, "as_result", counted)
    monkeypatch.setattr(Results, "_put_row", counted_row)
    ps.map_fn(FUNCTIONS[name], np.arange(10_000), num_parallel_calls=num_parallel_calls)
    assert num_made[0] < 3_000  # in threads the first come one by one
    assert num_put[0] < 3_000


def test_an_out_of_any_kind_is_filled(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    file = np.lib.format.open_memmap(tmp_path / "out.npy", "w+", np.float32, (3000, 100))
    columns = np.zeros((2, 3000), np.int64)
    out = (file, columns[1], np.empty((3000, 2))[:, 0])
    ps.map_fn(lambda x: (np.full(100, x, np.float32), x, x / 2), NUMBERS, "1MB", out)
    assert (np.load(tmp_path / "out.npy") == NUMBERS[:, None]).all()
    assert (columns == [NUMBERS * 0, NUMBERS]).all()
    assert (out[2] == NUMBERS / 2).all()


def test_what_has_another_structure_has_no_leaves_to_read() -> None:
    structure = Structure.of((np.float64(), {"a": np.int64()}))
    assert leaves_reader(structure)((0.5, {"a": 2})) == (0.5, 2)
    assert leaves_reader(structure)([0.5, {"a": 2}]) is None
    read = plain_reader(structure)
    assert read((0.5, {"a": 2})) == read([0.5, {"a": 2}]) == (0.5, 2)
    assert [type(leaf) for leaf in read((0.5, {"a": 2})) or ()] == [np.float64, np.int64]
    others: list[Any] = [(0.5,), (0.5, {"b": 2}), (0.5, {"a": 2, "b": 2}), (0.5, (2,)), (0.5, {"a": 2**63}), 0.5, None]
    assert [read(other) for other in others] == [None] * len(others)


class Told(np.ndarray[Any, Any]):
    """A column that tells how much was known to be written when some of it is read."""

    known: list[int]
    results: Results

    def __getitem__(self, key: Any) -> Any:
        self.known.append(self.results.written_bytes)
        return np.asarray(self)[key]


def test_a_large_block_is_known_as_it_is_written() -> None:
    """Pages of new arrays come into being: who watches the process would take them for what calls took."""
    results = Results(None, elems_of(np.zeros(8_000)))
    results.put(Block.of_rows([np.zeros(125)]))
    column = np.ones((7_999, 125)).view(Told)
    column.known, column.results = [], results
    nbytes = results.put(Block.of_columns(Structure.of(np.zeros(125)), [column], 7_999))
    assert nbytes == 7_999_000
    assert results.written_bytes == 8_000_000
    assert max(np.diff([*column.known, results.written_bytes])) <= 1 << 20
    assert (results.value()[1:] == 1).all()


def test_small_arrays_do_not_get_stuck_measuring() -> None:
    told: list[str] = []
    found = ps.map_fn(lambda x: np.full(100, x, np.float32), np.arange(60_000), report=told.append)
    assert found[-1, -1] == 59_999
    (count,) = re.findall(r"by ([0-9,]+) that were measured", told[0])
    assert int(count.replace(",", "")) < 3_000
