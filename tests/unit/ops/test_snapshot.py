"""snapshot: saved by the first iteration that reaches its end."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.testing import check_op

from ..fakes import all_with_errors


def test_made_once(tmp_path: Path) -> None:
    calls: list[int] = []
    for _ in range(3):
        ds = ps.Dataset.range(500).map(lambda x: calls.append(int(x)) or x * 2).snapshot(tmp_path)
        assert [int(x) for x in ds] == list(range(0, 1000, 2))
    assert calls == list(range(500))


def test_a_changed_pipeline_writes_another(tmp_path: Path) -> None:
    assert list(ps.Dataset.range(3).snapshot(tmp_path)) == [0, 1, 2]
    assert list(ps.Dataset.range(4).snapshot(tmp_path)) == [0, 1, 2, 3]
    assert len(os.listdir(tmp_path)) == 2


def test_each_process_has_its_own_part(tmp_path: Path) -> None:
    for _ in range(2):
        parts = [ps.Dataset.range(6).distribute(2, i).snapshot(tmp_path) for i in range(2)]
        assert [[int(x) for x in part] for part in parts] == [[0, 2, 4], [1, 3, 5]]


def test_a_partial_pass_saves_nothing(tmp_path: Path) -> None:
    calls: list[int] = []
    ds = ps.Dataset.range(9).map(lambda x: calls.append(int(x)) or x).snapshot(tmp_path)
    with ds.run() as run:
        next(run)
    assert list(ds) == list(ds) == list(range(9))
    assert calls[-9:] == list(range(9))
    assert [name for _, folders, _ in os.walk(tmp_path) for name in folders if name.endswith(".part")] == []


def test_two_at_once(tmp_path: Path) -> None:
    """One writes, the other passes elements on."""
    ds = ps.Dataset.range(5).snapshot(tmp_path)
    assert list(ps.Dataset.zip((ds, ds))) == [(i, i) for i in range(5)]
    assert list(ds) == list(range(5))


def test_shards(tmp_path: Path) -> None:
    ds = ps.Dataset.range(9).snapshot(tmp_path, shard_func=lambda x: x % 3)
    assert [int(x) for x in ds] == list(range(9))
    assert [int(x) for x in ds] == [0, 3, 6, 1, 4, 7, 2, 5, 8]


def test_errors_are_shown_once(tmp_path: Path) -> None:
    ds = ps.Dataset.range(4).map(lambda x: x if x != 2 else int("two")).snapshot(tmp_path)
    found = all_with_errors(ds.run())
    assert [-1 if isinstance(x, Exception) else int(x) for x in found] == [0, 1, -1, 3]
    assert [int(x) for x in ds] == [0, 1, 3]


def test_a_function_that_fails(tmp_path: Path) -> None:
    ds = ps.Dataset.range(3).snapshot(tmp_path, shard_func=lambda x: 0 if x else [x])
    found = all_with_errors(ds.run())
    assert isinstance(found[0], ps.errors.BadType)
    assert found[1:] == [1, 2]


def test_the_laws(tmp_path: Path) -> None:
    check_op(ps.Dataset.range(30).map(lambda x: np.full(3, x)).snapshot(tmp_path).batch(4))
    check_op(ps.Dataset.range(9).snapshot(tmp_path).repeat(2))


@pytest.mark.parametrize("done", range(6))
def test_a_position_of_the_first_pass(tmp_path: Path, done: int) -> None:
    """Loaded when the snapshot is there already: what follows is what followed then."""
    ds = ps.Dataset.range(5).snapshot(tmp_path, shard_func=lambda x: x % 2)
    with ds.run() as run:
        for _ in range(done):
            next(run)
        state = run.state_dict()
        rest = list(run)
    with ds.run() as run:
        run.load_state_dict(state)
        assert list(run) == rest


@pytest.mark.parametrize(
    "arguments, says",
    [
        ({"path": 3}, "path: expected the path"),
        ({"path": "x", "compression": "ZIP"}, "compression: expected one of"),
        ({"path": "x", "reader_func": 3}, "reader_func: expected a function"),
        ({"path": "x", "shard_func": 3}, "shard_func: expected a function"),
    ],
)
def test_arguments(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ps.errors.PlanError, match=f"snapshot at .*: {says}"):
        ps.Dataset.range(3).snapshot(**arguments)


def test_a_captured_array_that_changed_is_another_snapshot(tmp_path: Path) -> None:
    def minus(mean: Any) -> Any:
        return lambda x: x - mean

    for mean in (0, 1, 0):
        found = [int(x[0]) for x in ps.Dataset.range(2).map(minus(np.full(1, mean))).snapshot(tmp_path)]
        assert found == [0 - mean, 1 - mean]
    assert len(os.listdir(tmp_path)) == 2


def test_what_a_function_keeps_as_it_runs_is_no_change(tmp_path: Path) -> None:
    scratch = np.zeros(3)
    ds = ps.Dataset.range(4).map(lambda x: np.add(scratch, 1, out=scratch).sum() * 0 + x).snapshot(tmp_path)
    assert [int(x) for x in ds] == [int(x) for x in ds] == [0, 1, 2, 3]
    assert len(os.listdir(tmp_path)) == 1
    assert scratch[0] == 4
