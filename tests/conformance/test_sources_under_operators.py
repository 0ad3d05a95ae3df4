"""Every operator right on top of every source gives what it gives over a generator of the same elements.

Sources have blocks of their own kinds: columns, byte strings that are not cut out yet, tables, rows. An operator that
knows one kind only, or drops what belongs to another, shows here.
"""

import csv
import gzip
import io
import json
import tarfile
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import penstock as ps

D = ps.Dataset
COUNT = 40
NAMES = [b"name %d %s" % (i, b"x" * (i * 7 % 23)) for i in range(COUNT)]
NUMBERS = np.arange(COUNT) * 3
POINTS = np.arange(COUNT * 2.0).reshape(COUNT, 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sources")
    table = pa.table({"name": NAMES, "number": NUMBERS})
    pa.parquet.write_table(table, folder / "rows.parquet", row_group_size=7)
    with pa.ipc.new_file(folder / "rows.arrow", table.schema) as to:
        for group in table.to_batches(7):
            to.write_batch(group)
    with open(folder / "rows.csv", "w", newline="") as file:
        csv.writer(file).writerows([["name", "number"], *zip([n.decode() for n in NAMES], NUMBERS, strict=True)])
    rows = [{"name": name.decode(), "number": int(number)} for name, number in zip(NAMES, NUMBERS, strict=True)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, part in (("a", NAMES[:25]), ("b", NAMES[25:])):
        with ps.io.TFRecordWriter(folder / f"{name}.tfrecord") as records:
            for record in part:
                records.write(record)
        packed = gzip.compress((folder / f"{name}.tfrecord").read_bytes())
        (folder / f"{name}.tfrecord.gz").write_bytes(packed)
        (folder / f"{name}.txt").write_bytes(b"".join(record + b"\n" for record in part))
        (folder / f"{name}.bin").write_bytes(b"".join(record[:7] for record in part))
    with tarfile.open(folder / "rows.tar", "w") as archive:
        for i, name in enumerate(NAMES):
            entry = tarfile.TarInfo(f"{i:03}.bin")
            entry.size = len(name)
            archive.addfile(entry, io.BytesIO(name))
    np.save(folder / "points.npy", POINTS)
    return folder


def files(folder: Path, ending: str) -> list[str]:
    return [str(folder / f"{name}.{ending}") for name in ("a", "b")]


SOURCES: dict[str, Callable[[Path], ps.Dataset]] = {
    "tfrecord": lambda f: ps.TFRecordDataset(files(f, "tfrecord")),
    "tfrecord, shuffled": lambda f: ps.TFRecordDataset(files(f, "tfrecord")).shuffle(None, 3, False),
    "tfrecord, gzip": lambda f: ps.TFRecordDataset(files(f, "tfrecord.gz"), "GZIP"),
    "tfrecord, two at a time": lambda f: ps.TFRecordDataset(files(f, "tfrecord"), num_parallel_reads=2),
    "text": lambda f: ps.TextLineDataset(files(f, "txt")),
    "fixed length": lambda f: ps.FixedLengthRecordDataset(files(f, "bin"), 7),
    "parquet": lambda f: D.from_parquet(f / "rows.parquet"),
    "arrow": lambda f: D.from_arrow(f / "rows.arrow"),
    "csv": lambda f: D.from_csv(f / "rows.csv"),
    "json lines": lambda f: D.from_json_lines(f / "rows.jsonl"),
    "tar": lambda f: D.from_tar(f / "rows.tar"),
    "array": lambda _: D.from_tensor_slices(POINTS),
    "array, shuffled": lambda _: D.from_tensor_slices(POINTS).shuffle(None, 3, False),
    "memmap": lambda f: D.from_tensor_slices(np.load(f / "points.npy", mmap_mode="r")),
    "strings": lambda _: D.from_tensor_slices(np.array(NAMES)),
    "pairs": lambda _: D.from_tensor_slices((POINTS, NUMBERS)),
    "dicts": lambda _: D.from_tensor_slices({"point": POINTS, "number": NUMBERS}),
    "range": lambda _: D.range(COUNT),
    "cache": lambda _: D.from_tensor_slices((POINTS, NUMBERS)).map(lambda p, n: (p, n)).cache(),
    "batches": lambda _: D.from_tensor_slices(POINTS).batch(1),
    "windows": lambda _: D.from_tensor_slices(NUMBERS).window(1).flat_map(lambda window: window),
}


def same(*element: Any) -> Any:
    return element[0] if len(element) == 1 else element


def weight(*element: Any) -> np.int64:
    """A number that depends on the element."""
    return np.int64(len(repr(element)))


def every_third(*element: Any) -> bool:
    return bool(weight(*element) % 3)


def fails_at_times(*element: Any) -> Any:
    if weight(*element) % 4 == 0:
        raise ValueError("no")
    return same(*element)


OPERATORS: dict[str, Callable[[ps.Dataset], ps.Dataset]] = {
    "nothing": lambda d: d,
    "map": lambda d: d.map(same),
    "map in threads": lambda d: d.map(same, num_parallel_calls=2),
    "random_map": lambda d: d.random_map(lambda *e: (same(*e[:-1]), e[-1].integers(99)), seed=5),
    "filter": lambda d: d.filter(every_third),
    "ignore_errors": lambda d: d.map(fails_at_times).ignore_errors(),
    "take": lambda d: d.take(11),
    "skip": lambda d: d.skip(11),
    "shard": lambda d: d.shard(3, 1),
    "repeat": lambda d: d.repeat(2),
    "enumerate": lambda d: d.enumerate(start=4),
    "take_while": lambda d: d.enumerate().take_while(lambda i, _: i < 20),
    "scan": lambda d: d.scan(np.int64(0), lambda state, e: (state + 1, (e, state))),
    "unique": lambda d: d.concatenate(d).unique(),
    "shuffle": lambda d: d.shuffle(7, seed=1),
    "shuffle of a stream": lambda d: d.filter(every_third).shuffle(7, seed=1),
    "cache": lambda d: d.cache(),
    "prefetch": lambda d: d.prefetch(3),
    "window": lambda d: d.enumerate().window(3, 2).flat_map(lambda i, _: i),
    "ragged_batch": lambda d: d.ragged_batch(3),
    "concatenate": lambda d: d.concatenate(d.take(3)),
    "concatenate to shuffled": lambda d: d.shuffle(seed=2).concatenate(d.shuffle(seed=3)),
    "zip": lambda d: D.zip(d, d.skip(1)),
    "interleave": lambda d: D.range(3).interleave(lambda i: d.skip(i), cycle_length=2, block_length=3),
    "interleave in threads": lambda d: D.range(3).interleave(
        lambda i: d.skip(i), cycle_length=2, block_length=3, num_parallel_calls=2
    ),
    "flat_map": lambda d: D.range(3).flat_map(lambda i: d.skip(i).take(4)),
    "inner elements": lambda d: d.flat_map(lambda *e: D.from_tensors(same(*e)).repeat(2)),
    "sample": lambda d: D.sample_from_datasets([d, d.skip(3)], weights=[0.6, 0.4], seed=4),
    "sample of one": lambda d: D.sample_from_datasets([d], seed=4),
    "choose": lambda d: D.choose_from_datasets([d, d.skip(5)], D.range(50).map(lambda i: i // 3 % 2)),
    "rejection_resample": lambda d: d.rejection_resample(lambda *e: weight(*e) % 2, [0.5, 0.5], seed=6),
    "group_by_window": lambda d: d.group_by_window(
        lambda *e: weight(*e) % 3, lambda key, window: window.enumerate(key), window_size=4
    ),
}


def comparable(element: Any) -> Any:
    if isinstance(element, dict):
        return {key: comparable(value) for key, value in element.items()}
    if isinstance(element, (tuple, list)):
        return [comparable(value) for value in element]
    if isinstance(element, ps.Ragged):
        return element.values.dtype.kind, element.to_list()
    array = np.asarray(element)
    return array.dtype.kind, array.tolist()


def drawn(dataset: ps.Dataset, memory: str) -> list[Any]:
    with dataset.run(memory=memory, epoch=0) as run:
        return [comparable(element) for element in run]


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("source", SOURCES)
def test_the_same_as_over_a_generator(source: str, operator: str, folder: Path) -> None:
    with SOURCES[source](folder).run(epoch=0) as run:
        elements = list(run)
    assert len(elements) == COUNT
    plain = D.from_generator(lambda: iter(elements))
    expected = drawn(OPERATORS[operator](plain), "8MB")
    assert expected
    assert drawn(OPERATORS[operator](SOURCES[source](folder)), "8MB") == expected
    assert drawn(OPERATORS[operator](SOURCES[source](folder)), "1MB") == expected


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("source", SOURCES)
def test_it_goes_on_after_a_resume(source: str, operator: str, folder: Path) -> None:
    expected = drawn(OPERATORS[operator](SOURCES[source](folder)), "8MB")
    dataset = OPERATORS[operator](SOURCES[source](folder))
    with dataset.run(epoch=0) as run:
        first = [comparable(element) for element in islice(run, len(expected) // 2)]
        state = run.state_dict()
    with dataset.run(memory="8MB") as run:
        run.load_state_dict(state)
        assert first + [comparable(element) for element in run] == expected
