"""window: small datasets of consecutive elements."""

from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.errors import BadArgument, BadType, OverBudget, SpecMismatch
from penstock.testing import check_op

from ..fakes import all_with_errors

Dataset = ps.Dataset


def lists(dataset: Any) -> list[Any]:
    found = all_with_errors(dataset.run())
    return ["error" if isinstance(x, Exception) else [int(y) for y in x] for x in found]


def failing(size: int, *places: int) -> Any:
    return Dataset.range(size).map(lambda n: n if n not in places else int("x"))


def plain(rows: list[int], size: int, shift: int, stride: int, drop: bool) -> list[list[int]]:
    windows = [rows[start : start + (size - 1) * stride + 1 : stride] for start in range(0, len(rows), shift)]
    return [window for window in windows if len(window) == size or not drop]


@pytest.mark.parametrize("size", [1, 2, 3, 9])
@pytest.mark.parametrize("shift", [None, 1, 2, 4, 6])
@pytest.mark.parametrize("stride", [1, 2, 3, 4])
@pytest.mark.parametrize("drop", [False, True])
def test_every_kind(size: int, shift: int | None, stride: int, drop: bool) -> None:
    for length in (0, 1, 7, 12):
        dataset = Dataset.range(length).window(size, shift, stride, drop)
        expected = plain(list(range(length)), size, shift or size, stride, drop)
        assert lists(dataset) == expected
        assert dataset.cardinality() == len(expected)


def test_components_become_datasets() -> None:
    rows = Dataset.from_tensor_slices({"a": np.arange(3), "b": (np.arange(6.0).reshape(3, 2),)})
    windows = rows.window(2)
    assert [[int(x) for x in window["a"]] for window in windows] == [[0, 1], [2]]
    assert [[x.tolist() for x in window["b"][0]] for window in windows] == [[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0]]]
    spec = windows.element_spec
    assert spec["a"].element_spec == ps.TensorSpec((), np.int64)
    assert spec["b"][0].element_spec == ps.TensorSpec((2,), np.float64)
    first = next(iter(windows))["a"]
    assert len(first) == 2
    assert first.element_spec == ps.TensorSpec((), np.int64)


def test_windows_of_windows_and_unequal_shapes() -> None:
    found = [[[int(x) for x in inner] for inner in outer] for outer in Dataset.range(5).window(2).window(2)]
    assert found == [[[0, 1], [2, 3]], [[4]]]
    rows = Dataset.range(3).map(lambda n: np.full(n, n)).window(2)
    assert [[row.tolist() for row in window] for window in rows] == [[[], [1]], [[2, 2]]]


@pytest.mark.parametrize(
    "arguments, places, expected",
    [
        ((3,), (4,), [[0, 1, 2], "error", [6, 7, 8], [9]]),
        ((3,), (4, 5), [[0, 1, 2], "error", [6, 7, 8], [9]]),
        ((2, 4), (3,), [[0, 1], [4, 5], [8, 9]]),
        ((2, 4), (1,), ["error", [4, 5], [8, 9]]),
        ((2, 2, 3), (1,), [[0, 3], [2, 5], [4, 7], [6, 9], [8]]),
        ((3, 2, 2), (4,), ["error", "error", "error", [6, 8], [8]]),
    ],
)
def test_an_error_is_in_every_window_that_it_belongs_to(arguments: Any, places: Any, expected: list[Any]) -> None:
    assert lists(failing(10, *places).window(*arguments)) == expected


def test_elements_that_do_not_go_together() -> None:
    mixed = Dataset.range(4).map(lambda n: np.int32(n) if n == 1 else (n, n) if n == 3 else n)
    found = all_with_errors(mixed.window(2).run())
    assert [isinstance(x, SpecMismatch) for x in found] == [True, True]
    assert str(found[0]).startswith("window at test_window.py:")
    assert "elements 0 and 1 of one window differ: expected int64, got int32" in str(found[0])


@pytest.mark.parametrize(
    "arguments, error",
    [((0,), BadArgument), ((2, 0), BadArgument), ((2, 1, 0), BadArgument), ((-1,), BadArgument),
     ((2.0,), BadType), ((None,), BadType), ((2, 1, None), BadType)],
)  # fmt: skip
def test_misuse(arguments: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^window at test_window.py:\d+: (size|shift|stride): expected"):
        Dataset.range(3).window(*arguments)


def test_no_more_is_read_than_is_needed() -> None:
    made: list[int] = []
    rows = Dataset.range(100).map(lambda n: made.append(int(n)) or n)
    with rows.window(4, shift=2).run() as run:
        next(run)
        assert made == [0, 1, 2, 3]
        next(run)
        assert len(made) <= 8  # the run asks for two at most by now
    made.clear()
    with rows.window(2, shift=10).run() as run:
        next(run)
        assert made == [0, 1]


def test_what_the_window_holds_is_on_the_ledger() -> None:
    rows = Dataset.range(30).map(lambda n: np.full(1000, n, np.int8))
    with rows.window(5, shift=1).run(memory=8_000) as run:
        assert sum(1 for _ in run) == 30
        (window,) = (share for share in run.ledger.shares if share.name == "window")
        assert window.peak_bytes == 5 * (1000 + 240)  # with the objects around each
    with pytest.raises(OverBudget, match="window at"), rows.window(5).run(memory=4_500) as run:
        next(run)
    # Every third element is in no window, and is not held.
    with rows.window(5, shift=3, stride=3).run(memory=8_000) as run:
        assert sum(1 for _ in run) == 10


def test_large_windows_are_not_gathered_in_blocks() -> None:
    rows = Dataset.range(64).map(lambda n: np.zeros(100_000, np.int8))
    with rows.window(20, shift=1).run() as run:
        for _ in range(20):
            next(run)
        assert len(run._rows) < 5


@pytest.mark.parametrize("arguments", [(3,), (3, 1), (2, 5), (2, 1, 3), (3, 2, 2), (2, 4, 2, True)])
def test_laws(arguments: Any) -> None:
    check_op(failing(12, 4, 9).window(*arguments))


def test_resume_reads_no_more_than_the_window_again() -> None:
    made: list[int] = []
    rows = Dataset.range(2000).map(lambda n: made.append(int(n)) or n)
    dataset = rows.filter(lambda n: True).window(10, shift=1)
    with dataset.run() as run:
        for _ in range(1500):
            window = next(run)
        state = run.state_dict()
    made.clear()
    with dataset.run() as run:
        run.load_state_dict(state)
        assert [int(x) for x in next(run)] == list(range(1500, 1510))
    assert int(next(iter(window))) == 1499
    assert len(made) < 500


@pytest.mark.parametrize("arguments", [(3,), (3, 1), (2, 2), (2, 1, 3), (4, 3, 1, True)])
def test_laws_over_a_source_that_gives_its_elements_stacked(arguments: Any) -> None:
    check_op(Dataset.range(12).window(*arguments))
    check_op(Dataset.range(12).shuffle(4, seed=1).window(*arguments).flat_map(lambda window: window.batch(3)))


def test_windows_of_a_source_are_charged_and_share_nothing() -> None:
    rows = Dataset.from_tensor_slices(np.arange(60, dtype=np.int8).reshape(20, 3))
    with rows.window(4, shift=1).run() as run:
        first, second = next(run), next(run)
        # What is held, and what was given with the second: the first too, unless that was so slow that only one more
        # was asked for.
        assert run.ledger.charged_bytes - 12 in (12, 2 * 12)
    (batch,) = first.batch(4)
    batch[:] = 0
    assert next(row.tolist() for row in second) == [3, 4, 5]
    assert run.ledger.charged_bytes == 0
