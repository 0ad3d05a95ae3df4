"""Positions and cache files of pipelines whose source changed since, and of programs in which only lines moved."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock import Dataset as D
from penstock.errors import CacheMismatch, StateError

X, Y = np.arange(4), np.arange(4, 8)
STRUCTURE = "has elements of other names, structure or types"


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some files of each format, in the working directory."""
    monkeypatch.chdir(tmp_path)
    for name in "abc":
        Path(f"{name}.txt").write_text(f"{name}1\n{name}2\n")
    Path("a.csv").write_text("x,y\n1,2\n3,\n")
    Path("a.jsonl").write_text('{"x": 1, "y": 2}\n{"x": 3}\n')
    D.range(4).map(lambda x: {"x": x}).to_parquet("a.parquet")
    for name in ("cat/1.png", "dog/1.png"):
        Path("pets", name).parent.mkdir(parents=True)
        Path("pets", name).write_bytes(ps.image.encode_png(np.zeros((4, 4, 3), np.uint8)))


def state_of(dataset: Any) -> dict[str, Any]:
    with dataset.run() as run:
        next(run)
        state: dict[str, Any] = run.state_dict()
    return state


# What makes a pipeline, what it is given then and now, and what is said of it.
CHANGES: dict[str, tuple[Callable[[Any], Any], Any, Any, str]] = {
    "keys": (D.from_tensor_slices, {"a": X}, {"b": X}, STRUCTURE),
    "arrays that changed places": (D.from_tensor_slices, {"a": X, "b": Y}, {"b": X, "a": Y}, "has other data"),
    "a dict for a tuple": (D.from_tensor_slices, {"a": X, "b": X}, (X, X), STRUCTURE),
    "a nest": (D.from_tensor_slices, (X, (X, X)), ((X, X), X), STRUCTURE),
    "one element": (D.from_tensors, {"a": X}, {"b": X}, STRUCTURE),
    "the data of one element": (D.from_tensors, (X, 1.5), (X, 2.5), "has other data"),
    "a table": (lambda x: D.from_arrow(pa.table({"x": x})), [1, 2, 3], [1, 2, 4], "has other data"),
    "a file in parts": (
        lambda names: ps.TextLineDataset(names).shard(2, 0, by="file"),
        ["a.txt", "b.txt"],
        ["a.txt", "c.txt"],
        "has other files",
    ),
    "another file": (ps.TextLineDataset, ["a.txt", "b.txt"], ["a.txt", "c.txt"], "has other files"),
    "the order of files": (ps.TextLineDataset, ["a.txt", "b.txt", "c.txt"], ["a.txt", "c.txt", "b.txt"], "other files"),
    "a fill": (lambda fill: D.from_csv("a.csv", fill_null=fill), 0, 1, "argument fill_null: it was 0 and is 1"),
    "dtypes": (lambda dtype: D.from_csv("a.csv", dtypes={"x": dtype}), np.int32, np.int64, "another argument dtypes"),
    "a delimiter": (lambda mark: D.from_csv("a.csv", delimiter=mark, columns=["x,y"]), ";", "|", "argument delimiter"),
    "a default": (lambda y: ps.CsvDataset("a.csv", [[0], [y]], header=True), 1, 2, "another argument record_defaults"),
    "a fill of objects": (lambda fill: D.from_json_lines("a.jsonl", fill_null=fill), 0, 1, "fill_null: it was 0"),
    "a fill of Parquet": (lambda fill: D.from_parquet("a.parquet", fill_null=fill), 0, 1, "fill_null: it was 0"),
    "the size of images": (lambda size: D.from_image_folder("pets", size), (2, 2), (3, 3), "another captured decode"),
}  # fmt: skip


@pytest.mark.parametrize("make, was, now, text", CHANGES.values(), ids=CHANGES)
def test_a_position_of_another_source_is_refused(make: Callable[[Any], Any], was: Any, now: Any, text: str) -> None:
    state = state_of(make(was))
    make(was).run().load_state_dict(state)
    with make(now).run() as run, pytest.raises(StateError, match=text):
        run.load_state_dict(state)


def test_processes_that_share_a_dataset_have_elements_of_one_structure() -> None:
    state = state_of(D.from_tensor_slices({"a": X}).distribute(2, 0))
    D.from_tensor_slices({"a": X}).distribute(3, 0).run().load_state_dict(state)
    with D.from_tensor_slices({"b": X}).distribute(3, 0).run() as run, pytest.raises(StateError, match=STRUCTURE):
        run.load_state_dict(state)


def test_a_table_is_the_same_however_it_is_cut_into_pieces() -> None:
    table = pa.table({"x": np.arange(100), "y": np.ones(100)})
    pieces = pa.concat_tables([table.slice(0, 0), table.slice(0, 7), table.slice(7)])
    D.from_arrow(pieces).run().load_state_dict(state_of(D.from_arrow(table)))


def test_a_file_that_came_or_went_is_another_list() -> None:
    state = state_of(D.list_files("*.txt", shuffle=False))
    Path("b.txt").rename("d.txt")
    with D.list_files("*.txt", shuffle=False).run() as run, pytest.raises(StateError, match="has other files"):
        run.load_state_dict(state)


def test_what_was_saved_anew_has_other_files() -> None:
    D.range(4).save("numbers")
    state = state_of(D.load("numbers"))
    D.load("numbers", compression="GZIP").run().load_state_dict(state)
    D.range(4, 8).save("numbers")
    with D.load("numbers").run() as run, pytest.raises(StateError, match="has other files"):
        run.load_state_dict(state)


# Two lines of a program: a position and a cache know nothing of them.
MOVED: dict[str, tuple[Any, Any]] = {
    "read in turn": (
        lambda: ps.TextLineDataset(["a.txt", "b.txt"], num_parallel_reads=2),
        lambda: ps.TextLineDataset(["a.txt", "b.txt"], num_parallel_reads=2),
    ),
    "names of a dataset": (
        lambda: ps.TextLineDataset(D.list_files("?.txt", shuffle=False)),
        lambda: ps.TextLineDataset(D.list_files("?.txt", shuffle=False)),
    ),
    "images": (
        lambda: D.from_image_folder("pets"),
        lambda: D.from_image_folder("pets"),
    ),
}


@pytest.mark.parametrize("before, after", MOVED.values(), ids=MOVED)
def test_a_source_may_stand_on_another_line(before: Any, after: Any) -> None:
    after().run().load_state_dict(state_of(before()))
    assert len(list(before().cache("kept"))) == len(list(after().cache("kept")))


def test_a_cache_of_another_source_is_refused() -> None:
    list(D.from_csv("a.csv", fill_null=0).cache("kept"))
    with pytest.raises(CacheMismatch, match="argument fill_null changed"):
        list(D.from_csv("a.csv", fill_null=1).cache("kept"))
