"""Plain files: what goes in comes out without pyarrow, nothing that was changed is believed, and bytes count."""

import contextlib
import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.element import Failed
from penstock.errors import BadArgument, BadType, SpillError
from penstock.memory import arrow_library
from penstock.memory.batches import BatchFiles
from penstock.memory.overflow import Overflow
from penstock.memory.plain_file import PlainKind, PlainReader, PlainWriter
from penstock.memory.spill import SpillSpace
from penstock.memory.spill_format import new_writer
from tests.unit.memory.test_batches import MIXED, read_all, same
from tests.unit.memory.test_ipc import assert_same, elements

SAMPLE = {
    "image": np.arange(60_000, dtype=np.float32).reshape(100, 600),
    "name": b"first",
    "tags": (np.array([b"a", b"", b"ccc"], object), np.int16(3)),
    "none": np.empty((0, 4)),
}


@pytest.fixture
def space(tmp_path: Path) -> Any:
    made = SpillSpace(str(tmp_path))
    yield made
    made.close()


@pytest.fixture
def new(space: SpillSpace) -> Any:
    made = []

    def new(in_space: SpillSpace = space) -> PlainWriter:
        made.append(PlainWriter(in_space.new_path(".plain"), in_space))
        return made[-1]

    yield new
    for writer in made:
        writer.discard()


@settings(deadline=None, max_examples=120, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data(), count=st.integers(1, 5))
def test_elements_come_back_as_they_were(data: Any, count: int, space: SpillSpace, new: Any) -> None:
    rows = data.draw(elements(count))
    writer = new()
    stored = [writer.write(rows), writer.write(rows[:1])]
    assert [where.num_rows for where in stored] == [count, 1]
    assert writer.kind is not None
    for reader in (writer.reader(), PlainReader(writer.path, space, PlainKind(writer.kind.layout))):
        for where, expected in zip(stored, (rows, rows[:1]), strict=True):
            for a, b in zip(expected, reader.read(where), strict=True):
                assert_same(a, b)
        reader.close()
    writer.discard()


@pytest.mark.parametrize("dtype", [np.longdouble, np.clongdouble, "bfloat16", "S3", "M8[D]", "m8[ns]", ">i4", "?"])
def test_dtypes(dtype: Any, new: Any) -> None:
    made = np.dtype(pytest.importorskip("ml_dtypes").bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    row = np.arange(6).reshape(2, 3).astype("i8" if made.kind in "mM" else made).astype(made)
    writer = new()
    (found,) = writer.reader().read(writer.write([row]))
    assert found.dtype == made.newbyteorder("=")
    assert found.tolist() == row.tolist()


def test_arrays_are_views_of_the_buffer_at_multiples_of_64_bytes(new: Any) -> None:
    writer = new()
    stored = writer.write([SAMPLE])
    buffers = []

    def into(nbytes: int) -> np.ndarray:
        buffers.append(np.empty(nbytes, np.uint8))
        return buffers[0]

    for writeable in (False, True):
        buffers.clear()
        (found,) = writer.reader().read(stored, into, writeable)
        assert found["image"].base is not None
        assert np.shares_memory(found["image"], buffers[0])
        assert (found["image"].ctypes.data - buffers[0].ctypes.data) % 64 == 0
        assert found["image"].flags.writeable == writeable
        assert len(buffers) == 1
        assert buffers[0].nbytes == stored.nbytes < SAMPLE["image"].nbytes + 2000  # type: ignore[attr-defined]


def test_values_of_rows_that_are_alike_are_found_where_they_lie(new: Any) -> None:
    writer = new()
    writer.write([(np.int16(9), np.zeros((2, 3)))])
    rows = [(np.int16(i), np.full((2, 3), i * 0.5)) for i in range(4)]
    reader, stored = writer.reader(), writer.write(rows)
    first, second = reader.value_offsets(stored)
    assert np.frombuffer(reader.read_bytes(first, 8), np.int16).tolist() == [0, 1, 2, 3]
    assert np.frombuffer(reader.read_bytes(second, 4 * 48)).reshape(4, 2, 3).tolist() == [
        row[1].tolist() for row in rows
    ]
    strings = new()
    assert strings.reader().value_offsets(strings.write([SAMPLE])) is None


def test_batches_are_found_one_behind_the_other(new: Any) -> None:
    writer = new()
    written = [writer.write([SAMPLE] * count) for count in (1, 3, 2)]
    reader, found, end = writer.reader(), [], writer.bytes_written
    while (batch := reader.batch_at(sum(stored.nbytes for stored in found), end)) is not None:
        found.append(batch.stored)
    assert found == written
    with pytest.raises(SpillError, match="damaged"):
        reader.batch_at(written[1].offset + 64, end)


def test_a_changed_byte_is_refused_wherever_it_matters(new: Any) -> None:
    writer = new()
    writer.write([np.arange(3)])
    stored = writer.write([np.arange(9), np.arange(5)])
    writer.close()
    good = Path(writer.path).read_bytes()
    errors = []
    for place in range(stored.offset, stored.offset + stored.nbytes):
        Path(writer.path).write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        reader = writer.reader()
        try:  # between arrays there is nothing to be damaged
            assert [row.tolist() for row in reader.read(stored)] == [list(range(9)), list(range(5))]
        except SpillError as error:
            errors.append(str(error))
        reader.close()
    assert all("is damaged" in error and writer.path in error for error in errors)
    # Of four arrays, and of a head that names them, every byte that is there.
    assert len(errors) == (2 + 9 + 5 + 2 + 2) * 8 + (8 + 4 + 16 + 4 * 16)


def test_a_file_that_was_cut_or_is_another_is_refused(new: Any) -> None:
    writer = new()
    stored = writer.write([np.arange(100)])
    for wrong in (stored._replace(num_rows=2), stored._replace(nbytes=16), stored._replace(nbytes=128)):
        with pytest.raises(SpillError, match="is damaged"):
            writer.reader().read(wrong)
    os.truncate(writer.path, stored.nbytes - 100)
    with pytest.raises(SpillError, match="bytes are missing"):
        writer.reader().read(stored)


def test_elements_of_another_kind_are_refused(new: Any) -> None:
    writer = new()
    writer.write([np.arange(3)])
    for row in (np.arange(3.0), (np.arange(3),), b"text"):
        with pytest.raises(BadType, match="expected an element like those before"):
            writer.write([row])
    with pytest.raises(BadType, match="expected byte strings"):
        new().write([np.array([b"a", "b"], object)])
    with pytest.raises(BadArgument, match="at least one element"):
        writer.write([])
    assert writer.reader().read(writer.write([np.arange(2)]))[0].tolist() == [0, 1]


def test_bytes_count_on_the_space_and_its_limit_is_kept(tmp_path: Path, new: Any) -> None:
    space = SpillSpace(str(tmp_path), 10_000)
    writer = new(space)
    stored = writer.write([np.zeros(1000)])
    assert space.used_bytes == writer.bytes_written == os.path.getsize(writer.path) == stored.nbytes > 8000
    with pytest.raises(SpillError, match=r"8\.\d+ kB more on disk and 8\.\d+ kB of the limit of 10 kB"):
        writer.write([np.zeros(1000)])
    assert space.used_bytes == os.path.getsize(writer.path) <= 10_000
    reader = writer.reader()
    writer.discard()
    assert (space.used_bytes, os.path.exists(writer.path)) == (0, False)
    assert reader.read(stored)[0].tolist() == [0] * 1000
    space.close()


def test_a_full_disk_says_what_to_do(space: SpillSpace, new: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.memory.plain_file.open_new", lambda _: open("/dev/full", "wb", 0))  # noqa: SIM115
    writer = new()
    with pytest.raises(SpillError, match=r"no room to write .* No space left on device"):
        writer.write([np.zeros(1000)])
    writer.discard()
    assert space.used_bytes == 0


# --- who chooses, and for whom ---


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_library, "has_room", lambda: False)


@pytest.mark.parametrize("loaded, free_bytes, expected", [
    (True, 0, True),
    (False, None, True),
    (False, 128_000_000, False),
    (False, 399_000_000, False),
    (False, 1_000_000_000, True),
])  # fmt: skip
def test_pyarrow_has_room_where_it_is_loaded_or_addresses_are_left(
    loaded: bool, free_bytes: int | None, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_library, "free_address_bytes", lambda: free_bytes)
    if loaded:
        monkeypatch.setitem(sys.modules, "pyarrow", sys)
    else:
        monkeypatch.delitem(sys.modules, "pyarrow", raising=False)
    assert arrow_library.has_room() == expected


def test_files_stay_in_the_format_that_they_were_begun_in(
    space: SpillSpace, no_room: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    overflow, files = Overflow(lambda: space), BatchFiles(space)
    place = overflow.store([np.arange(3)])
    written = files.write([(7, np.arange(4), 32)], 1000)
    monkeypatch.setattr(arrow_library, "has_room", lambda: True)
    later = overflow.store([np.arange(5)])
    with contextlib.closing(new_writer(space)) as another:
        assert type(another) is not PlainWriter
    assert place is not None
    assert later is not None
    assert type(place.reader) is type(later.reader) is PlainReader
    assert [p.reader.read(p.stored)[0].size for p in (place, later)] == [3, 5]
    assert read_all(files, written)[7].tolist() == [0, 1, 2, 3]
    overflow.finish()


def test_elements_of_all_kinds_come_back_under_their_numbers(space: SpillSpace, no_room: None) -> None:
    files, rows = BatchFiles(space), [*MIXED, Failed(ValueError("no"))]
    written = files.write(((i, row, 100) for i, row in enumerate(rows)), batch_bytes=300)
    assert all(file.path.endswith(".plain") for file, _ in written.files)
    assert written.left_out == [len(MIXED)]
    found = read_all(files, written)
    assert all(same(found[i], row) for i, row in enumerate(MIXED))
    assert (len(files), space.used_bytes) == (0, 0)


@pytest.mark.parametrize("build", [
    lambda rows: rows.shuffle(30, seed=1),
    lambda rows: rows.cache().repeat(2),
    lambda rows: rows.map(lambda x, name: (x + 1, name), num_parallel_calls=2).shuffle(20, seed=2).prefetch(3),
])  # fmt: skip
def test_pipelines_are_the_same_in_either_format(build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rows() -> Any:
        return ((np.full(20_000 - 100 * i, i), b"%d" % i) for i in range(40))

    def found() -> tuple[list[Any], int]:
        dataset = build(ps.Dataset.from_generator(rows))
        options = ps.Options(memory=2_000_000, spill_dir=str(tmp_path))
        with dataset.with_options(options).run() as run:
            got = [(x.shape, int(x[-1]), name) for x, name in run]
            return got, max(stage["spilled_bytes"] for stage in run.stats()["stages"])

    usual, _ = found()
    monkeypatch.setattr(arrow_library, "has_room", lambda: False)
    plain, spilled = found()
    assert plain == usual
    assert spilled > 1_000_000
    gc.collect()  # what a cache has on disk goes with its dataset
    assert list(tmp_path.iterdir()) == []


def test_plain_files_do_not_load_pyarrow() -> None:
    program = """
import sys, numpy as np, penstock as ps
from penstock.memory import arrow_library
arrow_library.has_room = lambda: False
rows = ({"x": np.full(20_000, i), "name": b"x", "tags": np.array([b"y"], object)} for i in range(40))
dataset = ps.Dataset.from_generator(lambda: rows).shuffle(30, seed=1).cache()
with dataset.run(memory=2_500_000) as run:
    assert len(list(run)) == 40
    assert sum(stage["spilled_bytes"] > 1_000_000 for stage in run.stats()["stages"]) == 2
assert "pyarrow" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_a_forked_child_leaves_the_file_alone(new: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = new()
    stored = writer.write([np.arange(9)])
    with monkeypatch.context() as in_child:
        in_child.setattr(os, "getpid", lambda: -1)
        writer.discard()
    assert writer.reader().read(stored)[0].tolist() == list(range(9))
    os.unlink(writer.path)


def test_what_could_not_be_written_is_given_back(space: SpillSpace, new: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = new()
    writer.write([np.arange(9)])
    monkeypatch.setattr(writer._sink, "_write_all", lambda data: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(SpillError):
        writer.write([np.arange(100_000)])
    writer.discard()
    assert space.used_bytes == 0
