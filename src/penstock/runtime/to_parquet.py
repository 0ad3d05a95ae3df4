"""Writing all elements of a dataset to a Parquet file."""

from __future__ import annotations

from typing import Any

from ..element import Failed
from ..errors import BadArgument
from ..frames import taken
from ..io.parquet_writer import ParquetWriter
from ..io.paths import path_given
from ..plan.op import argument
from ..spec import INFINITE, Spec
from .progress import ProgressBar
from .run import Run

__all__ = ["to_parquet"]

_AT_A_TIME = 1024


def to_parquet(run: Run, spec: Spec, path: Any, row_group_size: int | None = None, compression: str = "snappy") -> None:
    """Writes all elements to a Parquet file, a row each, for `from_parquet` and others.

    The file appears under its name when the last element was written: an error, or a crash, leaves what was there as it
    was. Dicts are columns, dicts in them structs, parts of tuples the columns f0, f1, …, and a single array the column
    `value`. Arrays of a known shape are fixed-size lists; vectors of any length, and what `VarLenFeature` parses,
    lists; arrays of more dimensions are of the first one's shape. Parquet knows no times in whole seconds:
    `datetime64[s]` comes back as `[ms]`. A NaT, which would be a null and come back as an error, is refused with its
    element and column. A progress bar shows on a terminal.

    Args:
        path: The file, or its URI (`s3://`, `gs://`, `file://`, …).
        row_group_size: Rows in a row group. None: as many as take 640 MB, or a quarter of the budget, while
            they are written: 128 MB of float64, 64 MB of lists of it.
        compression: "snappy", "zstd", "gzip", "lz4", "brotli" or "none".

    >>> import tempfile, numpy as np, penstock as ps
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ps.Dataset.from_tensor_slices({"x": np.arange(3), "y": np.eye(3)}).to_parquet(folder + "/t.parquet")
    ...     list(ps.Dataset.from_parquet(folder + "/t.parquet").skip(2))
    [{'x': np.int64(2), 'y': array([0., 0., 1.])}]
    """
    name = path_given(path, "path")
    if row_group_size is not None:
        row_group_size = argument("row_group_size", row_group_size, at_least=1)
    if spec.cardinality == INFINITE:
        raise BadArgument("cannot write an infinite dataset; use take(n) for a part of it")
    share = run.ledger.share("to_parquet")
    bar = ProgressBar("to_parquet: writing", None if spec.cardinality < 0 else spec.cardinality, run.shows_progress)
    writer = ParquetWriter(name, share, spec.element, row_group_size, compression)
    try:
        while (block := run.pull(_AT_A_TIME)) is not None:
            for row in block.rows() if block.has_failures else ():
                if type(row) is Failed:
                    raise taken(row)
            writer.write(block)
            bar.advance(block.size)
        writer.finish()
    finally:
        bar.close()
        writer.abort()
