"""Arrow files: what goes in comes out, other programs can look into them, and damage is noticed."""

import collections
import contextlib
import dataclasses
import errno
import importlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import penstock as ps
from penstock.element import Failed, normalize
from penstock.errors import BadArgument, BadType, FormatError, SpillError
from penstock.leaf import Ragged, Sparse
from penstock.memory.ipc import IpcReader, IpcWriter, Stored, rows_per_batch
from penstock.memory.spill import SpillSpace

Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Sample:
    image: Any
    label: Any


def written(path: Path, *batches: list[Any], **options: Any) -> Path:
    writer = IpcWriter(path, **options)
    for rows in batches:
        writer.write(rows)
    writer.close()
    return path


def rows_of(path: Path) -> list[Any]:
    reader = IpcReader(path)
    rows = [row for stored in reader.batches for row in reader.read(stored)]
    reader.close()
    return rows


def assert_same(a: Any, b: Any) -> None:
    """The same types all through, the same bits; but for the byte order."""
    assert type(a) is type(b)
    if isinstance(a, (Ragged, Sparse)) or dataclasses.is_dataclass(a):
        for field in dataclasses.fields(a):  # type: ignore[arg-type]
            assert_same(getattr(a, field.name), getattr(b, field.name))
    elif isinstance(a, tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, (np.ndarray, np.generic)):
        assert b.dtype.isnative
        assert (b.shape, b.dtype) == (a.shape, a.dtype.newbyteorder("="))
        native = np.asarray(a, b.dtype)
        assert native.tolist() == b.tolist() if a.dtype.hasobject else native.tobytes() == b.tobytes()
    else:
        assert a == b


# --- there and back ---

DTYPES = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?"),
    hnp.complex_number_dtypes(endianness="?"),
    hnp.datetime64_dtypes(endianness="?"),
    hnp.timedelta64_dtypes(endianness="?"),
    hnp.byte_string_dtypes(min_len=1),
    hnp.array_dtypes(hnp.scalar_dtypes(), allow_subarrays=False, min_size=1),
)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


def bits(draw: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
    """An array of any bits: all NaNs and NaTs are among them."""
    nbytes = dtype.itemsize * int(np.prod(shape))
    data = np.frombuffer(draw(st.binary(min_size=nbytes, max_size=nbytes)), np.uint8)
    if dtype.kind == "b":
        data = data & 1
    return np.ndarray(shape, dtype, data.tobytes()).copy()


@st.composite
def elements(draw: Any, count: int) -> list[Any]:
    """Elements of one structure with the same dtypes; shapes differ, or do not."""
    nest = draw(st.recursive(
        st.just("leaf"),
        lambda inner: st.one_of(
            st.tuples(st.just(tuple), st.lists(inner, max_size=3)),
            st.tuples(st.just(dict), st.lists(inner, max_size=3)),
            st.tuples(st.just(Point), st.lists(inner, min_size=2, max_size=2)),
            st.tuples(st.just(Sample), st.lists(inner, min_size=2, max_size=2)),
        ),
        max_leaves=4,
    ))  # fmt: skip

    def leaf() -> list[Any]:
        kind = draw(st.sampled_from(["array", "array", "scalar", "bytes", "strings", "none", "ragged", "sparse"]))
        dtype = draw(DTYPES)
        fixed = draw(st.one_of(st.none(), SHAPES))
        shapes = [draw(SHAPES) if fixed is None else fixed for _ in range(count)]
        if kind == "array":
            return [bits(draw, dtype, shape) for shape in shapes]
        if kind == "scalar":
            dtype = np.dtype(np.int64) if dtype.kind == "S" else dtype  # those are `bytes`
            return [bits(draw, dtype, (1,))[0] for _ in range(count)]
        if kind == "bytes":
            return [draw(st.binary(max_size=20)) for _ in range(count)]
        if kind == "strings":
            return [draw(hnp.arrays(object, shape, elements=st.binary(max_size=5), fill=st.nothing()))
                    for shape in shapes]  # fmt: skip
        if kind == "none":
            return [None] * count
        lengths = [draw(st.lists(st.integers(0, 3), max_size=3)) for _ in range(count)]
        if kind == "ragged":
            splits = [np.cumsum([0, *some]) for some in lengths]
            return [Ragged(bits(draw, dtype, (int(s[-1]), 2)), s) for s in splits]
        return [
            Sparse(np.zeros((len(some), 1), np.int64), bits(draw, dtype, (len(some),)), np.array([4]))
            for some in lengths
        ]

    def fill(part: Any) -> list[Any]:
        if part == "leaf":
            return leaf()
        kind, inner = part
        columns = [fill(child) for child in inner]
        rows = [list(row) for row in zip(*columns, strict=True)] or [[] for _ in range(count)]
        if kind is dict:
            return [dict(zip(["a", 7, "x.shape"], row, strict=False)) for row in rows]
        return [tuple(row) if kind is tuple else kind(*row) for row in rows]

    return fill(nest)


@settings(deadline=None, max_examples=120, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data(), count=st.integers(1, 5))
def test_elements_come_back_as_they_were(data: Any, count: int, tmp_path: Path) -> None:
    rows = data.draw(elements(count))
    writer = IpcWriter(tmp_path / "a.arrow", metadata={"made": "here"})
    stored = [writer.write(rows), writer.write(rows[:1])]
    for a, b in zip(rows, writer.reader().read(stored[0]), strict=True):
        assert_same(a, b)
    writer.close()
    reader = IpcReader(tmp_path / "a.arrow")
    assert (reader.batches, reader.num_rows, reader.metadata) == (stored, count + 1, {"made": "here"})
    for a, b in zip([*rows, rows[0]], rows_of(tmp_path / "a.arrow"), strict=True):
        assert_same(a, b)


def test_nests_of_unknown_classes_come_back_as_something_alike(tmp_path: Path) -> None:
    def local() -> Any:
        kind = dataclasses.make_dataclass("Local", ["a", "b"])
        return kind(np.arange(2), Point(np.int64(1), b"y"))

    (row,) = rows_of(written(tmp_path / "a.arrow", [local()]))
    assert type(row).__name__ == "Local"
    assert row.a.tolist() == [0, 1]
    assert (type(row.b), row.b) == (Point, Point(1, b"y"))


@pytest.mark.parametrize("dtype", [np.longdouble, np.clongdouble])
def test_long_doubles(dtype: type, tmp_path: Path) -> None:
    """Not among those of any bits: some of theirs mean nothing."""
    array, scalar = rows_of(written(tmp_path / "a.arrow", [(np.arange(3, dtype=dtype) / 3, dtype(1) / 3)]))[0]
    assert (array.dtype, type(scalar)) == (dtype, dtype)
    assert (array.tolist(), scalar) == ((np.arange(3, dtype=dtype) / 3).tolist(), dtype(1) / 3)


def test_brain_floats(tmp_path: Path) -> None:
    ml_dtypes = importlib.import_module("ml_dtypes")
    row = np.arange(4).astype(ml_dtypes.bfloat16)
    assert_same(row, rows_of(written(tmp_path / "a.arrow", [row]))[0])


def test_a_file_without_elements(tmp_path: Path) -> None:
    reader = IpcReader(written(tmp_path / "a.arrow", metadata={"a": "b"}))
    assert (reader.num_rows, reader.batches, reader.metadata) == (0, [], {"a": "b"})


def test_elements_are_read_only_views_of_the_buffer_that_was_given(tmp_path: Path) -> None:
    writer = IpcWriter(tmp_path / "a.arrow")
    stored = writer.write([(np.arange(3.0) + i, np.arange(2) > i) for i in range(4)])
    buffers = []

    def into(nbytes: int) -> np.ndarray:
        buffers.append(np.empty(nbytes, np.uint8))
        return buffers[0]

    for row in writer.reader().read(stored, into):
        for leaf in row:
            assert leaf.base is buffers[0]
            assert not leaf.flags.writeable
    assert [buffer.size for buffer in buffers] == [stored.nbytes]
    assert writer.reader().read(stored, into, writeable=True)[0][0].flags.writeable
    writer.close()


def test_a_large_array_is_written_from_where_it_lies(tmp_path: Path) -> None:
    array = np.ones(100_000, np.uint16)
    array.flags.writeable = False
    seen: list[int] = []

    class Watching:
        def __init__(self, path: str) -> None:
            self.file = open(path, "wb", buffering=0)  # noqa: SIM115

        def write(self, data: Any) -> int:
            view = np.frombuffer(data, np.uint8)
            if view.nbytes == array.nbytes:
                seen.append(view.ctypes.data)
            return self.file.write(data[:70_000])  # files may write less than they are given

        def close(self) -> None:
            self.file.close()

    path = written(tmp_path / "a.arrow", [array], open_file=Watching)
    assert seen == [array.ctypes.data]
    assert_same(array, rows_of(path)[0])


def test_how_many_elements_go_into_a_batch() -> None:
    assert [rows_per_batch(n) for n in (0, 8, 1000, 60_000, 64 << 10, 10**9)] == [1024, 1024, 1024, 17, 1, 1]


@pytest.mark.parametrize("row", [
    np.zeros(3, np.float32),
    np.float64(1),
    b"x",
    None,
    (np.zeros(3),),
    {"a": np.zeros(3)},
    Ragged(np.zeros(3), np.array([0, 3])),
    Failed(ValueError()),
    ps.Dataset.range(3),
])  # fmt: skip
def test_a_file_holds_elements_of_one_kind(row: Any, tmp_path: Path) -> None:
    writer = IpcWriter(tmp_path / "a.arrow")
    writer.write([np.zeros((2, 2))])
    for other in (np.zeros(3), np.zeros(()), np.zeros((2, 0), ">f8")):
        writer.write([other])
    with pytest.raises(BadType, match=r"expected an element like those before|cannot be stored"):
        writer.write([row])
    writer.discard()


@pytest.mark.parametrize("row, text", [
    (Failed(ValueError()), "a failed element"),
    (ps.Dataset.range(3), "Dataset"),
    (np.array([b"x", 3], object), "an array that holds int"),
    ({(1, object): np.zeros(1)}, "keys that are text or numbers"),
    (np.zeros(2, []), "cannot be stored"),
])  # fmt: skip
def test_what_cannot_be_stored_is_refused(row: Any, text: str, tmp_path: Path) -> None:
    writer = IpcWriter(tmp_path / "a.arrow")
    with pytest.raises(BadType, match=text):
        writer.write([row])
    with pytest.raises(BadArgument, match="at least one"):
        writer.write([])
    writer.discard()


# --- other programs ---


def shown() -> list[Any]:
    return [normalize({"image": np.full((2, 2), i), "name": f"n{i}", "ok": i > 0, "score": i / 2}) for i in range(3)]


def test_polars_opens_them(tmp_path: Path) -> None:
    pl = importlib.import_module("polars")
    table = pl.read_ipc(written(tmp_path / "a.arrow", shown()[:2], shown()[2:]))
    assert table.columns == ["image", "image.shape", "name", "ok", "score"]
    assert table["image"].to_list() == [[0] * 4, [1] * 4, [2] * 4]
    assert (table["name"].to_list(), table["score"].to_list()) == ([b"n0", b"n1", b"n2"], [0, 0.5, 1])


def test_duckdb_opens_them(tmp_path: Path) -> None:
    duckdb, pa = importlib.import_module("duckdb"), importlib.import_module("pyarrow")
    table = pa.ipc.open_file(str(written(tmp_path / "a.arrow", shown()))).read_all()
    found = duckdb.from_arrow(table).query("seen", "select name, ok, image from seen where list_sum(image) > 0")
    assert found.fetchall() == [(b"n1", True, [1] * 4), (b"n2", True, [2] * 4)]


def test_pandas_opens_them(tmp_path: Path) -> None:
    pd = importlib.import_module("pandas")
    frame = pd.read_feather(written(tmp_path / "a.arrow", shown()))
    assert frame["score"].tolist() == [0, 0.5, 1]
    assert frame["image"][2].reshape(frame["image.shape"][2]).tolist() == [[2, 2], [2, 2]]


# --- damage ---


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    pa = importlib.import_module("pyarrow")
    path = tmp_path / "a.arrow"
    for data in (b"", b"A", b"ARROW1", b"ARROW1" * 3, b"x" * 100, b"ARROW1\0\0" + b"\xff" * 50 + b"ARROW1"):
        path.write_bytes(data)
        with pytest.raises(FormatError, match=r"a\.arrow: "):
            IpcReader(path)
    with pa.ipc.new_file(str(path), pa.schema([("x", pa.int64())])):
        pass
    with pytest.raises(FormatError, match=r"a\.arrow: penstock did not write it"):
        IpcReader(path)
    with pytest.raises(FileNotFoundError):
        IpcReader(tmp_path / "none")


def test_another_version_is_refused(tmp_path: Path) -> None:
    pa = importlib.import_module("pyarrow")
    path = tmp_path / "a.arrow"
    with pa.ipc.new_file(str(path), pa.schema([], metadata={"penstock": json.dumps({"version": 2})})):
        pass
    with pytest.raises(FormatError, match="has version 2 of the format; this penstock reads version 1"):
        IpcReader(path)


def damaged(data: bytes) -> Any:
    cuts = st.integers(0, len(data) - 1).map(lambda n: data[:n])
    flips = st.lists(st.tuples(st.integers(0, len(data) - 1), st.integers(0, 255)), min_size=1, max_size=4)

    def flipped(changes: list[tuple[int, int]]) -> bytes:
        new = bytearray(data)
        for place, value in changes:
            new[place] = value
        return bytes(new)

    return st.one_of(cuts, flips.map(flipped))


@settings(deadline=None, max_examples=200, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_damaged_files_are_refused_or_read_but_nothing_worse(data: Any, tmp_path: Path) -> None:
    rows = [(np.arange(i, dtype=np.int32), b"abc", np.array([b"x"] * i, object), np.float64(i)) for i in range(4)]
    whole = written(tmp_path / "whole.arrow", rows, rows[:1]).read_bytes()
    path = tmp_path / "a.arrow"
    path.write_bytes(data.draw(damaged(whole)))
    with contextlib.suppress(FormatError):  # a changed value is no damage that can be seen
        rows_of(path)


def test_a_batch_that_is_not_there(tmp_path: Path) -> None:
    reader = IpcReader(written(tmp_path / "a.arrow", [np.arange(3)]))
    (stored,) = reader.batches
    with pytest.raises(FormatError, match="bytes are missing at byte"):
        reader.read(Stored(stored.offset + 10**6, 100, 1))
    with pytest.raises(FormatError, match="is damaged"):
        reader.read(Stored(stored.offset + 8, stored.nbytes - 8, 1))
    with pytest.raises(FormatError, match="expected 2 rows"):
        reader.read(stored._replace(num_rows=2))


# --- in a spill space ---


def test_bytes_count_on_the_space_until_the_file_is_discarded(tmp_path: Path) -> None:
    space = SpillSpace(str(tmp_path))
    writer = IpcWriter(space.new_path(".arrow"), space=space)
    writer.write([np.zeros(1000)])
    assert space.used_bytes == writer.bytes_written == os.path.getsize(writer.path) > 8000
    reader = writer.reader()
    writer.discard()
    assert (space.used_bytes, os.path.exists(writer.path)) == (0, False)
    assert reader.read(writer.batches[0])[0].tolist() == [0] * 1000
    writer.discard()
    assert space.used_bytes == 0
    space.close()


def test_a_limit_refuses_before_anything_is_written(tmp_path: Path) -> None:
    space = SpillSpace(str(tmp_path), 10_000)
    writer = IpcWriter(space.new_path(".arrow"), space=space)
    writer.write([np.zeros(1000)])
    with pytest.raises(
        SpillError, match=r"8\.\d+ kB more on disk and 8\.\d+ kB of the limit of 10 kB .*spill_limit=\d"
    ):
        writer.write([np.zeros(1000)])
    assert space.used_bytes == os.path.getsize(writer.path) <= 10_000
    writer.discard()
    assert space.used_bytes == 0
    space.close()


def test_a_full_disk_says_what_to_do(tmp_path: Path) -> None:
    space = SpillSpace(str(tmp_path))
    writer = IpcWriter(space.new_path(), open_file=lambda _: open("/dev/full", "wb", 0), space=space)  # noqa: SIM115
    with pytest.raises(
        SpillError, match=r"no room to write .* No space left on device, .* are free .*spill_dir"
    ) as caught:
        writer.write([np.zeros(1000)])
    assert getattr(caught.value.__cause__, "errno", None) == errno.ENOSPC
    writer.discard()
    assert space.used_bytes == 0
    space.close()
