"""group_by_window: windows of elements with equal keys."""

from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.errors import BadArgument, BadType, OverBudget, SpecMismatch
from penstock.testing import check_op

from ..fakes import all_with_errors

Dataset = ps.Dataset


def lists(dataset: Any) -> list[Any]:
    return ["error" if isinstance(x, Exception) else x.tolist() for x in all_with_errors(dataset.run())]


def batched(key: Any, window: Any) -> Any:
    return window.batch(4)


def failing(*places: int) -> Any:
    return lambda n: n if n not in places else n + int("x")


def test_full_windows_first_then_what_is_left_by_key() -> None:
    grouped = Dataset.range(11).group_by_window(lambda x: x % 3, batched, window_size=2)
    assert lists(grouped) == [[0, 3], [1, 4], [2, 5], [6, 9], [7, 10], [8]]
    left = Dataset.range(5).group_by_window(lambda x: 2 - x, batched, window_size=2)
    assert lists(left) == [[4], [3], [2], [1], [0]]
    assert lists(Dataset.range(0).group_by_window(lambda x: x, batched, window_size=2)) == []


def test_sizes_by_key() -> None:
    asked: list[int] = []

    def size(key: Any) -> Any:
        assert type(key) is np.int64
        asked.append(int(key))
        return key + 1

    grouped = Dataset.range(8).group_by_window(lambda x: x % 2, batched, window_size_func=size)
    assert lists(grouped) == [[0], [2], [1, 3], [4], [6], [5, 7]]
    assert asked == [0, 1]


def test_the_reduced_dataset_is_any_dataset() -> None:
    def reduce(key: Any, window: Any) -> Any:
        assert type(key) is np.int64
        assert len(window) <= 2
        return window.map(lambda x: x * 10 + key) if key else window.filter(lambda x: x > 2)

    assert lists(Dataset.range(6).group_by_window(lambda x: x % 2, reduce, 2)) == [11, 31, 4, 51]
    endless = Dataset.range(4).group_by_window(lambda x: x % 2, lambda k, w: w.repeat(), 2)
    assert [int(x) for x in endless.take(5)] == [0, 2, 0, 2, 0]


def test_elements_of_several_components() -> None:
    rows = Dataset.from_tensor_slices((np.arange(5), {"g": np.array([0, 1, 0, 1, 0])}))
    grouped = rows.group_by_window(lambda x, d: d["g"], batched, window_size=2)
    assert [x.tolist() for x, _ in grouped] == [[0, 2], [1, 3], [4]]


@pytest.mark.parametrize("key", [np.int8(1), np.uint64(1), 1, np.array(1), np.int64(1)])
def test_keys(key: Any) -> None:
    assert lists(Dataset.range(2).group_by_window(lambda x: key, batched, 2)) == [[0, 1]]


@pytest.mark.parametrize("key", [1.0, np.float32(1), True, np.ones(1, int), b"a", None, (1,), [1], np.uint64(2**63)])
def test_what_is_no_key(key: Any) -> None:
    found = all_with_errors(Dataset.range(2).group_by_window(lambda x: key, batched, 2).run())
    assert len(found) == 2
    assert all(isinstance(x, (BadType, BadArgument)) and "key_func: expected" in str(x) for x in found)


def test_errors_in_place() -> None:
    def grouped(dataset: Any, **functions: Any) -> Any:
        chosen: dict[str, Any] = {"key_func": lambda x: x % 2, "reduce_func": batched, **functions}
        if "window_size_func" not in chosen:
            chosen["window_size"] = 2
        return lists(dataset.group_by_window(**chosen))

    ten = Dataset.range(10)
    dropped = [[0, 2], "error", [1, 5], [4, 6], [7, 9], [8]]
    assert grouped(ten.map(failing(3))) == dropped
    assert grouped(ten, key_func=lambda x: failing(3)(x) % 2) == dropped
    within = grouped(Dataset.range(6), reduce_func=lambda k, w: w.map(failing(2, 3)))
    assert within == [0, "error", 1, "error", 4, 5]
    sizes = [[0, 2], "error", [4, 6], "error", [8], "error"]
    assert grouped(ten, reduce_func=lambda k, w: w.batch(2) if k == 0 else int("x")) == sizes
    assert grouped(ten, reduce_func=lambda k, w: w.batch(2) if k == 0 else k) == sizes
    refused = ["error", [0, 2], "error", "error", [4, 6], "error", "error", [8]]
    assert grouped(ten, window_size_func=lambda k: 2 if k == 0 else int("x")) == refused
    assert grouped(ten, window_size_func=lambda k: 2 - 2 * k) == refused


def test_elements_that_do_not_go_together() -> None:
    mixed = Dataset.range(4).map(lambda n: np.int32(n) if n == 1 else n)
    found = all_with_errors(mixed.group_by_window(lambda x: 0, batched, window_size=2).run())
    assert "elements 0 and 1 of one window differ" in str(found[0])
    assert found[1].tolist() == [2, 3]


def test_a_users_exception_names_the_element() -> None:
    grouped = Dataset.range(9).group_by_window(failing(3), batched, window_size=2)
    (error,) = [x for x in all_with_errors(grouped.run()) if isinstance(x, Exception)]
    assert isinstance(error, ValueError)
    assert "in group_by_window" in error.__notes__[0]
    assert error.__notes__[0].endswith("element 3")


@pytest.mark.parametrize(
    "arguments, error",
    [
        ({}, BadArgument),
        ({"window_size": 2, "window_size_func": lambda k: 2}, BadArgument),
        ({"window_size": 0}, BadArgument),
        ({"window_size": 2.0}, BadType),
        ({"window_size_func": 3}, BadType),
        ({"window_size": 2, "key_func": 3}, BadType),
        ({"window_size": 2, "reduce_func": None}, BadType),
    ],
)
def test_misuse(arguments: Any, error: type[Exception]) -> None:
    chosen: dict[str, Any] = {"key_func": lambda x: x, "reduce_func": batched, **arguments}
    with pytest.raises(error, match=r"^group_by_window at test_group_by_window.py:\d+: .*expected"):
        Dataset.range(3).group_by_window(**chosen)


def test_spec() -> None:
    grouped = Dataset.range(9).group_by_window(lambda x: x % 2, batched, 2)
    assert grouped.cardinality() == ps.UNKNOWN
    assert Dataset.range(9).repeat().group_by_window(lambda x: x % 2, batched, 2).cardinality() == ps.INFINITE
    assert grouped.element_spec.dtype == np.int64


def test_no_more_is_read_than_is_needed() -> None:
    made: list[int] = []
    rows = Dataset.range(100).map(lambda n: made.append(int(n)) or n)
    with rows.group_by_window(lambda x: x % 2, batched, window_size=4).run() as run:
        next(run)
    assert made == list(range(7))


def test_what_is_held_is_on_the_ledger() -> None:
    rows = Dataset.range(40).map(lambda n: np.full(1000, n, np.int8))
    grouped = rows.group_by_window(lambda x: x[0] % 4, lambda k, w: w.map(lambda x: x[0]), window_size=5)
    with grouped.run(memory=25_000) as run:
        assert sum(1 for _ in run) == 40
        assert 21_000 <= run.ledger.peak_bytes <= 25_000  # 240 bytes of objects for each, and 400 for each key


def test_keys_are_on_the_ledger_also_when_their_windows_have_gone() -> None:
    grouped = Dataset.range(2000).group_by_window(lambda x: x, lambda k, w: w, window_size_func=lambda key: 1)
    with grouped.run(memory=1_000_000) as run:
        assert sum(1 for _ in run) == 2000
        assert run.ledger.peak_bytes >= 2000 * 100
    with pytest.raises(OverBudget, match="group_by_window"):
        list(grouped.run(memory=100_000))


@pytest.mark.parametrize("size", [1, 3, 100])
def test_laws(size: int) -> None:
    check_op(Dataset.range(9).map(failing(4)).group_by_window(lambda x: x % 3, lambda k, w: w.batch(2), size))


def test_laws_of_what_windows_are_reduced_to() -> None:
    check_op(Dataset.range(9).group_by_window(lambda x: x % 3, lambda k, w: w.map(failing(4)), 2))
    check_op(Dataset.range(9).group_by_window(lambda x: x % 3, lambda k, w: w.shuffle(3, seed=1), 2))


def test_resume_with_a_key_that_never_comes_again() -> None:
    made: list[int] = []
    rows = Dataset.range(3000).map(lambda n: made.append(int(n)) or n).filter(lambda n: True)

    def key(x: Any) -> int:
        return -1 if x == 1000 else int(x) % 3

    dataset = rows.group_by_window(key, batched, window_size=4)
    with dataset.run() as run:
        for _ in range(400):
            next(run)
        state = run.state_dict()
        expected = [x.tolist() for x in run]
    made.clear()
    with dataset.run() as run:
        run.load_state_dict(state)
        assert [x.tolist() for x in run] == expected
    assert made[0] >= 900  # the oldest element that is held is number 1000


def test_a_shuffle_without_a_seed_goes_on_as_it_began() -> None:
    dataset = Dataset.range(40).group_by_window(lambda x: 0, lambda k, w: w.shuffle(20), window_size=20)
    with dataset.run() as run:
        for _ in range(5):
            next(run)
        state = run.state_dict()
        rest = [int(next(run)) for _ in range(15)]
    with dataset.run() as run:
        run.load_state_dict(state)
        assert [int(next(run)) for _ in range(15)] == rest


def test_durations_of_several_units_do_not_go_together() -> None:
    seconds, hours = [np.timedelta64(i, "s") for i in range(2)], [np.timedelta64(i, "h") for i in range(2)]

    def grouped(elements: list[Any]) -> Any:
        return Dataset.from_generator(lambda: elements).group_by_window(lambda x: np.int64(0), lambda key, w: w, 2)

    with grouped([seconds[0], hours[0]]).run() as run, pytest.raises(SpecMismatch, match=r"timedelta64\[s\]"):
        next(run)
    assert list(map(repr, grouped([*seconds, *hours]))) == list(map(repr, [*seconds, *hours]))
