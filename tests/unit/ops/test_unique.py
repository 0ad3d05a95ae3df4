"""unique: each element once, of whatever kind."""

from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.testing import check_op

from ..fakes import all_with_errors

nan = float("nan")


@pytest.mark.parametrize(
    ("values", "places"),
    [
        (np.array([3, 1, 3, 2, 1], np.int32), [0, 1, 3]),
        (np.array([3, 1, 3], np.uint8), [0, 1]),
        (np.array([2**63 + 1, 2**63, 2**63 + 1], np.uint64), [0, 1]),
        (np.array([True, False, True]), [0, 1]),
        (np.array([1.5, 2.0, 1.5], np.float16), [0, 1]),
        (np.array([0.0, -0.0, nan, -nan, nan]), [0, 2]),
        (np.array([1j, 1j, 2]), [0, 2]),
        (np.array([b"a", b"b", b"a", b"", b"x" * 99, b"x" * 99], dtype=object), [0, 1, 3, 4]),
        (np.array([[1, 2], [1, 2], [2, 1]]), [0, 2]),
        (np.array([[b"ab", b"c"], [b"a", b"bc"], [b"ab", b"c"]], dtype=object), [0, 1]),
        (np.arange(40).reshape(2, 20)[[0, 1, 0]], [0, 1]),
    ],
)
def test_every_dtype_and_shape(values: np.ndarray, places: list[int]) -> None:
    ds = ps.Dataset.from_tensor_slices(values).unique()
    assert ds.cardinality() == ps.UNKNOWN
    with ds.run() as run:
        found = list(run)
    assert np.array_equal(np.array(found), values[places], equal_nan=values.dtype.kind == "f")
    assert run.ledger.charged_bytes == 0
    check_op(ds)


def test_every_structure() -> None:
    pairs = {"a": np.array([1, 1, 1, 2]), "b": (np.array([b"x", b"y", b"x", b"x"], dtype=object),)}
    found = list(ps.Dataset.from_tensor_slices(pairs).unique())
    assert [(int(e["a"]), e["b"]) for e in found] == [(1, (b"x",)), (1, (b"y",)), (2, (b"x",))]


def test_ragged() -> None:
    rows = [np.arange(2), np.arange(3), np.arange(2), np.arange(3)]
    ds = ps.Dataset.range(4).map(lambda i: rows[int(i)]).ragged_batch(2).repeat(2).unique()
    assert [batch.to_list() for batch in ds] == [[[0, 1], [0, 1, 2]]]


def test_each_iteration_starts_again() -> None:
    ds = ps.Dataset.from_tensor_slices(np.array([1, 1, 2]))
    assert [int(x) for x in ds.unique().repeat(2)] == [1, 2, 1, 2]
    assert [int(x) for x in ds.repeat(2).unique()] == [1, 2]


@pytest.mark.parametrize("num_distinct", [250, 400])
def test_resumes_with_few_and_with_many_keys(num_distinct: int) -> None:
    ds = ps.Dataset.range(3 * num_distinct).map(lambda x: x % num_distinct).unique()
    with ds.run() as run:
        for _ in range(num_distinct - 3):
            next(run)
        state = run.state_dict()
    with ds.run() as resumed:
        resumed.load_state_dict(state)
        assert [int(x) for x in resumed] == [num_distinct - 3, num_distinct - 2, num_distinct - 1]


def test_errors_keep_their_places_and_are_not_remembered() -> None:
    def but_three(x: Any) -> Any:
        return x if x != 3 else int("three")

    ds = ps.Dataset.from_tensor_slices(np.array([1, 1, 3, 2, 3, 1])).map(but_three).unique()
    assert [type(x) for x in all_with_errors(ds.run())] == [np.int64, ValueError, np.int64, ValueError]


def test_keys_are_on_the_ledger() -> None:
    with ps.Dataset.range(1000).unique().run() as run:
        for _ in range(1000):
            next(run)
        assert 1000 * 28 < run.ledger.charged_bytes <= 1000 * 160
    assert run.ledger.charged_bytes == 0


def test_datasets_cannot_be_compared() -> None:
    with pytest.raises(ps.errors.BadType, match=r"unique at .*: expected arrays, numbers or strings, got datasets"):
        ps.Dataset.range(4).window(2).unique()
