"""JSON lines as dicts: one object on each line."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ..cursor import Cursor, State
from ..errors import BadArgument, FormatError
from ..memory.arrow_library import load as load_arrow
from ..plan.footprint import Footprint, Sizes
from ..plan.op import Context, Op, argument
from ..spec import UNKNOWN, Spec
from .arrow_arrays import TableColumns
from .arrow_schema import check_names
from .file_window import FileWindow
from .large_integers import about_integers, in_json
from .paths import expand_paths, shown_paths
from .reading import FilesCursor, StreamsFiles, check_on_error, first_look
from .row_chunks import ChunkedRows, arrow_types, first_block, of_chunks, parsing_pool

__all__ = ["FromJsonLines"]

# Arrow finds types by recursion, which ends the process where objects and arrays are nested ten thousands deep.
_MOST_LEVELS = 100
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"')
_OPENS, _CLOSES = b"[{", b"]}"
_NOT_BRACKETS = bytes(set(range(256)) - set(_OPENS + _CLOSES))


@dataclasses.dataclass(frozen=True, eq=False)
class FromJsonLines(StreamsFiles, Op):
    """The objects of JSON lines files as dicts.

    An object inside another is a dict, an array an array of its own length, a string `bytes`; integers are int64, or
    uint64 where some are larger and none is negative. Arrays of one length in an array are an array of more dimensions;
    arrays of objects are refused. Names and types are those of the first block (1 MB) of the first file that can be
    read; where lines do not agree, those of most; lines nested more than 100 deep do not count. A value that does not
    fit, one that is missing or null, arrays of unequal lengths in one, and a name that was not there, are errors in
    their place that name file and row. Rows are the objects, from 0: blank lines do not count, and each of two objects
    on a line does.

    Args:
        paths: A path, a pattern, a URI, or a list of them. Files ending in `.gz` are inflated.
        columns: The names to read; all others are passed over. None: all.
        dtypes: Types by name, instead of those found: for an array that of its values, for an object a dict.
        fill_null: A value in the place of what is missing, where it fits, or a dict of values by name.
        buffer_size: Bytes to read and parse at a time, 256 kB unless given; fewer where the budget is short.
        on_error: "skip" leaves out what cannot be read; `run.stats()` says how much, by file.

    Memory: the buffer, which grows for a longer line, ten times as much for what is parsed, and the rows asked for.
    State: the number of the file, an offset in it (after decompression), and the number of rows since.

    >>> import tempfile, pathlib, penstock as ps
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "a.jsonl").write_text('{"x": 1, "at": {"y": 2.5}}\\n{"x": 2, "at": {"y": 3}}\\n')
    ...     list(ps.Dataset.from_json_lines(folder + "/a.jsonl"))
    [{'x': np.int64(1), 'at': {'y': np.float64(2.5)}}, {'x': np.int64(2), 'at': {'y': np.float64(3.0)}}]
    """

    tuning: ClassVar[tuple[str, ...]] = ("buffer_size",)

    paths: Any
    columns: Sequence[str] | None = None
    dtypes: dict[str, Any] | None = None
    fill_null: Any = dataclasses.field(default=None, kw_only=True)
    buffer_size: int | None = dataclasses.field(default=None, kw_only=True)
    on_error: str = dataclasses.field(default="raise", kw_only=True)
    _paths: tuple[str, ...] = dataclasses.field(init=False, repr=False)
    _table: TableColumns = dataclasses.field(init=False, repr=False)
    _schema: Any = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_on_error(self.on_error)
        load_arrow("pyarrow.json", "JSON lines")
        fields = self.__dict__
        if self.buffer_size is not None:
            fields["buffer_size"] = argument("buffer_size", self.buffer_size, at_least=0)
        fields["_paths"] = tuple(expand_paths(self.paths, "paths"))
        if not self._paths:
            raise BadArgument("paths: expected one file or more, got none: there are no names without a file")
        _, found = first_look(self._paths, self._look_at)
        fields["_table"] = TableColumns(found, self.columns, self.fill_null)
        fields["_schema"] = _chosen(found, self._table.names)

    def _look_at(self, path: str) -> Any:
        """The names and types in the first block of a file."""
        import pyarrow as pa

        block, is_all = first_block(path)
        end = len(block) if is_all else block.rfind(b"\n") + 1 or len(block)
        if not block[:end].strip():
            raise FormatError(f"{path}: expected JSON lines to find names and types in, the file is empty")
        lines = _lines(bytes(block[:end]))
        shallow = [line for line in lines if _levels(line) <= _MOST_LEVELS]
        if not b"".join(shallow).strip():
            deep = next(filter(bytes.strip, lines))
            raise FormatError(
                f"{path}, row 0: expected objects and arrays nested at most {_MOST_LEVELS} deep to find types in, "
                f"got {_levels(deep):,} levels: {deep[:60]!r}"
            )
        pieces = _pieces(b"".join(shallow))
        if isinstance(pieces, Exception):
            raise FormatError(f"{path}: expected JSON lines to find types in, got: {str(pieces)[:300]}")

        def parse(kind: Any) -> Any:
            return _parsed(b'{"x": null}\n', pa.schema([("x", kind)]), False)

        found = in_json(_agreed(pieces), shallow)
        return arrow_types(found, self.dtypes, self.columns, pa.string(), parse)

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return self._table.spec(UNKNOWN)

    def footprint(self, sizes: Sizes) -> Footprint:
        return of_chunks(sizes, self.buffer_size, self._paths, self._table)

    def open(self, context: Context) -> Cursor:
        rows = _JsonRows(self._table, self._schema, self.columns is None)

        def open_rows(path: str, position: State) -> ChunkedRows:
            return ChunkedRows(path, rows, context, self.buffer_size, position)

        return FilesCursor(context, self._paths, open_rows, self.on_error)

    def describe(self) -> str:
        columns = "" if self.columns is None else f", columns={list(self.columns)!r:.60}"
        return f"from_json_lines({shown_paths(self._paths)}{columns})"


def _pieces(text: bytes) -> list[Any] | Exception:
    """Lines as tables: one if they agree, else several, without the lines that are none; an error if there are none."""
    import pyarrow as pa

    try:
        table = _parsed(text, None, False)
        check_names(table.schema)
        return [table]
    except (pa.ArrowException, UnicodeDecodeError) as error:
        lines, failure = _lines(text), error
    if len(lines) < 2:
        return failure
    half = len(lines) // 2
    parts = [_pieces(b"".join(part)) for part in (lines[:half], lines[half:])]
    return [table for part in parts if isinstance(part, list) for table in part] or failure


def _agreed(tables: list[Any]) -> Any:
    """The names in all tables; where values of one name do not agree, the type that most of them have."""
    import pyarrow as pa

    types: dict[str, list[tuple[Any, int]]] = {}  # by name: types that do not go together, and how many lines have them
    for table in tables:
        for field in table.schema:
            found = types.setdefault(field.name, [])
            for i, (schema, count) in enumerate(found):
                try:
                    both = pa.unify_schemas([schema, pa.schema([field])], promote_options="permissive")
                except pa.ArrowException:
                    continue
                found[i] = both, count + table.num_rows
                break
            else:
                found.append((pa.schema([field]), table.num_rows))
    return pa.schema([max(found, key=lambda pair: pair[1])[0].field(0) for found in types.values()])


def _lines(text: bytes) -> list[bytes]:
    return [line + b"\n" for line in text.split(b"\n") if line]


def _levels(line: bytes) -> int:
    """How deep objects and arrays are nested in a line; or how many there are, if that is little."""
    count = line.count(b"[") + line.count(b"{")
    if count <= _MOST_LEVELS:
        return count
    brackets = np.frombuffer(_STRING.sub(b"", line).translate(None, _NOT_BRACKETS), np.uint8)
    steps = np.where((brackets == _OPENS[0]) | (brackets == _OPENS[1]), 1, -1)
    return int(np.cumsum(steps, dtype=np.int32).max(initial=0))


def _chosen(schema: Any, names: list[str]) -> Any:
    import pyarrow as pa

    return pa.schema([schema.field(name) for name in names])


def _parsed(text: bytes, schema: Any, refuses_others: bool) -> Any:
    import pyarrow as pa
    from pyarrow import json

    read = json.ReadOptions(use_threads=False, block_size=len(text) + 1)
    others = "infer" if schema is None else "error" if refuses_others else "ignore"
    return json.read_json(pa.BufferReader(text), read, json.ParseOptions(schema, False, others), parsing_pool())


class _JsonRows:
    """How lines are cut out of a file, and parsed."""

    blank = b"\r\n \t"

    def __init__(self, table: TableColumns, schema: Any, refuses_others: bool) -> None:
        self.table = table
        self._schema = schema
        self._refuses_others = refuses_others

    def begin(self, path: str, window: FileWindow) -> None:
        pass

    def last_end(self, data: bytearray, start: int, stop: int) -> int:
        return max(start, data.rfind(b"\n", start, stop) + 1)

    def split(self, text: bytes) -> list[bytes]:
        return _lines(text)

    def parse(self, text: bytes) -> Any:
        table = _parsed(text, self._schema, self._refuses_others)
        return table.select(self.table.names).combine_chunks().to_batches()[0]

    def explain(self, error: BaseException, text: bytes) -> str:
        names = ", ".join(f"{name}: {kind}" for name, kind in self.table.types.items())
        said = str(error).splitlines()[0][:200]
        return f": expected an object of {names:.200}, got {text.strip()[:60]!r}: {said}{about_integers(text)}"
