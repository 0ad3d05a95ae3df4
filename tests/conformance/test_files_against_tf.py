"""Text lines, records of one length and CSV: what the real tf.data reads of a file is what penstock reads."""

import gzip
import itertools
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import penstock as ps

MOST = 200


def until_error(dataset: Any) -> tuple[list[Any], bool]:
    """The elements up to the first error, and whether there was one."""
    found: list[Any] = []
    iterator = dataset.as_numpy_iterator()
    for _ in range(MOST):
        try:
            found.append(next(iterator))
        except StopIteration:
            return found, False
        except Exception:
            return found, True
    raise AssertionError("no end of it")


def compressed(data: bytes, compression: str | None) -> bytes:
    return {None: bytes, "": bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress}[compression](data)


TEXTS = {
    "empty": b"",
    "one line": b"one",
    "one line with its end": b"one\n",
    "ends of both kinds": b"one\ntwo\r\nthree\n\r\n\nsix",
    "only ends": b"\n\n\n",
    "no text": bytes(range(14, 256)) + b"\n\0\0\n",
    "long lines": b"a" * 9_000 + b"\n" + b"b" * 70_000 + b"\nc\n" + b"d" * 300_000,
    "many lines": b"".join(b"%d\n" % i for i in range(150)),
}


@pytest.mark.parametrize("compression", [None, "", "GZIP", "ZLIB"])
@pytest.mark.parametrize("buffer_size", [None, 1, 4096])
def test_lines_are_those_of_tf_data(tmp_path: Path, compression: str | None, buffer_size: int | None) -> None:
    files = []
    for i, text in enumerate(TEXTS.values()):
        files.append(str(tmp_path / f"{i}.txt"))
        Path(files[-1]).write_bytes(compressed(text, compression))
    for names in (*files, files[:4]):
        arguments = names, compression, buffer_size
        theirs, ours = tf.data.TextLineDataset(*arguments), ps.TextLineDataset(*arguments)
        assert until_error(ours) == until_error(theirs)
        assert ours.cardinality() == theirs.cardinality().numpy()
        assert ours.element_spec == ps.TensorSpec((), ps.string)


@pytest.mark.parametrize("num_parallel_reads", [None, 1, 2, 3, 7])
def test_files_are_read_in_turn_as_in_tf_data(tmp_path: Path, num_parallel_reads: int | None) -> None:
    files = []
    for i, size in enumerate([3, 0, 5, 1, 4]):
        files.append(str(tmp_path / f"{i}.txt"))
        Path(files[-1]).write_bytes(b"".join(b"%d.%d;" % (i, k) for k in range(size)).replace(b";", b"\n"))
    arguments: dict[str, Any] = {"num_parallel_reads": num_parallel_reads}
    assert until_error(ps.TextLineDataset(files, **arguments)) == until_error(
        tf.data.TextLineDataset(files, **arguments)
    )
    records = (
        ps.FixedLengthRecordDataset(files, 4, **arguments),
        tf.data.FixedLengthRecordDataset(files, 4, **arguments),
    )
    assert until_error(records[0]) == until_error(records[1])


def test_names_may_come_from_a_dataset(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text(f"{name}1\n{name}2\n")
    names = [str(tmp_path / "a"), str(tmp_path / "b")]
    for number in (None, 2):
        ours = ps.TextLineDataset(ps.Dataset.from_tensor_slices(np.array(names)), num_parallel_reads=number)
        theirs = tf.data.TextLineDataset(tf.data.Dataset.from_tensor_slices(names), num_parallel_reads=number)
        assert until_error(ours) == until_error(theirs)


def test_a_lone_cr_is_kept(tmp_path: Path) -> None:
    """docs/differences.md: tf.data drops every CR."""
    (tmp_path / "a").write_bytes(b"a\rb\nc\r\r\nd\r")
    assert list(ps.TextLineDataset(tmp_path / "a")) == [b"a\rb", b"c\r", b"d\r"]
    assert until_error(tf.data.TextLineDataset(str(tmp_path / "a")))[0] == [b"ab", b"c", b"d"]


@pytest.mark.parametrize("compression", [None, "GZIP", "ZLIB"])
def test_records_are_those_of_tf_data(tmp_path: Path, compression: str | None) -> None:
    grid = itertools.product([1, 3, 5000], [None, 2], [None, 4], [0, 2, 6, 7, 12, 60, 15_006])
    path = tmp_path / "data"
    for record_bytes, header, footer, size in grid:
        path.write_bytes(compressed(np.random.default_rng(size).bytes(size), compression))
        arguments: Any = [str(path)], record_bytes, header, footer, None, compression
        if size // record_bytes > MOST:
            continue
        if size < (header or 0) + (footer or 0):  # tf.data takes some of these for empty files: data must not be lost
            assert until_error(ps.FixedLengthRecordDataset(*arguments)) == ([], True)
            continue
        theirs = until_error(tf.data.FixedLengthRecordDataset(*arguments))
        assert until_error(ps.FixedLengthRecordDataset(*arguments)) == theirs, (record_bytes, header, footer, size)


BAD_ARGUMENTS: dict[str, Callable[[Any], Any]] = {
    "a negative buffer": lambda L: L.TextLineDataset("x", buffer_size=-1),
    "records of 0 bytes": lambda L: L.FixedLengthRecordDataset("x", 0),
    "records of -1 bytes": lambda L: L.FixedLengthRecordDataset("x", -1),
    "a negative header": lambda L: L.FixedLengthRecordDataset("x", 1, header_bytes=-1),
    "a negative footer": lambda L: L.FixedLengthRecordDataset("x", 1, footer_bytes=-1),
    "a file that is not there": lambda L: L.TextLineDataset("/nowhere/x"),
    "records that are not there": lambda L: L.FixedLengthRecordDataset("/nowhere/x", 1),
    "an integer as a name": lambda L: L.TextLineDataset(3),
    "no reads at a time": lambda L: L.TextLineDataset("x", num_parallel_reads=0),
}


@pytest.mark.parametrize("case", BAD_ARGUMENTS)
def test_what_tf_data_refuses_is_refused(case: str) -> None:
    theirs = (tf.errors.OpError, ValueError, TypeError)
    for library, errors in ((tf.data, theirs), (ps, (ps.errors.PenstockError,))):
        with pytest.raises(errors):
            list(BAD_ARGUMENTS[case](library))


# --- CSV ---

S, N, F = "string", "int32", "float32"
CSV: list[tuple[bytes, list[Any], dict[str, Any]]] = [
    (b"a,1\nb,2\n", [S, N], {}),
    (b"a,1\nb,2", [S, N], {}),
    (b"a,1\r\nb,2\r\n", [S, N], {}),
    (b"a,1\rb,2\r", [S, N], {}),
    (b"a,1\r\r\nb,2\n", [S, N], {}),
    (b"a,1\n\nb,2\n", [S, N], {}),
    (b"a\n\nb\n", [S], {}),
    (b"a\n\nb\n", [["d"]], {}),
    (b"a\r\n\r\nb\n", [["d"]], {}),
    (b"\n\n", [["d"]], {}),
    (b'"a,b",1\n"c""d",2\n"e\nf",3\n', [S, N], {}),
    (b'"a"\r\n"b"\n', [S], {}),
    (b'"a"', [S], {}),
    (b'x,"a"\r', [S, S], {}),
    (b'a"b,1\nx,2\n', [S, N], {}),
    (b'"a"b,1\nx,2\n', [S, N], {}),
    (b'"a"b,1\nx",2\ny,3\n', [S, N], {}),
    (b'"abc,1\nx,2\n', [S, N], {}),
    (b'a"b,1\n"c",2\n', [S, N], {"use_quote_delim": False}),
    (b' "a",1\n', [S, N], {}),
    (b'"a" ,1\n', [S, N], {}),
    (b"a,x\nb,2\n", [S, N], {}),
    (b"a,\nb,2\n", [S, N], {}),
    (b"a,\nb,2\n", [S, [np.int32(7)]], {}),
    (b"a, 1\nb,2 \nc,+3\nd,1_0\ne,0x1\nf,1.0\ng,99999999999\nh,-5\n", [S, N], {}),
    (b"1e3\n.5\n5.\nnan\ninf\n-Inf\nabc\n 2.5 \n0x10\n1f\n1_0\n", [F], {}),
    (b"a,1,2\nb,2\n", [S, N], {}),
    (b"a\nb,2\n", [S, N], {}),
    (b"NA,1\nb,NA\n", [["d"], [np.int32(5)]], {"na_value": "NA"}),
    (b'a,1\n"NA",2\n', [["d"], [np.int32(5)]], {"na_value": "NA"}),
    (b'"",1\n', [["d"], [np.int32(5)]], {}),
    (b"h1,h2\na,1\n", [S, N], {"header": True}),
    (b'"h\n1",h2\na,1\n', [S, N], {"header": True}),
    (b'"h1,h2\na,1\nb,2\n', [S, N], {"header": True}),
    (b'h"1,h2\na,1\nb,2\n', [S, N], {"header": True}),
    (b'"h"1,h2\na,1\n"b",2\nc,3\n', [S, N], {"header": True}),
    (b'"h1" ,h2\na,1\nb,2\n', [S, N], {"header": True}),
    (b'"h""1",h2\na,1\nb,2\n', [S, N], {"header": True}),
    (b'h"1,h2\na,1\nb,2\n', [S, N], {"header": True, "use_quote_delim": False}),
    (b"", [S, N], {"header": True}),
    (b"h", [S, N], {"header": True}),
    (b"", [S, N], {}),
    (b"a;1\n", [S, N], {"field_delim": ";"}),
    (b"a,1,z\n", [S, S], {"select_cols": [0, 2]}),
    (b"a\n", [S], {"select_cols": [2]}),
    (b"a,1,z\n", [S], {"exclude_cols": [0, 1]}),
    (b"a,1,z\n", [S], {"exclude_cols": [0]}),
    (b'a,"b\n', [S], {"select_cols": [0]}),
    (b'a,b"c,1\nx,y,2\n', [S, N], {"select_cols": [0, 2]}),
    (b"\xef\xbb\xbfa,1\n", [S, N], {}),
    (b"1,2,\n", [N, N], {}),
    (b'"1",2\n', [N, N], {}),
    (b"1,2", ["float64", "int64"], {}),
]


def all_places(dataset: Any) -> list[Any]:
    """The elements, with None for an error in its place."""
    found: list[Any] = []
    iterator = dataset.as_numpy_iterator()
    for _ in range(30):
        try:
            found.append(next(iterator))
        except StopIteration:
            return found
        except Exception:
            found.append(None)
    return found[:1]  # tf.data raises for ever


def theirs_of(defaults: list[Any]) -> list[Any]:
    return [getattr(tf, default) if isinstance(default, str) else default for default in defaults]


def ours_of(defaults: list[Any]) -> list[Any]:
    return [(bytes if d == S else np.dtype(d)) if isinstance(d, str) else d for d in defaults]


@pytest.mark.parametrize("compression", [None, "GZIP"])
@pytest.mark.parametrize("buffer_size", [None, 3])
def test_csv_records_are_those_of_tf_data(tmp_path: Path, compression: str | None, buffer_size: int | None) -> None:
    path = tmp_path / "a.csv"
    for data, defaults, options in CSV:
        path.write_bytes(compressed(data, compression))
        arguments = {"compression_type": compression, "buffer_size": buffer_size, **options}
        theirs = all_places(tf.data.experimental.CsvDataset(str(path), theirs_of(defaults), **arguments))
        ours = all_places(ps.CsvDataset(path, ours_of(defaults), **arguments))
        assert repr(ours[: len(theirs)]) == repr(theirs), (data, defaults, options)


@pytest.mark.parametrize("seed", range(4))
def test_random_csv_is_read_as_tf_data_reads_it(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    for _ in range(12):
        pieces = random.choice([b"a", b"1", b",", b",", b'"', b"\n", b"\r\n", b" ", b'"b"', b'""'], 40)
        (tmp_path / "a.csv").write_bytes(b"".join(pieces.tolist()))
        for options in ({}, {"use_quote_delim": False}, {"header": True}):
            theirs = all_places(tf.data.experimental.CsvDataset(str(tmp_path / "a.csv"), [["d"], ["e"]], **options))
            ours = all_places(ps.CsvDataset(tmp_path / "a.csv", [["d"], ["e"]], **options))
            assert ours == theirs, (tmp_path / "a.csv").read_bytes()
