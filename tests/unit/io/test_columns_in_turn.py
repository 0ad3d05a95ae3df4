"""Parquet files whose columns have no room at a time: they are decoded in turn, by way of the disk."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.testing import check_source
from tests.unit.io.files import at_the_minimum

ROWS, GROUP = 50_000, 30_000
COLUMNS = [f"c{i}" for i in range(6)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Numbers as pyarrow writes them by itself: pages of up to a megabyte, and a dictionary beside them."""
    rng = np.random.default_rng(0)
    file = str(tmp_path_factory.mktemp("parquet") / "numbers.parquet")
    pq.write_table(pa.table({name: rng.random(ROWS) for name in COLUMNS}), file, row_group_size=GROUP)
    return file


def spilling(dataset: Any, folder: Path, **options: Any) -> Any:
    return dataset.with_options(ps.Options(spill_dir=str(folder), **options))


def joined(batches: Any) -> dict[str, np.ndarray]:
    batches = list(batches)
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def test_many_columns_need_the_pages_of_one(path: str, tmp_path: Path) -> None:
    dataset = spilling(ps.Dataset.from_parquet(path).batch(1000), tmp_path)
    least = dataset.explain().to_dict()["minimum_bytes"]
    alone = ps.Dataset.from_parquet(path, columns=["c0"]).batch(1000).explain().to_dict()["minimum_bytes"]
    assert least < 2 * alone
    assert "by way of the disk" in str(dataset.explain())
    table = pq.read_table(path)
    with dataset.run(memory=least + 300_000) as run:
        found, spilled = [], 0
        for batch in run:
            spilled = max(spilled, run.memory()["on_disk_bytes"])
            found.append(batch)
        assert run.memory()["peak_bytes"] <= least + 300_000
        assert run.memory()["on_disk_bytes"] == 0
        assert run.memory()["stages"][-1]["spilled_bytes"] > 2_000_000  # of both row groups, all told
    assert spilled > 1_000_000
    for name, values in joined(found).items():
        assert np.array_equal(values, table[name].to_numpy())
    assert os.listdir(tmp_path) == []


def test_with_room_for_all_columns_nothing_is_written(path: str, tmp_path: Path) -> None:
    with spilling(ps.Dataset.from_parquet(path).batch(1000), tmp_path).run(memory="64MB") as run:
        assert sum(1 for _ in run) == 50
        assert run.stats()["spilled_bytes"] == 0
        assert os.listdir(tmp_path) == []


def test_the_first_rows_do_not_wait_for_all(path: str, tmp_path: Path) -> None:
    with spilling(ps.Dataset.from_parquet(path), tmp_path).run(memory="2MB") as run:
        for _ in range(100):
            next(run)
        assert os.listdir(tmp_path) == []


def test_positions_in_the_middle(path: str, tmp_path: Path) -> None:
    dataset = spilling(ps.Dataset.from_parquet(path, columns=COLUMNS[::-1]).batch(5000), tmp_path)
    whole = list(dataset)
    with dataset.run(memory="3MB") as run:
        for i in range(10):
            with dataset.run(memory="3MB") as other:
                other.load_state_dict(run.state_dict())
                assert np.array_equal(next(other)["c3"], whole[i]["c3"])
            next(run)
    assert os.listdir(tmp_path) == []
    assert np.array_equal(next(iter(dataset.skip(8).run(memory="3MB")))["c5"], whole[8]["c5"])


def test_columns_of_all_kinds(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(1), 3000
    table = pa.table(
        {
            "name": [os.urandom(200) for _ in range(n)],
            "long": [rng.bytes(1000) for _ in range(n)],
            "list": [list(range(i % 50)) for i in range(n)],
            "fixed": pa.array(list(rng.random((n, 64))), pa.list_(pa.float64(), 64)),
            "struct": [{"a": i, "t": os.urandom(100)} for i in range(n)],
            "kind": pa.array([f"kind {i % 7}" for i in range(n)]).dictionary_encode(),
        }
    )
    path = str(tmp_path / "kinds.parquet")
    pq.write_table(table, path, row_group_size=2000)
    (tmp_path / "spill").mkdir()
    dataset = spilling(ps.Dataset.from_parquet(path), tmp_path / "spill")
    assert "by way of the disk" in str(dataset.explain())
    whole = list(dataset)
    assert ps.testing.same(at_the_minimum(dataset), whole)
    check_source(dataset.take(20))


def test_rows_before_a_damage_are_read(path: str, tmp_path: Path) -> None:
    file = tmp_path / "damaged.parquet"
    pq.write_table(pq.read_table(path), file, row_group_size=GROUP, data_page_size=8_000)
    chunk = pq.ParquetFile(file).metadata.row_group(0).column(3)
    data = bytearray(file.read_bytes())
    end = chunk.dictionary_page_offset + chunk.total_compressed_size
    data[end - 20_000 : end] = b"\xff" * 20_000
    file.write_bytes(data)
    run = spilling(ps.Dataset.from_parquet(file), tmp_path).run(memory="1.5MB")
    rows: list[float] = []
    errors: list[str] = []
    while True:
        try:
            rows.append(float(next(run)["c0"]))
        except StopIteration:
            break
        except ps.errors.FormatError as error:
            errors.append(str(error))
    expected, before = pq.read_table(path, columns=["c0"])["c0"].to_numpy(), len(rows) - (ROWS - GROUP)
    assert GROUP // 10 < before < GROUP
    assert np.array_equal(rows, np.concatenate([expected[:before], expected[GROUP:]]))
    assert all(
        f"row {row:,}: row group 0, after row {before:,}" in errors[row - before] for row in range(before, GROUP)
    )
    assert len(errors) == GROUP - before


def test_no_room_on_disk_loses_nothing(path: str, tmp_path: Path) -> None:
    small = spilling(ps.Dataset.from_parquet(path).batch(1000), tmp_path, spill_limit="100kB")
    run = small.run(memory="3MB")
    with pytest.raises(ps.errors.SpillError, match="spill_limit"):
        list(run)
    assert run.stats()["spilled_bytes"] == 0
    position, whole = run.state_dict(), list(ps.Dataset.from_parquet(path).batch(1000))
    run.close()
    with spilling(ps.Dataset.from_parquet(path).batch(1000), tmp_path).run(memory="3MB") as large:
        large.load_state_dict(position)
        rest = list(large)
    assert 0 < len(rest) < len(whole)
    assert np.array_equal(rest[0]["c1"], whole[-len(rest)]["c1"])
    assert len(os.listdir(tmp_path)) == 0


def test_a_file_that_somebody_cut_is_a_spill_error(path: str, tmp_path: Path) -> None:
    with spilling(ps.Dataset.from_parquet(path).batch(100), tmp_path).run(memory="3MB") as run:
        got: list[Any] = []
        while not (files := list(tmp_path.glob("*/*.columns"))):
            got.append(next(run))
        os.truncate(files[0], 1000)
        with pytest.raises(ps.errors.SpillError, match="bytes are missing"):
            got.extend(run)
        position = run.state_dict()
    with ps.Dataset.from_parquet(path).batch(100).run() as other:
        other.load_state_dict(position)
        assert np.array_equal(joined(other)["c0"], pq.read_table(path)["c0"].to_numpy()[100 * len(got) :])
