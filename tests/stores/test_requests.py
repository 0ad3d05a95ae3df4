"""How often a store is asked: each request takes as long as a megabyte, so a file of 3 MB is a few of them."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps

from .stores import Folder
from .test_reading import records_as_file

D = ps.Dataset
MEGABYTES = 3
NOISE = np.random.default_rng(0).bytes(MEGABYTES << 20)
RECORDS = [NOISE[i : i + 1024] for i in range(0, len(NOISE), 1024)]
TABLE = pa.table({f"c{i}": np.frombuffer(NOISE, np.int64).reshape(8, -1)[i] for i in range(8)})
TEXT = b"".join(b"%d,%d\n" % (n, n) for n in np.frombuffer(NOISE, np.int64)[: 75 << 10].tolist())


def parquet(**options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(TABLE, sink, **options)
    return sink.getvalue()


def arrow(**options: Any) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, TABLE.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(TABLE, max_chunksize=16 << 10)
    return sink.getvalue()


CASES: dict[str, tuple[Callable[[], bytes], Callable[[str], Any], int]] = {
    "TFRecord": (lambda: records_as_file(RECORDS), ps.TFRecordDataset, 6),
    "TFRecord, GZIP": (
        lambda: gzip.compress(records_as_file(RECORDS), 1),
        lambda uri: ps.TFRecordDataset(uri, "GZIP"),
        16,
    ),
    "text": (lambda: TEXT, ps.TextLineDataset, 6),
    "records of one length": (lambda: NOISE, lambda uri: ps.FixedLengthRecordDataset(uri, 1024), 7),
    "the same, shuffled": (
        lambda: NOISE,
        lambda uri: ps.FixedLengthRecordDataset(uri, 1024).shuffle(500, seed=1),
        7,
    ),
    "CSV": (lambda: b"a,b\n" + TEXT, D.from_csv, 8),
    "Parquet": (lambda: parquet(use_dictionary=False), D.from_parquet, 6),
    "Parquet, small pages": (lambda: parquet(data_page_size=8000, use_dictionary=False), D.from_parquet, 6),
    "Parquet, small row groups": (lambda: parquet(row_group_size=8 << 10), D.from_parquet, 12),
    "Arrow": (arrow, D.from_arrow, 14),
    "Arrow, packed": (lambda: arrow(compression="zstd"), D.from_arrow, 14),
}


@pytest.mark.parametrize("store", ["s3"], indirect=True)
@pytest.mark.parametrize("name", CASES)
def test_a_file_is_few_requests(store: Folder, name: str) -> None:
    data, source, most = CASES[name]
    uri = store.put("t", data())
    store.requests()
    with source(uri).batch(500).run(memory="32MB") as run:
        for _ in run:
            pass
    asked = store.requests()
    assert 0 < len(asked) <= most, asked


@pytest.mark.parametrize("store", ["s3"], indirect=True)
def test_small_budgets_fetch_less_at_a_time(store: Folder) -> None:
    uri = store.put("t", parquet(use_dictionary=False))
    expected = TABLE["c3"].to_numpy()
    for memory in ("3MB", "12MB"):
        with D.from_parquet(uri).batch(1000).run(memory=memory) as run:
            assert np.array_equal(np.concatenate([batch["c3"] for batch in run]), expected)
            assert run.ledger.peak_bytes <= int(memory[:-2]) * 10**6


@pytest.mark.parametrize("store", ["s3"], indirect=True)
def test_a_record_batch_without_room_is_not_fetched(store: Folder) -> None:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)  # one batch of 3 MB
    uri = store.put("t", sink.getvalue())
    ds = D.from_arrow(uri)
    store.requests()
    with pytest.raises(ps.errors.OverBudget, match=r"asked for 3\.15 MB more .* use memory="):
        list(ds.run(memory="2MB"))
    fetched = [line.split("bytes=")[1].split("-") for line in store.requests() if "bytes=" in line]
    assert sum(int(last) + 1 - int(first) for first, last in fetched) < 10_000
    assert sum(1 for _ in ds.run(memory="16MB")) == len(TABLE)
    assert sum(1 for _ in D.from_arrow(uri, columns=["c1"]).run(memory="2MB")) == len(TABLE)
