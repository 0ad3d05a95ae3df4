"""Parsing by blocks: whatever the features and the records, what a function as written gives, to the bit."""

import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.memory.arena import Arena
from penstock.testing import check_op, elements_of, same
from tests.unit.io.files import at_the_minimum, failed_by_file

Fixed = ps.io.FixedLenFeature
VarLen, Ragged, Sequence = ps.io.VarLenFeature, ps.io.RaggedFeature, ps.io.FixedLenSequenceFeature
Sparse = ps.io.SparseFeature
NAMES = ("x", "y", "s", "ünï")
KINDS = ("float32", "int64", "bytes")


@st.composite
def specs(draw: Any) -> dict[str, Any]:
    """Features of fixed length, with and without defaults, and of any."""
    found: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True)):
        shape, kind = draw(st.sampled_from([(), (1,), (2,), (2, 2), (0,)])), draw(st.sampled_from(KINDS))
        any_length = draw(st.sampled_from([None, None, VarLen, Ragged, Sequence, Sequence]))
        if any_length is Sequence and 0 not in shape:
            found[name] = Sequence(shape, kind, allow_missing=True)
            continue
        if any_length in (VarLen, Ragged):
            found[name] = any_length(kind)
            continue
        size = int(np.prod(shape))
        default = ([b"d"] if kind == "bytes" else [7]) * size
        given_default = np.array(default, object if kind == "bytes" else kind).reshape(shape)
        found[name] = Fixed(shape, kind, given_default if draw(st.booleans()) else None)
    return found


@st.composite
def records(draw: Any, spec: dict[str, Any]) -> bytes:
    """Mostly Examples that fit; some lack a feature, have another kind, or are none."""
    flaw = draw(st.sampled_from(["", "", "", "", "missing", "kind", "count", "bytes"]))
    if flaw == "bytes":
        return draw(st.binary(max_size=8))
    features: dict[str, Any] = {}
    for i, (name, feature) in enumerate(spec.items()):
        if i == 0 and flaw == "missing":
            continue
        size = getattr(feature, "num_values", 1) * (1 if isinstance(feature, Fixed) else draw(st.integers(0, 3)))
        size += i == 0 and flaw == "count"
        kind = "int64" if feature.dtype == np.float32 else "float32"
        dtype = np.dtype(kind) if i == 0 and flaw == "kind" else feature.dtype
        number = draw(st.integers(-3, 100))
        features[name] = [b"%d" % number] * size if dtype.hasobject else np.full(size, number, dtype)
    return ps.io.encode_example(features)


def pick(parsed: dict[str, Any], how: str) -> Any:
    if how == "pop":
        first = parsed.pop(next(iter(parsed)))
        return (parsed, first) if parsed else first
    if how == "tuple":
        return tuple(parsed.values())
    if how == "list":
        return list(parsed.values())
    if how == "twice":
        return {"a": next(iter(parsed.values())), "b": (next(iter(parsed.values())),)}
    return parsed


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(data=st.data())
def test_recognised_is_as_written(tmp_path_factory: Any, data: Any) -> None:
    spec = data.draw(specs())
    found = data.draw(st.lists(records(spec), max_size=12))
    how = data.draw(st.sampled_from(["whole", "pop", "tuple", "list", "twice"]))
    path = tmp_path_factory.mktemp("records") / "a"
    with ps.io.TFRecordWriter(path) as writer:
        for record in found:
            writer.write(record)

    def recognised(record: Any) -> Any:
        return pick(ps.io.parse_single_example(record, spec), how)

    def opaque(record: Any) -> Any:
        assert isinstance(record, bytes)
        return recognised(record)

    source = ps.TFRecordDataset(path)
    for build in (
        lambda ds, f: ds.map(f),
        lambda ds, f: ds.map(f).batch(3),
        lambda ds, f: ds.map(f).shuffle(4, seed=1).batch(2),
        lambda ds, f: ds.map(f).take(5).batch(2, drop_remainder=True),
    ):
        ours, written = build(source, recognised), build(source, opaque)
        assert is_recognised(ours)
        assert not is_recognised(written)
        results = [elements_of(ds.run(epoch=0)) for ds in (ours, written)]
        assert len(results[0]) == len(results[1])
        assert all(map(same, *results))
        texts = [[str(e.error).split("at ")[-1][30:] for e in part if hasattr(e, "error")] for part in results]
        assert texts[0] == texts[1]


def is_recognised(dataset: Any) -> bool:
    return any(step.rule == "parse_blocks" for step in dataset.explain().steps)


SPEC = {"x": Fixed([4], "float32"), "y": Fixed([], "int64"), "s": Fixed([], bytes, b"none")}


def parse(record: Any) -> Any:
    return ps.io.parse_single_example(record, SPEC)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    with ps.io.TFRecordWriter(tmp_path / "a") as writer:
        for i in range(40):
            features = {"x": generator.random(4, np.float32), "y": i, "s": b"s" * i}
            writer.write(ps.io.encode_example(features) if i != 17 else b"this is no Example")
    return tmp_path / "a"


def test_the_laws(file: Path) -> None:
    records = ps.TFRecordDataset(file)
    for dataset in (
        records.map(parse),
        records.map(parse).batch(8),
        records.map(parse).shuffle(10, seed=1).batch(8),
        records.map(parse).map(lambda e: e["x"] * 2).batch(8),
        records.map(parse, num_parallel_calls=3).batch(7).prefetch(2),
        records.map(parse).take(20).batch(6),
        records.shuffle(5, seed=1).map(parse).ignore_errors().batch(8),
    ):
        assert is_recognised(dataset)
        check_op(dataset)


def test_a_bad_record_fails_alone_and_in_its_place(file: Path) -> None:
    found = elements_of(ps.TFRecordDataset(file).map(parse).run())
    assert [i for i, element in enumerate(found) if hasattr(element, "error")] == [17]
    assert "the record is not a serialized tf.train.Example" in str(found[17].error)
    assert str(found[17].error).startswith("map at test_parse_examples.py:")
    batches = list(ps.TFRecordDataset(file).map(parse).ignore_errors().batch(13))
    assert [int(y) for batch in batches for y in batch["y"]] == [i for i in range(40) if i != 17]


def parsed(record: bytes) -> Any:
    return ps.io.parse_single_example(record, {"a": Fixed([2], "float32")})


def looked_at(record: bytes) -> Any:
    return parsed(record)["a"].sum()


# What is made of files with a bad record, and whether it is named: where they are read by index, and as a stream.
FROM_FILES: dict[str, tuple[Any, bool, bool]] = {
    "in order": (lambda ds: ds.map(parsed).batch(4), True, True),
    "as written": (lambda ds: ds.map(looked_at).batch(4), True, True),
    "threads": (lambda ds: ds.map(looked_at, num_parallel_calls=2).batch(4), True, True),
    "filter": (lambda ds: ds.filter(lambda record: looked_at(record) > 0), True, True),
    "shuffled before": (lambda ds: ds.shuffle(7, seed=1).map(parsed), True, False),
    "shuffled behind": (lambda ds: ds.map(looked_at).shuffle(40, seed=1), True, False),
    "sharded": (lambda ds: ds.skip(2).shard(2, 0).prefetch(2).map(parsed), True, False),
    "behind a filter": (lambda ds: ds.skip(3).filter(lambda record: record != b"").map(parsed), False, False),
}


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("name", FROM_FILES)
def test_a_bad_record_is_named_by_its_file_and_number(tmp_path: Path, name: str, on_error: str) -> None:
    make, by_index, in_stream = FROM_FILES[name]
    for file in ("one", "two"):
        with ps.io.TFRecordWriter(tmp_path / file) as writer:
            for i in range(20):
                writer.write(ps.io.encode_example({"a": [1.0, 2.0][: 1 if (file, i) == ("one", 10) else 2]}))
    dataset = make(ps.TFRecordDataset([tmp_path / "one", tmp_path / "two"], on_error=on_error))
    bad = str(tmp_path / "one")
    if by_index if on_error == "raise" else in_stream:
        where, place, counted = f"{bad}, record 10", (bad, 10), {bad: 1}
    else:
        with dataset.run(epoch=0) as run:
            number = [hasattr(element, "error") for element in elements_of(run)].index(True)
        where, place, counted = f"element {number}", (None, number), {}
    refused = pytest.raises(ps.errors.RecordError, match=f": {where}: feature 'a': expected 2 values")
    with dataset.run(epoch=0) as run, refused as caught:
        list(run)
    assert (caught.value.file, caught.value.record) == place
    with dataset.ignore_errors().run() as run:
        list(run)
        assert failed_by_file(run) == counted


@pytest.mark.parametrize("num_parallel_reads", [1, 2, 3, ps.AUTOTUNE])
@pytest.mark.parametrize("compression", [None, "GZIP"])
@pytest.mark.parametrize("batch_size", [None, 7, 64])
def test_bad_records_of_files_read_in_turn_are_named_too(
    tmp_path: Path, num_parallel_reads: int, compression: str | None, batch_size: int | None
) -> None:
    sizes = {"a": 30, "b": 7, "c": 30, "d": 1, "e": 19}
    bad = {"a": [0, 3, 29], "b": [6], "c": [4, 5, 6, 20], "d": [0], "e": []}
    paths = [tmp_path / name for name in sizes]
    for path in paths:
        with ps.io.TFRecordWriter(path, compression) as writer:
            for i in range(sizes[path.name]):
                writer.write(ps.io.encode_example({"a": [1.0, 2.0][: 1 if i in bad[path.name] else 2]}))
    files = ps.TFRecordDataset(paths, compression, num_parallel_reads=num_parallel_reads)
    dataset = files.map(parsed) if batch_size is None else files.map(parsed).batch(batch_size)
    with files.map(parsed).run() as run:
        errors = [element.error for element in elements_of(run) if hasattr(element, "error")]
    named = {path.name: sorted(error.record for error in errors if error.file == str(path)) for path in paths}
    assert named == bad
    with dataset.ignore_errors().run() as run:
        list(run)
        assert failed_by_file(run) == {str(path): len(bad[path.name]) for path in paths if bad[path.name]}


def test_the_place_in_a_list_stays_that() -> None:
    records = [ps.io.encode_example({"a": [1.0] * (1 if i == 6 else 2)}) for i in range(8)]
    lists = ps.Dataset.from_tensor_slices(np.array(records, object)).batch(4)
    with pytest.raises(ps.errors.RecordError, match="element 1: feature 'a' of record 2") as caught:
        list(lists.map(lambda batch: ps.io.parse_example(batch, {"a": Fixed([2], "float32")})))
    assert caught.value.record == 2
    with pytest.raises(ps.errors.RecordError, match=r"^feature 'a': expected 2") as caught:
        parsed(records[6])
    assert caught.value.record is None


@pytest.mark.parametrize("count", [0, 3, 5, 100])
def test_a_wrong_number_of_values_is_told(count: int) -> None:
    record = ps.io.encode_example({"x": np.zeros(count, np.float32), "y": 1})
    with pytest.raises(ps.errors.RecordError, match=rf"'x': expected 4 values of float32, got {count}"):
        parse(record)


def test_a_function_that_catches_errors_still_does(file: Path) -> None:
    def forgiving(record: Any) -> Any:
        try:
            return parse(record)
        except ps.errors.RecordError:
            return {"x": np.zeros(4, np.float32), "y": np.int64(-1), "s": b""}

    dataset = ps.TFRecordDataset(file).map(forgiving).batch(40)
    assert is_recognised(dataset)
    assert next(iter(dataset))["y"].tolist() == [-1 if i == 17 else i for i in range(40)]


def test_records_of_any_source_of_records_are_parsed_in_blocks(file: Path) -> None:
    for records in (
        ps.TFRecordDataset([file, file], num_parallel_reads=2),
        ps.Dataset.from_tensor_slices([str(file).encode()] * 3).interleave(ps.TFRecordDataset, cycle_length=2),
        ps.TFRecordDataset(ps.Dataset.from_tensor_slices([str(file).encode()])),
        ps.TFRecordDataset(file).prefetch(2).take(5),
    ):
        assert is_recognised(records.map(parse))
        check_op(records.map(parse).batch(9))


ANY_LENGTH = {
    "x": Ragged("float32"),
    "parts": Sequence([2], "float32", allow_missing=True),
    "s": VarLen(bytes),
    "y": Fixed([], "int64"),
}


def of_any_length(record: Any) -> Any:
    return ps.io.parse_single_example(record, ANY_LENGTH)


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    with ps.io.TFRecordWriter(tmp_path / "lists") as writer:
        for i in range(60):
            x = np.arange(i % 5, dtype=np.float32)
            features = {"x": x, "parts": np.zeros(2 * (i % 3), np.float32), "s": [b"s"] * (i % 4), "y": i}
            writer.write(ps.io.encode_example(features if i != 17 else {"parts": np.zeros(3, np.float32), "y": 0}))
    return tmp_path / "lists"


def test_features_of_any_length_are_parsed_in_blocks_too(lists: Path) -> None:
    records = ps.TFRecordDataset(lists)
    for dataset in (
        records.map(of_any_length),
        records.map(of_any_length).shuffle(20, seed=1),
        records.map(lambda r: of_any_length(r)["x"]).ragged_batch(8),
        records.map(lambda r: of_any_length(r)["parts"]).padded_batch(8),
        records.map(lambda r: of_any_length(r)["s"]).batch(1),
        records.map(of_any_length).ignore_errors().map(lambda e: e["x"].sum()).batch(7),
        records.map(lambda r: of_any_length(r)["x"], num_parallel_calls=2).padded_batch(9).prefetch(1),
    ):
        assert is_recognised(dataset)
        check_op(dataset)
    errors = [e for e in elements_of(records.map(of_any_length).run()) if hasattr(e, "error")]
    assert len(errors) == 1
    assert "got 3 values in all" in str(errors[0].error)


PARTITIONS = {
    "lengths": [Ragged.RowLengths("lengths")],
    "splits": [Ragged.RowSplits("splits")],
    "ids": [Ragged.ValueRowIds("ids")],
    "uniform": [Ragged.UniformRowLength(2)],
    "both": [Ragged.UniformRowLength(1), Ragged.RowLengths("lengths")],
    "inner": [Ragged.RowLengths("halves"), Ragged.UniformRowLength(2)],
}


@pytest.mark.parametrize("kind", PARTITIONS)
def test_rows_with_partitions_are_parsed_in_blocks_too(tmp_path: Path, kind: str) -> None:
    with ps.io.TFRecordWriter(tmp_path / "rows") as writer:
        for i in range(40):
            lengths = np.array([2, 0, 2 * (i % 3)][: i % 4] if i != 13 else [3], np.int64)
            values = np.arange(lengths.sum()) + i
            splits, halves = np.cumsum([0, *lengths]), lengths // 2
            rows = {"lengths": lengths if i != 21 else [1], "splits": splits if i != 21 else [0, 9], "halves": halves}
            rows["ids"] = np.repeat(np.arange(len(lengths)), lengths) if i != 21 else [0, 2, 1]
            writer.write(ps.io.encode_example({"v": values, "s": [b"%d" % v for v in values], **rows}))
    spec = {"v": Ragged("int64", partitions=PARTITIONS[kind])}
    strings = Ragged(bytes, "s", PARTITIONS[kind], np.int64)
    records = ps.TFRecordDataset(tmp_path / "rows")
    for features in (spec, {"r": strings}):
        dataset = records.map(lambda record, features=features: ps.io.parse_single_example(record, features))
        as_written = records.map(lambda r, f=features: ps.io.parse_single_example(r, f), stateful=True)
        assert is_recognised(dataset)
        assert not is_recognised(as_written)
        found, expected = elements_of(dataset.run()), elements_of(as_written.run())
        assert len(found) == len(expected) == 40
        for ours, theirs in zip(found, expected, strict=True):
            if hasattr(theirs, "error"):
                assert str(ours.error).split(": ", 1)[1] == str(theirs.error).split(": ", 1)[1]
        for ours, theirs in zip(dataset.ignore_errors(), as_written.ignore_errors(), strict=True):
            ((one, other),) = zip(ours.values(), theirs.values(), strict=True)
            assert (type(one), one.dtype, one.shape) == (type(other), other.dtype, other.shape)
            if isinstance(one, ps.Ragged):
                assert one.row_splits.dtype == other.row_splits.dtype
                one, other = one.to_list(), other.to_list()
            assert np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other
        check_op(dataset)
    if kind != "uniform":
        at_the_minimum(records.take(12).map(lambda record: ps.io.parse_single_example(record, spec)["v"]))


def test_sparse_features_are_parsed_in_blocks_too(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    with ps.io.TFRecordWriter(tmp_path / "rows") as writer:
        for i in range(40):
            indices = {key: generator.integers(0, 9, i % 5) for key in ("i", "j")}
            writer.write(ps.io.encode_example({**indices, "v": generator.random(i % 5 + (i == 17), np.float32)}))
    records = ps.TFRecordDataset(tmp_path / "rows")
    spec = {"a": Sparse(["i", "j"], "v", "float32", [9, 9]), "b": Sparse("i", "v", "float32", 9, already_sorted=True)}
    dataset = records.map(lambda record: ps.io.parse_single_example(record, spec))
    as_written = records.map(lambda record: ps.io.parse_single_example(record, spec), stateful=True)
    assert is_recognised(dataset)
    found, expected = elements_of(dataset.run()), elements_of(as_written.run())
    assert [i for i, element in enumerate(found) if hasattr(element, "error")] == [17]
    assert "got 2 of 'i' for 3 of 'v'" in str(found[17].error)
    assert all(map(same, found[:17] + found[18:], expected[:17] + expected[18:]))
    for element in dataset.ignore_errors():
        assert all(element[name].shape == (9,) * len(spec[name].index_keys) for name in spec)
    check_op(dataset)
    picked = records.map(lambda record: ps.io.parse_single_example(record, spec)["b"])
    assert [i for i, e in enumerate(elements_of(picked.run())) if hasattr(e, "error")] == [17]
    at_the_minimum(records.take(12).map(lambda record: ps.io.parse_single_example(record, spec)["a"]))


def test_partitions_that_nobody_picks_must_fit_too(tmp_path: Path) -> None:
    with ps.io.TFRecordWriter(tmp_path / "rows") as writer:
        for i in range(8):
            writer.write(ps.io.encode_example({"v": [1, 2], "lengths": [2 if i != 5 else 1], "y": i}))
    spec = {"v": Ragged("int64", partitions=[Ragged.RowLengths("lengths")]), "y": Fixed([], "int64")}
    dataset = ps.TFRecordDataset(tmp_path / "rows").map(lambda record: ps.io.parse_single_example(record, spec)["y"])
    assert is_recognised(dataset)
    found = elements_of(dataset.run())
    assert [i for i, element in enumerate(found) if hasattr(element, "error")] == [5]


def test_rows_may_be_changed_and_kept(lists: Path) -> None:
    found = list(ps.TFRecordDataset(lists).take(10).map(lambda r: of_any_length(r)["x"]))
    for row in found:
        row += 1
    assert [row.tolist() for row in found] == [[x + 1.0 for x in range(i % 5)] for i in range(10)]


def test_the_minimum_is_enough_for_any_length(lists: Path) -> None:
    at_the_minimum(ps.TFRecordDataset(lists).take(16).map(lambda r: of_any_length(r)["x"]).padded_batch(4))


def test_batches_do_not_share_arrays(file: Path) -> None:
    dataset = ps.TFRecordDataset(file).take(8).map(lambda r: (parse(r)["x"], parse(r)["x"]))
    assert not is_recognised(dataset)
    twice = ps.TFRecordDataset(file).take(8).map(lambda r: (lambda p: (p["x"], p["x"]))(parse(r))).batch(8)
    assert is_recognised(twice)
    first, second = next(iter(twice))
    assert not np.shares_memory(first, second)
    assert np.array_equal(first, second)


def test_slots_are_given_back_before_less_of_a_block_is_tried(lists: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[np.ndarray]] = []
    still_held: list[int] = []
    make_slot, make_slots = Arena.empty, Arena.maker

    def empty(arena: Arena, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        if shape[0] > 8 and dtype != np.uint8:  # those are the file's
            raise ps.errors.OverBudget("there is no room")
        return make_slot(arena, shape, dtype)

    def maker(arena: Arena, shape: tuple[int, ...], dtype: Any) -> Any:
        make = make_slots(arena, shape, dtype)

        def makes(size: int) -> np.ndarray:  # of y, before there is room for the others
            still_held.append(sum(slot() is not None for slot in made))
            array = make(size)
            made.append(weakref.ref(array))
            return array

        return makes

    monkeypatch.setattr(Arena, "empty", empty)
    monkeypatch.setattr(Arena, "maker", maker)
    dataset = ps.TFRecordDataset(lists).take(16).map(of_any_length)
    assert is_recognised(dataset)
    found: list[int] = []
    with dataset.run() as run:
        while (block := run.pull(16)) is not None:
            found += [int(row["y"]) for row in block.rows()]
            del block
    assert found == [*range(16)]
    assert len(still_held) > 4
    assert not any(still_held)


def test_the_minimum_is_enough(file: Path) -> None:
    at_the_minimum(ps.TFRecordDataset(file).take(16).map(parse).batch(4))
    at_the_minimum(
        ps.TFRecordDataset(file).take(16).shuffle(seed=1, reshuffle_each_iteration=False).map(parse).batch(4)
    )
