"""CSV files as dicts of columns, at the speed of Arrow's parser."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Sequence
from typing import Any, ClassVar

from ..cursor import Cursor, State
from ..errors import BadArgument, FormatError
from ..memory.arrow_library import load as load_arrow
from ..plan.footprint import Footprint, Sizes
from ..plan.op import Context, Op, argument
from ..spec import UNKNOWN, Spec
from .arrow_arrays import TableColumns
from .csv_rows import RowEnds
from .file_window import FileWindow
from .large_integers import about_integers, in_csv
from .paths import expand_paths, shown_paths
from .reading import FilesCursor, StreamsFiles, check_on_error, first_look
from .row_chunks import ChunkedRows, arrow_types, first_block, of_chunks, parsing_pool, rows_that_parse

__all__ = ["FromCsv"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_COLUMN = re.compile(r"In CSV column #(\d+): ")


@dataclasses.dataclass(frozen=True, eq=False)
class FromCsv(StreamsFiles, Op):
    """The rows of CSV files as dicts of columns.

    Types are those of the first block (1 MB) of the first file that can be read: int64, float64, bool or bytes. A later
    value that does not fit, an empty field where a number should be, and a row with too few or too many fields, are
    errors in their place that name file, row and column. Dates stay text. A file of a header alone has no rows; where
    there is no other it needs `dtypes`. For fields by number, as tf.data has them, see `CsvDataset`.

    Args:
        paths: A path, a pattern, a URI, or a list of them. Files ending in `.gz` are inflated.
        columns: The columns to read. None: all.
        dtypes: Types by column, instead of those found.
        header: Whether the first row of each file holds the names of columns; they are f0, f1, … otherwise.
        delimiter: What stands between fields.
        quotes: Whether fields may stand in quotes, with delimiters and line ends inside. A quote opens a field only as
            its first character: elsewhere it is text.
        fill_null: A value in the place of empty fields, in the columns that can hold it, or a dict of values by column.
        buffer_size: Bytes to read and parse at a time, 256 kB unless given; fewer where the budget is short.
        on_error: "skip" leaves out what cannot be read; `run.stats()` says how much, by file.

    Memory: the buffer, which grows for a longer row, ten times as much for what is parsed, and the rows asked for.
    State: the number of the file, an offset in it (after decompression), and the number of rows since.

    >>> import tempfile, pathlib, penstock as ps
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "a.csv").write_text("name,x\\na,1\\nb,2\\n")
    ...     list(ps.Dataset.from_csv(folder + "/a.csv", dtypes={"x": "float32"}))
    [{'name': b'a', 'x': np.float32(1.0)}, {'name': b'b', 'x': np.float32(2.0)}]
    """

    tuning: ClassVar[tuple[str, ...]] = ("buffer_size",)

    paths: Any
    columns: Sequence[str] | None = None
    dtypes: dict[str, Any] | None = None
    header: bool = True
    delimiter: str = ","
    quotes: bool = True
    fill_null: Any = dataclasses.field(default=None, kw_only=True)
    buffer_size: int | None = dataclasses.field(default=None, kw_only=True)
    on_error: str = dataclasses.field(default="raise", kw_only=True)
    _paths: tuple[str, ...] = dataclasses.field(init=False, repr=False)
    _table: TableColumns = dataclasses.field(init=False, repr=False)
    _types: dict[str, Any] = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_on_error(self.on_error)
        load_arrow("pyarrow.csv", "CSV files")
        if len(self.delimiter.encode()) != 1:
            raise BadArgument(f"delimiter: expected one character, got {self.delimiter!r}")
        fields = self.__dict__
        if self.buffer_size is not None:
            fields["buffer_size"] = argument("buffer_size", self.buffer_size, at_least=0)
        fields["_paths"] = tuple(expand_paths(self.paths, "paths"))
        if not self._paths:
            raise BadArgument("paths: expected one file or more, got none: there are no columns without a file")
        _, schema = first_look(self._paths, self._look_at)
        fields["_types"] = dict(zip(schema.names, schema.types, strict=True))
        fields["_table"] = TableColumns(schema, self.columns, self.fill_null)

    def _look_at(self, path: str) -> Any:
        """The names and types in the first block of a file."""
        import pyarrow as pa

        block, is_all = first_block(path)
        rows = _CsvRows(self, None)
        end = len(block) if is_all else rows.last_end(block, 0, len(block)) or len(block)
        first = bytes(block[:end]).removeprefix(_BYTE_ORDER_MARK)
        if not first.strip():
            raise FormatError(f"{path}: expected CSV rows to find the columns in, the file is empty")
        try:
            names = rows.width_of(first)
            body = first[rows.header_end(first) :] if self.header else first
            kept = rows_that_parse(body, rows.split, lambda text: rows.closed_table_of(text, names))
            if kept.strip():
                as_text = functools.partial(_as_text, rows, kept, names)
                schema = in_csv(rows.table_of(kept, names), as_text)
            elif set(self.columns or names) <= set(self.dtypes or ()):
                schema = pa.schema([(name, pa.null()) for name in names])
            else:
                raise FormatError(f"{path}: expected CSV rows to find the types in, {_nothing(body, rows)}")
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise FormatError(f"{path}: expected CSV rows to find the columns in, got: {str(error)[:300]}") from None

        def parse(kind: Any) -> Any:
            return rows.table_of(b"0\n", ["x"], {"x": kind})

        return arrow_types(schema, self.dtypes, self.columns, pa.binary(), parse)

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return self._table.spec(UNKNOWN)

    def footprint(self, sizes: Sizes) -> Footprint:
        return of_chunks(sizes, self.buffer_size, self._paths, self._table)

    def open(self, context: Context) -> Cursor:
        def open_rows(path: str, position: State) -> ChunkedRows:
            return ChunkedRows(path, _CsvRows(self, self._table), context, self.buffer_size, position)

        return FilesCursor(context, self._paths, open_rows, self.on_error)

    def describe(self) -> str:
        columns = "" if self.columns is None else f", columns={list(self.columns)!r:.60}"
        return f"from_csv({shown_paths(self._paths)}{columns})"


def _nothing(body: bytes, rows: _CsvRows) -> str:
    """Why there are no rows to be seen."""
    if not body.strip():
        return "there is only a header; give dtypes of all columns"
    quote = ": a quote is not closed" if rows.is_open(body) else ""
    return f"got none in {body[:60]!r}{quote}"


def _as_text(rows: _CsvRows, text: bytes, names: list[str], name: str) -> Any:
    """A column as it is written."""
    import pyarrow as pa

    return rows.table_of(text, names, {name: pa.binary()}).column(name)


class _CsvRows(RowEnds):
    """How rows are cut out of a CSV file, and parsed."""

    blank = b"\r\n"

    def __init__(self, op: FromCsv, table: TableColumns | None) -> None:
        super().__init__(op.delimiter, op.quotes)
        self._op = op
        self._names: list[str] = []
        if table is not None:
            self.table = table
            self._names = list(op._types)

    def begin(self, path: str, window: FileWindow) -> None:
        """Reads the names of columns, which may stand in another order than in the first file."""
        import pyarrow as pa

        window.need(len(_BYTE_ORDER_MARK))
        if window.peek(len(_BYTE_ORDER_MARK)) == _BYTE_ORDER_MARK:
            window.drop(len(_BYTE_ORDER_MARK))
        if not self._op.header:
            return
        while (end := self.first_end(window.data, window.start, window.stop)) < 0:
            if not window.double():
                end = window.stop
                break
        row = bytes(window.data[window.start : end])
        if not row.strip(self.blank):
            raise FormatError(f"{path}: expected a row with the names of columns, the file is empty")
        try:
            self._names = self.width_of(row)
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise FormatError(f"{path}: expected a row with the names of columns, got: {str(error)[:300]}") from None
        missing = [name for name in self.table.names if name not in self._names]
        if missing:
            raise FormatError(f"{path}: expected a column {missing[0]}, got {', '.join(self._names):.200}")
        window.drop(end - window.start)

    def width_of(self, text: bytes) -> list[str]:
        """The names in the first row, or those that its fields get."""
        row = text[: self.header_end(text)]
        if not self._op.header:
            return [f"f{i}" for i in range(self.table_of(row, []).num_columns)]
        return list(self.table_of(row + b"\n", None).schema.names)

    def header_end(self, text: bytes) -> int:
        """Where the first row of a file ends, of which there may be no other."""
        end = self.first_end(text, 0, len(text))
        return len(text) if end < 0 else end

    def parse(self, text: bytes) -> Any:
        types = {name: self._op._types[name] for name in self.table.names}
        # Rows that end were cut out of the file as such; else it is the rest of the file.
        is_rest = self.first_end(text, 0, len(text)) < 0
        table = (self.closed_table_of if is_rest else self.table_of)(text, self._names, types)
        return table.select(self.table.names).combine_chunks().to_batches()[0]

    def closed_table_of(self, text: bytes, names: list[str], types: dict[str, Any] | None = None) -> Any:
        """Rows as a table; refused where a quote is open at the end, in which Arrow would put all that follows it."""
        import pyarrow as pa

        if self.is_open(text):
            raise pa.ArrowInvalid("a quote is not closed")
        return self.table_of(text, names, types)

    def table_of(self, text: bytes, names: list[str] | None, types: dict[str, Any] | None = None) -> Any:
        """Text as a table: names None are in the first row, no names are made up, no types are found."""
        import pyarrow as pa
        from pyarrow import csv

        if text.startswith(_BYTE_ORDER_MARK):  # inside of a file it is text, and Arrow would leave it out
            text = b"\n" + text
        read = csv.ReadOptions(
            use_threads=False,
            block_size=len(text) + 1,
            column_names=names or None,
            autogenerate_column_names=names == [],
        )
        parse = csv.ParseOptions(
            delimiter=self._op.delimiter,
            quote_char='"' if self._op.quotes else False,
            newlines_in_values=True,
        )
        convert = csv.ConvertOptions(
            column_types=types, include_columns=list(types) if types else None, null_values=[""], check_utf8=False
        )
        return csv.read_csv(pa.BufferReader(text), read, parse, convert, parsing_pool())

    def explain(self, error: BaseException, text: bytes) -> str:
        said = str(error).splitlines()[0][:300]
        match = _COLUMN.search(said)
        if match is None:
            return f": expected a row of {', '.join(self._names)}, got {text[:60]!r}: {said}"
        name = self._names[int(match[1])] if int(match[1]) < len(self._names) else match[1]
        got = said.rsplit("invalid value ", 1)[-1]
        return f", column {name}: expected {self._op._types.get(name)}, got {got}{about_integers(text)}"
