"""Record batches of Arrow files: empty ones, and dictionaries, which are counted once and before they are there."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.io import arrow_batches
from penstock.io.arrow_arrays import TableColumns
from penstock.io.arrow_dictionaries import dictionary_bytes, looked_up_bytes
from penstock.io.arrow_sizes import BatchSizes
from penstock.testing import check_op, same
from tests.unit.io.files import at_the_minimum, failed_by_file


def written(path: Path, batches: Sequence[Any], compression: str | None) -> str:
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return str(path)


# --- empty batches ---


def rows(start: int, stop: int) -> Any:
    strings = pa.array([str(i) for i in range(start, stop)], pa.string())
    return pa.record_batch({"x": np.arange(start, stop), "s": strings})


PLACES = {"first": (0, 5, 9), "between": (5, 0, 9), "last": (5, 9, 0), "only": (0,), "many": (0, 0, 5, 0, 0, 9, 0)}


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("columns", [["x"], ["x", "s"]], ids=["numbers", "strings"])
def test_empty_batches(tmp_path: Path, place: str, compression: str | None, columns: list[str]) -> None:
    sizes = PLACES[place]
    ends = np.cumsum((0, *sizes)).tolist()
    batches = [rows(a, b) for a, b in itertools.pairwise(ends)]
    path = written(tmp_path / "a", batches, compression)
    dataset = ps.Dataset.from_arrow(path, columns=columns)
    assert [int(row["x"]) for row in dataset] == list(range(sum(sizes)))
    assert dataset.cardinality() == (sum(sizes) if compression is None else ps.UNKNOWN)
    assert sorted(int(row["x"]) for row in dataset.shuffle(20, seed=1)) == list(range(sum(sizes)))
    table = ps.Dataset.from_arrow(pa.Table.from_batches(batches), columns=columns)
    assert same(list(table), list(dataset))
    check_op(dataset.batch(4))
    twice = ps.Dataset.from_arrow([path, written(tmp_path / "b", [rows(0, 2)], compression), path], columns=columns)
    assert [int(row["x"]) for row in twice] == [*range(sum(sizes)), 0, 1, *range(sum(sizes))]
    check_op(twice.skip(3))


def test_an_empty_batch_is_no_piece_of_a_mapped_file(tmp_path: Path) -> None:
    """What is left lies in one piece: batches of it are views."""
    dataset = ps.Dataset.from_arrow(written(tmp_path / "a", [rows(0, 0), rows(0, 9)], None), columns=["x"])
    batch = next(iter(dataset.batch(9)))["x"]
    assert not batch.flags.owndata
    assert not batch.flags.writeable


# --- dictionaries ---


def words(num_words: int, num_rows: int, num_batches: int = 4) -> list[Any]:
    """Batches with one dictionary of strings, each of them a hundred characters long."""
    dictionary = pa.array([f"{i:08}" * 12 + "last" for i in range(num_words)])
    numbers = np.random.default_rng(0).integers(0, num_words, num_rows).astype(np.int32)
    column = pa.DictionaryArray.from_arrays(pa.array(numbers), dictionary)
    table = pa.table({"w": column, "x": np.arange(num_rows)})
    return list(table.to_batches(max_chunksize=-(-num_rows // num_batches)))


@pytest.mark.parametrize("columns", [["w", "x"], ["x"]], ids=["used", "unused"])
def test_dictionaries_are_on_the_ledger(tmp_path: Path, columns: list[str]) -> None:
    """Those of columns that nobody asked for, too: Arrow reads them all."""
    path = written(tmp_path / "a", words(10_000, 2000), "zstd")
    dataset = ps.Dataset.from_arrow(path, columns=columns)
    with dataset.run(memory="8MB") as run:
        assert run.ledger.charged_bytes < 500_000  # nothing was read
        next(run)
        assert 1_040_000 < run.ledger.charged_bytes < run.ledger.peak_bytes < 3_000_000
        assert len(list(run)) == 1999
    assert run.ledger.charged_bytes == 0
    with pytest.raises(ps.errors.BudgetTooSmall, match=r"from_arrow +1\.\d+ MB  one record batch"):
        dataset.run(memory="1MB")


def test_dictionaries_are_not_counted_with_each_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = ps.Dataset.from_arrow(written(tmp_path / "a", words(20_000, 8000), "zstd"))
    decode, sizes = TableColumns.decode, []

    def counted(self: TableColumns, batch: Any) -> Any:
        sizes.append(batch.num_rows)
        return decode(self, batch)

    monkeypatch.setattr(TableColumns, "decode", counted)
    run = dataset.run(memory="8MB")
    assert len(list(run)) == sum(sizes) == 8000
    assert run.ledger.peak_bytes <= 8_000_000
    assert len(sizes) < 100


DICTIONARIES: dict[str, Any] = {
    "strings": pa.dictionary(pa.int8(), pa.string()),
    "large strings": pa.dictionary(pa.int64(), pa.large_string()),
    "many strings": pa.dictionary(pa.uint8(), pa.binary()),
    "numbers": pa.dictionary(pa.int16(), pa.float64()),
    "in a struct": pa.struct([("a", pa.dictionary(pa.int32(), pa.string())), ("b", pa.int8())]),
    "in lists": pa.list_(pa.dictionary(pa.int32(), pa.string())),
    "in fixed lists": pa.list_(pa.dictionary(pa.int32(), pa.int64()), 2),
}


def of_kind(kind: Any, i: int) -> Any:
    if pa.types.is_struct(kind):
        return {"a": of_kind(kind.field(0).type, i), "b": i % 100}
    if pa.types.is_fixed_size_list(kind):
        return [of_kind(kind.value_type, i), of_kind(kind.value_type, i + 1)]
    if pa.types.is_list(kind):
        return [of_kind(kind.value_type, i + k) for k in range(i % 3)]
    is_number = pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)
    number = i % (256 if kind.index_type == pa.uint8() else 100)
    return float(number) if is_number else f"{number} " * (number % 7)


def table_of(kind: Any, num_rows: int) -> Any:
    """A table of such a column; its dictionaries are those of the whole column, as writers have them."""
    return pa.table({"c": pa.array([of_kind(kind, i) for i in range(num_rows)], kind), "x": np.arange(num_rows)})


@pytest.mark.parametrize("compression", [None, "zstd"])
@pytest.mark.parametrize("name", DICTIONARIES)
def test_dictionaries_of_every_kind(tmp_path: Path, name: str, compression: str | None) -> None:
    table = table_of(DICTIONARIES[name], 300)
    path = written(tmp_path / "a", table.to_batches(max_chunksize=70), compression)
    # Beside a file with other columns nothing is mapped.
    other = written(tmp_path / "b", [table.append_column("y", pa.array(range(300))).to_batches()[0]], compression)
    dataset = ps.Dataset.from_arrow([path, other], columns=["c", "x"])
    expected = list(ps.Dataset.from_arrow(table))
    assert same(list(dataset), expected * 2)
    assert len(at_the_minimum(dataset)) == 600
    check_op(ps.Dataset.from_arrow(path).skip(60).take(15).shuffle(3, seed=1))


@pytest.mark.parametrize("name", DICTIONARIES)
def test_what_is_looked_up(name: str) -> None:
    """As much as without dictionaries, and the numbers; slices have their part of it."""
    kind = DICTIONARIES[name]
    (batch,) = table_of(kind, 300).to_batches()
    unfolded = pa.array([of_kind(kind, i) for i in range(300)], without_dictionary(kind)).nbytes + 300 * 8
    numbers = 8 * 600
    assert unfolded <= looked_up_bytes(batch) <= unfolded + numbers
    parts = [looked_up_bytes(batch.slice(i, 100)) for i in (0, 100, 200)]
    assert sum(parts) == pytest.approx(looked_up_bytes(batch), abs=64)
    assert looked_up_bytes(batch.slice(0, 0)) <= 16
    assert 0 < dictionary_bytes(batch.slice(0, 0)) == dictionary_bytes(batch) < batch.nbytes


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_dictionaries_of_views(tmp_path: Path, compression: str | None) -> None:
    """As Polars has them: all strings of one are copied before some are gathered, and counted."""
    values = [f"{i} " * (i % 9) for i in range(100)]
    places = pa.array([i * i % 100 for i in range(300)], pa.uint32())
    views = pa.DictionaryArray.from_arrays(places, pa.array(values, pa.string_view()))
    batch = pa.record_batch({"c": views.slice(7), "x": np.arange(293)})
    found = [values[i * i % 100].encode() for i in range(7, 300)]
    path = written(tmp_path / "a", [batch.slice(0, 100), batch.slice(100)], compression)
    dataset = ps.Dataset.from_arrow(path)
    assert [row["c"] for row in dataset] == found
    assert [row["c"] for row in at_the_minimum(dataset)] == found
    gathered = 293 * 20 + len(b"".join(found))
    copied = len("".join(values)) + views.dictionary.nbytes
    assert looked_up_bytes(batch) == gathered + copied


def without_dictionary(kind: Any) -> Any:
    if pa.types.is_struct(kind):
        return pa.struct([(kind.field(i).name, without_dictionary(kind.field(i).type)) for i in range(kind.num_fields)])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(without_dictionary(kind.value_type), kind.list_size)
    if pa.types.is_list(kind):
        return pa.list_(without_dictionary(kind.value_type))
    return kind.value_type if pa.types.is_dictionary(kind) else kind


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_the_sizes_of_dictionaries_are_told_before_they_are_read(tmp_path: Path, compression: str | None) -> None:
    path = written(tmp_path / "a", words(3000, 100), compression)
    with pa.OSFile(path) as file:
        size = BatchSizes(file, None).dictionaries()
    held = words(3000, 100)[0].column("w").dictionary.nbytes
    assert size.num_rows == 3000
    assert held <= size.held_bytes <= held + 128
    assert size.is_packed == (compression is not None)
    assert (size.reading_bytes > size.held_bytes) == size.is_packed


def test_dictionaries_of_a_remote_file_are_on_the_ledger_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a", words(10_000, 2000), "zstd")
    dataset = ps.Dataset.from_arrow(path)
    monkeypatch.setattr(arrow_batches, "is_local", lambda path: False)
    with dataset.run(memory="8MB") as run:
        assert len([next(run) for _ in range(1000)]) == 1000
        assert 1_040_000 < run.ledger.charged_bytes < 3_000_000


def test_a_damaged_dictionary_is_an_error_of_each_batch(tmp_path: Path) -> None:
    """Nothing can be made of numbers without it; it is skipped like anything else."""
    path = written(tmp_path / "a", words(1000, 100), "zstd")
    good = written(tmp_path / "b", words(10, 20), "zstd")
    data = bytearray(Path(path).read_bytes())
    at = data.index(b"\x28\xb5\x2f\xfd")
    data[at : at + 400] = bytes(400)
    Path(path).write_bytes(data)
    run = ps.Dataset.from_arrow([good, path, good], on_error="skip").run()
    assert len(list(run)) == 40
    assert run.stats()["stages"][0]["failed_by_file"] == {path: 4}
    check_op(ps.Dataset.from_arrow([good, path, good]).skip(15))


def with_bad_rows(path: Path, bad: dict[int, bytes]) -> None:
    """A compressed file of three batches of 20 rows, of which some rows of the second are no UTF-8."""
    good = [b"row %d" % i for i in range(60)]
    strings = [bad.get(i, text) for i, text in enumerate(good)]
    as_binary = pa.array(strings, pa.binary())
    column = pa.StringArray.from_buffers(60, *as_binary.buffers()[1:])
    table = pa.table({"x": np.arange(60), "s": column})
    with pa.ipc.new_file(str(path), table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table, max_chunksize=20)


@pytest.mark.parametrize("bad", [[20], [39], [24, 25, 30], list(range(20, 40))])
def test_damaged_rows_of_a_batch_fail_alone(tmp_path: Path, bad: list[int]) -> None:
    path = tmp_path / "t.arrow"
    with_bad_rows(path, dict.fromkeys(bad, b"\xff\xfe"))
    ds = ps.Dataset.from_arrow(path)
    run = ds.run()
    for i in range(60):
        if i in bad:
            where = f"t.arrow, record batch 1, row {i - 20}: expected Arrow data"
            with pytest.raises(ps.errors.FormatError, match=where):
                next(run)
        else:
            assert next(run)["x"] == i
    assert next(run, None) is None
    for memory in ("270kB", "8MB"):
        skipping = ps.Dataset.from_arrow(path, on_error="skip").run(memory=memory)
        assert [row["s"] for row in skipping] == [b"row %d" % i for i in range(60) if i not in bad]
        assert failed_by_file(skipping) == {str(path): len(bad)}
    for place in (19, 22, 27, 45):
        resumed = ds.skip(place).ignore_errors()
        assert [int(row["x"]) for row in resumed] == [i for i in range(place, 60) if i not in bad]
    check_op(ds.ignore_errors())


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_a_head_that_names_more_buffers_than_it_has_room_for(tmp_path: Path, compression: str | None) -> None:
    """What the count of buffers is in the head of each batch shows where a look at the file reads it."""
    table = pa.table({"x": np.arange(60), "s": [f"row {i}" for i in range(60)]})
    path = tmp_path / "t.arrow"
    with pa.ipc.new_file(str(path), table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table, max_chunksize=20)
    whole = path.read_bytes()
    count = (5).to_bytes(4, "little") + bytes(8)  # buffers, and the place of the first
    places = [i for i in range(len(whole)) if whole.startswith(count, i)]
    assert len(places) >= 3
    for damaged in (0x7FFFFFFF, 6, 1_000):
        for place in places:
            path.write_bytes(whole[:place] + damaged.to_bytes(4, "little") + whole[place + 4 :])
            with ps.Dataset.from_arrow(path).ignore_errors().run() as run:
                assert {int(row["x"]) for row in run} <= set(range(60))
