"""parse_blocks: which functions are recognised, and which are left as they are."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.io import parse_trial
from penstock.optimize import optimize
from penstock.optimize.parse_blocks import parse_blocks

Fixed = ps.io.FixedLenFeature
SPEC = {"x": Fixed([4], "float32"), "y": Fixed([], "int64")}


def parse(record: Any) -> Any:
    return ps.io.parse_single_example(record, SPEC)


def popped(record: Any) -> Any:
    features = parse(record)
    label = features.pop("y")
    return features, label


def logged(record: Any) -> Any:
    try:
        print(len(record))
    except Exception:
        pass
    return parse(record)


def branching(record: Any) -> Any:
    features = parse(record)
    return features if features["y"] == 3 else features["x"]


def is_recognised(dataset: Any) -> bool:
    return bool(optimize(dataset.node, [(parse_blocks,)])[1])


@pytest.fixture
def records(tmp_path: Path) -> Any:
    with ps.io.TFRecordWriter(tmp_path / "a") as writer:
        writer.write(ps.io.encode_example({"x": np.zeros(4, np.float32), "y": 1}))
    return ps.TFRecordDataset(tmp_path / "a")


RECOGNISED: list[Callable[[Any], Any]] = [
    lambda r: ps.io.parse_single_example(r, {"x": ps.io.VarLenFeature("float32")}),
    parse,
    popped,
    lambda r: parse(r)["x"],
    lambda r: [parse(r)["x"]],
    lambda r: {"image": parse(r)["x"]},
    lambda r: dict(sorted(parse(r).items())),
]
OPAQUE: list[Callable[[Any], Any]] = [
    logged,
    branching,
    lambda r: r,
    lambda r: 3,
    lambda r: None,
    lambda r: {},
    lambda r: len(r),
    lambda r: 1 // 0,
    lambda r: parse(r)["z"],
    lambda r: parse(r)["x"] * 2,
    lambda r: -parse(r)["x"],
    lambda r: parse(r)["x"][0],
    lambda r: np.asarray(parse(r)["x"]),
    lambda r: (parse(r)["x"], 1),
    lambda r: (parse(r)["x"], [parse(r)["y"]]),
    lambda r: (parse(r)["x"], parse(r)["y"]),
    lambda r: (parse(r)["x"], r),
    lambda r: copy.copy(parse(r)["x"]),
    lambda r: parse(bytes(r)),
    lambda r: parse(r) if isinstance(r, bytes) else 0,
    lambda r: parse(r) if r else 0,
    lambda r: parse(r) if r != b"" else 0,
    lambda r: f"{parse(r)['x']}",
    lambda r: ps.io.parse_single_example(r, {}),
    lambda r: ps.io.parse_single_example(r, {"x": 3}),
    lambda r: ps.io.parse_example(r, SPEC),
    lambda r: ps.io.parse_example([r], SPEC),
    lambda a, b: a,
]


@pytest.mark.parametrize("number", range(len(RECOGNISED)))
def test_what_parses_and_picks_is_recognised(records: Any, number: int) -> None:
    assert is_recognised(records.map(RECOGNISED[number]).batch(2))


@pytest.mark.parametrize("number", range(len(OPAQUE)))
def test_whatever_else_a_function_does_makes_it_opaque(records: Any, number: int) -> None:
    assert not is_recognised(records.map(OPAQUE[number]).batch(2))


def test_only_functions_of_records_are_tried(records: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "b.txt").write_text("a\nb\n")
    tried: list[Any] = []
    monkeypatch.setattr(parse_trial, "parsing_of", tried.append)
    for dataset in (
        ps.TextLineDataset(tmp_path / "b.txt").map(parse),
        ps.Dataset.from_tensor_slices(np.array([b"a"], object)).map(parse),
        records.map(parse, stateful=True),
        records.map(parse, vectorized=True),
        records.map(lambda r: r).map(parse),
        records.batch(2).map(parse),
    ):
        assert not is_recognised(dataset)
    assert parse not in tried
    assert not is_recognised(records.map(parse))
    assert tried[-1] is parse


def test_a_spec_that_changes_between_runs_counts(records: Any) -> None:
    spec = dict(SPEC)
    dataset = records.map(lambda r: ps.io.parse_single_example(r, spec))
    assert sorted(next(iter(dataset))) == ["x", "y"]
    del spec["x"]
    assert sorted(next(iter(dataset))) == ["y"]


def test_the_plan_says_so(records: Any) -> None:
    text = str(records.map(parse).shuffle(10).batch(4).explain())
    assert "map(parse) does nothing but parse Examples: a block is parsed in one call" in text
    assert "map(parse) (parsed a block at a time)  → unknown of {'x': 4 float32, 'y': int64}" in text
    assert "in order .shuffle(10)" in text
