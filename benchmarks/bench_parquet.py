"""How fast do the columns of a Parquet file arrive as batches, and in how much memory?

A batch is a dict of 20 columns; one number of each is read. The bare loop is pyarrow's own, with its defaults.
"""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from benchmarks.workload import Batch, Contender, Epoch, Target, Workload, touch

ROWS, COLUMNS, BATCH, GROUP = 1_000_000, 20, 1_024, 50_000


def make_data(rows: int) -> str:
    """Writes the file; random numbers, as a dictionary would make the reading of others look easy."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    handle, path = tempfile.mkstemp(suffix=".parquet")
    os.close(handle)
    atexit.register(os.unlink, path)
    generator = np.random.default_rng(0)
    names = [f"c{i}" for i in range(COLUMNS)]
    schema = pa.schema([(name, pa.float32()) for name in names])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, GROUP):
            size = min(GROUP, rows - start)
            columns = [generator.random(size, dtype=np.float32) for _ in names]
            writer.write_table(pa.table(dict(zip(names, columns, strict=True))), row_group_size=GROUP)
    return path


def columns_of(batches: Iterable[Any]) -> Iterator[Batch]:
    """The columns of each batch, one after the other."""
    for batch in batches:
        yield from batch.values()


def touch_columns(columns: Iterable[Batch]) -> int:
    """Read one number of each column of each batch."""
    return touch(columns) // COLUMNS


def build_penstock(path: str, memory: str | None = None) -> Epoch:
    import penstock as ps

    dataset = ps.Dataset.from_parquet(path).batch(BATCH)
    return lambda: columns_of(dataset.run(memory=memory))


def build_penstock_in_16_mb(path: str) -> Epoch:
    return build_penstock(path, "16MB")


def build_bare_loop(path: str) -> Epoch:
    import pyarrow.parquet as pq

    def batches() -> Iterator[Any]:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH):
                yield {name: column.to_numpy() for name, column in zip(batch.schema.names, batch.columns, strict=True)}

    return lambda: columns_of(batches())


IMPORTS = ("pyarrow.parquet",)
WORKLOADS = (
    Workload(
        "parquet",
        "1M rows of 20 float32 columns in a Parquet file, batch 1,024",
        (
            Contender("penstock", "penstock", build_penstock, ("penstock", *IMPORTS)),
            Contender("penstock, 16 MB", "penstock", build_penstock_in_16_mb, ("penstock", *IMPORTS)),
            Contender("hand: pyarrow", "hand", build_bare_loop, IMPORTS),
        ),
        (
            Target("penstock", 0.8, over="hand: pyarrow"),
            Target("penstock, 16 MB", 0.5, over="hand: pyarrow"),
        ),
        limit="hand: pyarrow",
        make_data=make_data,
        rows=ROWS,
        quick_rows=ROWS // 5,
        batch=((BATCH,), "float32"),
        consume=touch_columns,
    ),
)
