"""Files written to real stores of objects: whole under their names, or not there."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

import penstock as ps

from .stores import Folder

D = ps.Dataset
ROWS = D.from_tensor_slices({"x": np.arange(200)})
SPEC = {"x": ps.io.FixedLenFeature([], "int64")}


def failing(row: Any) -> Any:
    if row["x"] == 150:
        raise ZeroDivisionError
    return row


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_a_writer(store: Folder, compression: str | None) -> None:
    with ps.io.TFRecordWriter(store / "a%20b", compression) as writer:
        for i in range(10):
            writer.write(b"%d" % i * 300_000)
        assert "a b" not in store.names()
    assert store.names() == ["a b"]
    assert list(ps.TFRecordDataset(store / "a%20b", compression)) == [b"%d" % i * 300_000 for i in range(10)]


def test_datasets(store: Folder) -> None:
    files = ROWS.to_tfrecord(store / "n", num_shards=2)
    assert files == [store / "n-00000-of-00002", store / "n-00001-of-00002"]
    found = ps.TFRecordDataset(files).map(lambda record: ps.io.parse_single_example(record, SPEC)["x"])
    assert sorted(found) == list(range(200))
    assert list(ps.TFRecordDataset(store / "n-*-of-00002")) == list(ps.TFRecordDataset(files))
    ROWS.to_parquet(store / "t.parquet")
    assert [row["x"] for row in D.from_parquet(store / "t.parquet")] == list(range(200))
    assert store.names() == ["n-00000-of-00002", "n-00001-of-00002", "t.parquet"]


def test_an_error_leaves_what_was_there(store: Folder) -> None:
    store.put("t", b"old")
    for write in (D.to_parquet, D.to_tfrecord):
        with pytest.raises(ZeroDivisionError):
            write(ROWS.map(failing), store / "t")
        with pytest.raises(ZeroDivisionError):
            write(ROWS.map(failing), store / "new")
    with contextlib.suppress(ZeroDivisionError), ps.io.TFRecordWriter(store / "t") as writer:
        writer.write(b"half")
        raise ZeroDivisionError
    assert store.names() == ["t"]
    assert store.get("t") == b"old"
    ROWS.to_parquet(store / "t")
    assert store.get("t").startswith(b"PAR1")
