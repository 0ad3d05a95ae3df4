"""TFRecord files: streams and indices, positions, budgets, bad files."""

import gzip
import os
import struct
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock._native import crc32c
from penstock.testing import check_op, check_source, elements_of, same
from tests.unit.io.files import at_the_minimum, failed_by_file

GENERATOR = np.random.default_rng(0)
SHORT = [GENERATOR.bytes(int(size)) for size in GENERATOR.integers(0, 300, 20)]
LONG = [GENERATOR.bytes(size) for size in (5, 9_000, 0, 70_000, 3)]
TOO_LONG = 1 << 63


def masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def framed(*records: bytes) -> bytes:
    lengths = [struct.pack("<Q", len(record)) for record in records]
    return b"".join(
        length + masked(length) + record + masked(record) for length, record in zip(lengths, records, strict=True)
    )


def header(length: int) -> bytes:
    return struct.pack("<Q", length) + masked(struct.pack("<Q", length))


def flipped(data: bytes, place: int) -> bytes:
    place %= len(data)
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {"short": framed(*SHORT), "none": b"", "long": framed(*LONG)}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "all.gz").write_bytes(gzip.compress(framed(*SHORT, *LONG)))
    (tmp_path / "all.z").write_bytes(zlib.compress(framed(*SHORT, *LONG)))
    return tmp_path


def files_of(folder: Path) -> list[Path]:
    return [folder / "short", folder / "none", folder / "long"]


# --- streams and indices ---


@pytest.mark.parametrize("buffer_size", [None, 0, 100, 5_000])
def test_records_come_as_they_were_written(folder: Path, buffer_size: int | None) -> None:
    assert list(ps.TFRecordDataset(files_of(folder), buffer_size=buffer_size)) == SHORT + LONG
    assert list(ps.TFRecordDataset(folder / "all.gz", "GZIP", buffer_size)) == SHORT + LONG
    assert list(ps.TFRecordDataset(folder / "all.z", "ZLIB", buffer_size)) == SHORT + LONG


def test_the_laws_of_streams(folder: Path) -> None:
    check_op(ps.TFRecordDataset(folder / "all.gz", "GZIP"))
    check_op(ps.TFRecordDataset(files_of(folder), num_parallel_reads=2))
    check_op(ps.TFRecordDataset(ps.Dataset.from_tensor_slices([str(f).encode() for f in files_of(folder)])))
    check_op(ps.TFRecordDataset(folder / "all.z", "ZLIB").shard(3, 1).batch(2))


def test_the_laws_of_indices(folder: Path) -> None:
    records = ps.TFRecordDataset(files_of(folder))
    check_source(records)
    check_op(records.skip(2).take(15).shuffle(5, seed=1).repeat(2).batch(4))
    check_op(records.random_map(lambda r, g: np.int64(len(r) + g.integers(1000)), seed=3).shuffle(8, seed=4).take(9))
    check_op(records.map(len).shuffle(30, seed=1).shard(2, 1))


@pytest.mark.parametrize("written, is_indexed", [
    (lambda ds: ds.shuffle(5), True),
    (lambda ds: ds.shuffle(), True),
    (lambda ds: ds.shard(2, 0), True),
    (lambda ds: ds.skip(3).repeat(2).shuffle(5), True),
    (lambda ds: ds.shuffle(5).repeat().take(3), True),
    (lambda ds: ds.map(len).shuffle(5), True),
    (lambda ds: ds.take(3), False),
    (lambda ds: ds.skip(3).repeat(), False),
    (lambda ds: ds.batch(3), False),
])  # fmt: skip
def test_an_index_is_made_where_records_far_apart_are_asked_for(
    folder: Path, written: Callable[[Any], Any], is_indexed: bool
) -> None:
    dataset = written(ps.TFRecordDataset(files_of(folder)))
    assert ("arithmetic on indices" in str(dataset.explain())) is is_indexed


def test_order_on_indices_is_what_it_is_on_lists(folder: Path) -> None:
    records, every = ps.TFRecordDataset(files_of(folder)), SHORT + LONG
    assert sorted(records.shuffle(7)) == sorted(every)
    assert sorted(records.shuffle(1_000_000)) == sorted(every)
    assert [list(records.shard(4, i)) for i in range(4)] == [every[i::4] for i in range(4)]
    assert list(records.skip(18).shard(2, 1)) == every[18:][1::2]
    shuffled = list(records.shuffle(seed=1, reshuffle_each_iteration=False))
    assert list(records.shuffle(seed=1, reshuffle_each_iteration=False).skip(5)) == shuffled[5:]


def test_how_many_there_are_is_not_told(folder: Path) -> None:
    records = ps.TFRecordDataset(folder / "short")
    list(records.shuffle(3))
    assert records.cardinality() == ps.UNKNOWN
    assert len(records.apply(lambda ds: ds.assert_cardinality(20))) == 20
    assert records.element_spec == ps.TensorSpec((), ps.string)


def test_the_index_is_kept_and_follows_the_file(folder: Path) -> None:
    path = folder / "short"
    records = ps.TFRecordDataset(path)
    shuffled = records.shuffle(seed=1)
    index = records.node.op._index  # type: ignore[attr-defined]
    assert index.num_elements is None
    assert sorted(shuffled) == sorted(SHORT)
    (first,) = index._files.values()
    assert sorted(shuffled) == sorted(SHORT)
    assert index._files[str(path)] is first
    assert index.nbytes == 8 * (len(SHORT) + 1)
    path.write_bytes(framed(*LONG))
    assert sorted(shuffled) == sorted(LONG)
    path.write_bytes(framed(*SHORT[:4]))
    os.utime(path, ns=(1, 1))
    assert sorted(shuffled) == sorted(SHORT[:4])
    path.unlink()
    with pytest.raises(ps.errors.FileMissing):
        list(shuffled)


def test_a_file_that_changes_within_a_run_is_an_error(folder: Path) -> None:
    path = folder / "long"
    run = ps.TFRecordDataset(path).shuffle(seed=1).run(memory="60kB")
    path.write_bytes(framed(*reversed(LONG)))
    texts = [str(found.error) for found in elements_of(run) if hasattr(found, "error")]
    assert any("has changed since its records were looked up" in text or "is damaged" in text for text in texts)
    path.write_bytes(framed(*LONG))
    run = ps.TFRecordDataset(path).shuffle(seed=1).run()
    path.write_bytes(b"")
    assert "has become shorter" in str(elements_of(run)[0].error)


# --- bad files ---

BAD = {
    "data": (flipped(framed(*SHORT), 12), [0], "record 0 at byte 0 is damaged: its data has the checksum 0x"),
    "length": (flipped(framed(*SHORT), 3), [0, *range(1, 20)], "its length has the checksum 0x.*cannot be read"),
    "last data": (flipped(framed(*SHORT), -1), [19], r"record 19 at byte [\d,]+ is damaged: its data"),
    "truncated": (framed(*SHORT)[:-3], [19], r"expected \d+ bytes for record 19 at byte [\d,]+, the file ends after"),
    "11 bytes more": (framed(*SHORT) + b"x" * 11, [], "a header of 12 bytes for record 20 .*ends after 11 bytes"),
    "a header more": (framed(*SHORT) + header(3), [], "expected 19 bytes for record 20 .* the file ends after 12"),
    "hostile": (framed(*SHORT) + header(TOO_LONG) + b"abc", [], "expected 9,223,372,036,854,775,824 bytes"),
    "hostile, too": (framed(*SHORT) + header((1 << 64) - 1), [], "expected 18,446,744,073,709,551,631 bytes"),
    "no records": (b"this is not a TFRecord file", list(range(20)), "its length has the checksum"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_bad_files_are_errors_in_their_place(tmp_path: Path, name: str, compression: str | None) -> None:
    data, lost, text = BAD[name]
    bad, good = tmp_path / "bad", tmp_path / "good"
    bad.write_bytes(data if compression is None else gzip.compress(data))
    good.write_bytes(framed(*LONG) if compression is None else gzip.compress(framed(*LONG)))
    dataset = ps.TFRecordDataset([bad, tmp_path / "missing", good], compression)
    check_op(dataset)
    check_op(dataset.shuffle(4, seed=1))
    check_op(dataset.shard(2, 1).batch(3))
    expected = [record for i, record in enumerate(SHORT) if i not in lost] + LONG
    with dataset.ignore_errors().run() as run:
        assert list(run) == expected
        assert failed_by_file(run) == {str(bad): 1, str(tmp_path / "missing"): 1}
    assert sorted(dataset.shuffle(seed=1).ignore_errors()) == sorted(expected)
    with pytest.raises(ps.errors.FormatError, match=text):
        list(dataset)
    assert elements_of(ps.TFRecordDataset(tmp_path / "missing").run())[0].error.__class__ is ps.errors.FileMissing


@pytest.mark.parametrize("damage", ["cut", "cut early", "garbage behind"])
@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_records_before_the_damage_of_a_compressed_file_come_first(
    tmp_path: Path, damage: str, compression: str
) -> None:
    compress, wbits = {"GZIP": (gzip.compress, 31), "ZLIB": (zlib.compress, 15)}[compression]
    records = [np.random.default_rng(i).bytes(100) for i in range(2000)]
    packed = compress(framed(*records))
    packed = {"cut": packed[:-30], "cut early": packed[:20_000], "garbage behind": packed + b"garbage"}[damage]
    (tmp_path / "a").write_bytes(packed)
    (tmp_path / "b").write_bytes(compress(framed(b"next")))
    whole = records[: len(zlib.decompressobj(wbits).decompress(packed)) // 116]
    for buffer_size in (None, 4096):
        dataset = ps.TFRecordDataset([tmp_path / "a", tmp_path / "b"], compression, buffer_size)
        run = dataset.ignore_errors().run()
        assert list(run) == [*whole, b"next"]
        assert failed_by_file(run) == {str(tmp_path / "a"): 1}
        *before, failed, after = elements_of(dataset.skip(len(whole) - 5).run())
        assert (before, after) == (whole[-5:], b"next")
        assert isinstance(failed.error, ps.errors.FormatError)
        assert list(dataset.skip(len(whole) + 1)) == [b"next"]
    check_op(dataset.skip(len(whole) - 5))


def test_a_hostile_length_takes_no_memory(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(gzip.compress(header(TOO_LONG) + b"abc"))
    (tmp_path / "b").write_bytes(header(TOO_LONG) + b"abc")
    for dataset in (ps.TFRecordDataset(tmp_path / "a", "GZIP"), ps.TFRecordDataset(tmp_path / "b").shuffle(3)):
        with dataset.ignore_errors().run(memory="300kB") as run:
            assert list(run) == []
            assert run.ledger.peak_bytes < 200_000


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(data=st.data())
def test_any_bytes_are_the_same_by_index_and_as_a_stream(tmp_path_factory: Any, data: Any) -> None:
    content = framed(*data.draw(st.lists(st.binary(max_size=40), max_size=8)))
    for _ in range(data.draw(st.integers(0, 2))):
        place = data.draw(st.integers(0, len(content)))
        kind = data.draw(st.sampled_from(["flip", "cut", "insert", "header"]))
        if kind == "flip" and place < len(content):
            content = flipped(content, place)
        elif kind == "cut":
            content = content[:place]
        elif kind == "insert":
            content = content[:place] + data.draw(st.binary(max_size=20)) + content[place:]
        elif kind == "header":
            content = content[:place] + header(data.draw(st.integers(0, (1 << 64) - 1))) + content[place:]
    path = tmp_path_factory.mktemp("any") / "a"
    path.write_bytes(content)
    dataset = ps.TFRecordDataset([path, path])
    streamed = elements_of(dataset.run())
    shards = [elements_of(dataset.shard(2, i).run(memory="1MB")) for i in range(2)]
    indexed = [shards[i % 2][i // 2] for i in range(len(streamed))]
    assert len(streamed) == sum(map(len, shards))
    assert all(map(same, streamed, indexed))
    texts = [[str(e.error).split(": ", 1)[1] for e in found if hasattr(e, "error")] for found in (streamed, indexed)]
    assert texts[0] == texts[1]


def test_mistakes_in_arguments_are_told() -> None:
    with pytest.raises(ps.errors.BadArgument, match=r"TFRecordDataset at .*compression_type: expected None"):
        ps.TFRecordDataset("a", "SNAPPY")
    with pytest.raises(ps.errors.BadArgument, match="no file matches"):
        ps.TFRecordDataset("no/such/*.tfrecord")
    with pytest.raises(ps.errors.BadArgument, match="buffer_size"):
        ps.TFRecordDataset("a", buffer_size=-1)


# --- budgets ---


def test_the_minimum_is_enough(folder: Path) -> None:
    assert at_the_minimum(ps.TFRecordDataset(files_of(folder))) == SHORT + LONG
    assert at_the_minimum(ps.TFRecordDataset(folder / "all.gz", "GZIP")) == SHORT + LONG
    shuffled = ps.TFRecordDataset(files_of(folder)).shuffle(6, seed=1, reshuffle_each_iteration=False)
    assert sorted(at_the_minimum(shuffled)) == sorted(SHORT + LONG)
    at_the_minimum(shuffled.batch(4))
    streamed = ps.TFRecordDataset(folder / "all.gz", "GZIP").shuffle(6, seed=1, reshuffle_each_iteration=False)
    assert sorted(at_the_minimum(streamed)) == sorted(SHORT + LONG)


@pytest.mark.parametrize("memory", ["200kB", "300kB", "1MB", "5MB"])
def test_records_are_the_same_under_any_budget(tmp_path: Path, memory: str) -> None:
    records = [GENERATOR.bytes(size) for size in range(1, 3000, 7)]
    (tmp_path / "a").write_bytes(framed(*records))
    file = ps.TFRecordDataset([tmp_path / "a"] * 3)
    for dataset in (file, file.shuffle(50, seed=1), file.map(bytes).filter(lambda r: True).shuffle(50, seed=1)):
        with dataset.batch(20).prefetch(1).run(memory=memory) as run:
            assert sorted(r for batch in run for r in batch) == sorted(records * 3)
            assert run.ledger.peak_bytes <= run.ledger.budget_bytes


def test_a_long_record_takes_its_size_twice(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(framed(b"x", bytes(5_000_000), b"y"))
    for dataset in (ps.TFRecordDataset(tmp_path / "a"), ps.TFRecordDataset(tmp_path / "a").shard(1, 0).shuffle(2)):
        with dataset.run(memory="11.5MB") as run:
            assert sorted(map(len, run)) == [1, 1, 5_000_000]


def test_records_of_a_pipe_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(framed(*SHORT, *LONG)))
    writer.start()
    assert list(ps.TFRecordDataset(tmp_path / "pipe")) == SHORT + LONG
    writer.join()


def test_a_record_that_does_not_fit_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(framed(bytes(500_000)))
    for dataset in (ps.TFRecordDataset(tmp_path / "a"), ps.TFRecordDataset(tmp_path / "a").shuffle(2)):
        with pytest.raises(ps.errors.ElementTooLarge):
            list(dataset.run(memory="300kB"))


def test_the_index_is_on_the_ledger(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(framed(*[b"x"] * 20_000))
    dataset = ps.TFRecordDataset(tmp_path / "a").shuffle(10)
    with dataset.run(memory="1MB") as run:
        next(run)
        assert run.ledger.charged_bytes >= 160_000
