"""More elements than any stage has on their way at a time: every one is given once, in order, and again after a resume.

The other tests of this folder have few elements, all of which are in the first block; an error at the border of two
blocks, or of two pieces that threads work on, shows here.
"""

import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import penstock as ps
from penstock.memory.transit import MOST_SINGLY

pytestmark = pytest.mark.timeout(60)

D = ps.Dataset
COUNT = MOST_SINGLY + 1_001
# Wide rows are cut into blocks of far fewer: a number of a column is an object.
COLUMNS = 20
BUDGET = "4MB"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the same numbered rows in files of every kind, in groups of other sizes than any block."""
    folder = tmp_path_factory.mktemp("many")
    columns: dict[str, Any] = {f"column {i}": np.arange(COUNT) for i in range(COLUMNS)}
    table = pa.table({**columns, "name": [f"row {i}" for i in range(COUNT)]})
    pa.parquet.write_table(table, folder / "rows.parquet", row_group_size=3_500)
    pa.csv.write_csv(table, folder / "rows.csv")
    with pa.ipc.new_file(folder / "rows.arrow", table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as to:
        for group in table.to_batches(2_500):
            to.write_batch(group)
    with open(folder / "rows.jsonl", "w") as lines:
        lines.writelines(json.dumps({"column 3": i, "name": f"row {i}"}) + "\n" for i in range(COUNT))
    with ps.io.TFRecordWriter(folder / "rows.tfrecord") as records:
        for i in range(COUNT):
            records.write(ps.io.encode_example({"column 3": np.array([i])}))
    return folder


def column(row: dict[str, Any]) -> Any:
    return row["column 3"]


def parsed(record: Any) -> Any:
    return ps.io.parse_single_example(record, {"column 3": ps.io.FixedLenFeature((), np.int64)})["column 3"]


def wide() -> ps.Dataset:
    return D.from_tensor_slices({f"column {i}": np.arange(COUNT) for i in range(COLUMNS)})


SOURCES: dict[str, Callable[[Path], ps.Dataset]] = {
    "slices": lambda _: D.from_tensor_slices(np.arange(COUNT)),
    "wide slices": lambda _: wide().map(column),
    "wide slices, threads": lambda _: wide().map(column, num_parallel_calls=2),
    "generator": lambda _: D.from_generator(lambda: iter(range(COUNT))),
    "generator of dicts": lambda _: D.from_generator(lambda: ({"column 3": i} for i in range(COUNT))).map(column),
    "parquet": lambda folder: D.from_parquet(folder / "rows.parquet").map(column),
    "parquet, threads": lambda folder: D.from_parquet(folder / "rows.parquet").map(column, num_parallel_calls=2),
    "csv": lambda folder: D.from_csv(folder / "rows.csv").map(column),
    "json lines": lambda folder: D.from_json_lines(folder / "rows.jsonl").map(column),
    "compressed arrow": lambda folder: D.from_arrow(folder / "rows.arrow").map(column),
    "tfrecord": lambda folder: ps.TFRecordDataset(folder / "rows.tfrecord").map(parsed),
    "tfrecord, threads": lambda folder: ps.TFRecordDataset(folder / "rows.tfrecord").map(parsed, num_parallel_calls=2),
}

OPERATORS: dict[str, Callable[[ps.Dataset], ps.Dataset]] = {
    "nothing": lambda ds: ds,
    "batch": lambda ds: ds.batch(1_000),
    "batch of all": lambda ds: ds.batch(10**5),
    "map in threads, batch": lambda ds: ds.map(lambda x: x, num_parallel_calls=2).batch(9_000),
    "prefetch": lambda ds: ds.prefetch(ps.AUTOTUNE),
    "filter": lambda ds: ds.filter(lambda x: True),
    "cache": lambda ds: ds.cache(),
    "window": lambda ds: ds.window(100).flat_map(lambda window: window),
    "unbatch": lambda ds: ds.batch(1_000).unbatch().batch(333),
    "rebatch": lambda ds: ds.batch(1_000).rebatch(77),
    "unique": lambda ds: ds.unique(),
    "take_while": lambda ds: ds.take_while(lambda x: True),
    "interleave": lambda ds: ds.batch(500).interleave(D.from_tensor_slices, cycle_length=1, num_parallel_calls=1),
    "scan": lambda ds: ds.scan(np.int64(0), lambda state, x: (state, x)),
    "ignore_errors": lambda ds: ds.ignore_errors(),
    "shuffle": lambda ds: ds.filter(lambda x: True).shuffle(3_000, seed=3),
    "shuffle of all": lambda ds: ds.shuffle(COUNT, seed=3),
}


def numbers(items: list[Any]) -> Any:
    return np.concatenate([np.atleast_1d(item) for item in items])


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("source", SOURCES)
def test_every_element_is_given_once(source: str, operator: str, folder: Path) -> None:
    # Built anew for each run: a shuffle has another order in its second epoch.
    with OPERATORS[operator](SOURCES[source](folder)).run(memory=BUDGET) as run:
        items = list(run)
    given = numbers(items)
    assert np.array_equal(np.sort(given) if operator.startswith("shuffle") else given, np.arange(COUNT))

    with OPERATORS[operator](SOURCES[source](folder)).run() as run:
        first = list(islice(run, len(items) * 2 // 3))
        state = run.state_dict()
    with OPERATORS[operator](SOURCES[source](folder)).run(memory=BUDGET) as run:
        run.load_state_dict(state)
        assert np.array_equal(numbers([*first, *run]), given)
