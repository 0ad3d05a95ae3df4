"""Writing elements to a Parquet file, a row group at a time, which appears under its name when it is whole."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import numpy as np

from ..element import Ragged, Sparse, Structure, is_dataset, nbytes_of, string
from ..errors import BadArgument, BadType, SpecMismatch
from ..memory.ledger import Share
from ..spec import UNSEEN, TensorSpec, describe, spec_of

__all__ = ["ParquetWriter"]

# Rows lie in memory as they came, as Arrow's columns, and as encoded pages.
_TIMES_HELD = 3
_GROUP_BYTES = 64 << 20
_COMPRESSIONS = ("snappy", "zstd", "gzip", "lz4", "brotli", "none")


class ParquetWriter:
    """Takes elements one by one; `finish` puts the file in its place, `abort` leaves nothing behind.

    Args:
        path: The file.
        share: The account of the rows that wait for a row group.
        element_spec: What is known of the elements.
        row_group_size: Rows in a row group; None for as many as an eighth of the budget or 64 MB hold.
        compression: A codec.
    """

    def __init__(
        self, path: str, share: Share, element_spec: Any, row_group_size: int | None, compression: str
    ) -> None:
        if compression not in _COMPRESSIONS:
            raise BadArgument(f"compression: expected one of {', '.join(_COMPRESSIONS)}, got {compression!r}")
        self._path = path
        self._element_spec = element_spec
        self._most_rows = row_group_size or 1 << 62
        self._most_bytes = max(1, min(_GROUP_BYTES, share.budget_bytes // (8 * _TIMES_HELD)))
        self._compression = compression
        self._lease = share.acquire(0)
        self._rows: list[Any] = []
        self._nbytes = 0
        self._num_rows = 0
        self._structure: Structure | None = None
        self._specs: list[TensorSpec] = []
        self._writer: Any = None
        folder = os.path.dirname(path) or "."
        handle, self._temporary = tempfile.mkstemp(prefix=f".{os.path.basename(path)[:80]}.", dir=folder)
        os.close(handle)

    def write(self, element: Any) -> None:
        nbytes = nbytes_of(element)
        if self._rows and (len(self._rows) >= self._most_rows or self._nbytes + nbytes > self._most_bytes):
            self._flush()
        self._lease.settle(_TIMES_HELD * (self._nbytes + nbytes), single=True)
        self._nbytes += nbytes
        self._rows.append(element)

    def finish(self) -> None:
        """Writes the rest, and puts the file in its place."""
        if not self._rows and self._writer is None and self._element_spec is UNSEEN:
            raise BadArgument("expected one element or more, got none: there are no columns without one")
        self._flush()
        self._writer.close()
        with open(self._temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.chmod(self._temporary, 0o666 & ~_umask())
        os.replace(self._temporary, self._path)
        self._temporary = ""

    def abort(self) -> None:
        """Removes what was not finished; after `finish` it does nothing."""
        if self._temporary:
            if self._writer is not None and self._writer.is_open:
                self._writer.close()
            os.unlink(self._temporary)
            self._temporary = ""
        self._rows = []
        self._lease.release()

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._structure is None:
            self._begin()
        structure = self._structure
        assert structure is not None
        columns = [self._column(i, structure) for i in range(structure.num_leaves)]
        names, arrays = _nested(_named(structure), iter(columns))
        table = pa.table(dict(zip(names, arrays, strict=True)))
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._temporary, table.schema, compression=self._compression)
        if self._rows:
            self._writer.write_table(table, row_group_size=max(1, len(self._rows)))
        self._num_rows += len(self._rows)
        self._rows, self._nbytes = [], 0
        self._lease.settle(0)

    def _begin(self) -> None:
        """Finds the columns, from what is known of the elements or else from the first one."""
        known = self._element_spec is not UNSEEN
        spec = self._element_spec if known else spec_of(self._rows[0])
        structure, leaves = _leaves_of(spec)
        for leaf in leaves:
            if type(leaf) is not TensorSpec or leaf.dtype.kind in "cV":
                raise BadType(f"expected arrays of numbers or strings, got {describe(spec)}")
            if not known and leaf.shape is not None and len(leaf.shape) == 1:
                leaf = leaf.with_shape((None,))  # another element may have another length
            if leaf.shape is None or None in leaf.shape[1:]:
                raise BadType(f"expected arrays whose inner dimensions are known, got {describe(spec)}")
            self._specs.append(leaf)
        self._structure = structure

    def _column(self, number: int, structure: Structure) -> Any:
        """One leaf of all rows as an Arrow array."""
        import pyarrow as pa

        spec = self._specs[number]
        shape: Any = spec.shape
        leaves = []
        for i, row in enumerate(self._rows):
            try:
                leaf = structure.flatten(row)[number]
            except SpecMismatch as error:
                raise SpecMismatch(f"element {self._num_rows + i:,}: {error}") from None
            if isinstance(leaf, (Ragged, Sparse)) or is_dataset(leaf) or not spec.holds(leaf):
                got = describe(spec_of(leaf))
                raise SpecMismatch(f"element {self._num_rows + i:,}: expected {spec}, as in the first, got {got}")
            leaves.append(leaf)
        if shape[:1] == (None,):
            flat = np.concatenate([leaf.reshape(-1) for leaf in leaves]) if leaves else np.empty(0, spec.dtype)
            ends = np.cumsum([0, *[len(leaf) for leaf in leaves]])
            inner = _fixed(_flat(flat, spec.dtype), shape[1:])
            return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), inner)
        if spec.dtype == string and not shape:
            return pa.array(leaves, pa.large_binary())
        stacked = np.stack(leaves) if leaves else np.empty((0, *shape), spec.dtype)
        return _fixed(_flat(stacked.reshape(-1), spec.dtype), shape)


def _flat(values: np.ndarray, dtype: np.dtype[Any]) -> Any:
    import pyarrow as pa

    return pa.array(values.tolist(), pa.large_binary()) if dtype == string else pa.array(values)


def _fixed(flat: Any, shape: tuple[int, ...]) -> Any:
    """A flat array as fixed-size lists of this shape."""
    import pyarrow as pa

    for size in reversed(shape):
        if not size:
            raise BadType("expected arrays with values, got a dimension of 0, which a fixed-size list cannot have")
        flat = pa.FixedSizeListArray.from_arrays(flat, size)
    return flat


def _leaves_of(spec: Any) -> tuple[Structure, list[Any]]:
    from ..spec import spec_leaves, structure_of_spec

    return structure_of_spec(spec), spec_leaves(spec)


def _named(structure: Structure) -> Any:
    """A nest of dicts with the structure's names: parts of tuples are f0, f1, …, a single leaf is `value`."""
    if structure.is_leaf:
        return {"value": None}
    return _parts(structure)


def _parts(structure: Structure) -> Any:
    if structure.is_leaf:
        return None
    names = [f"f{key}" if isinstance(key, int) else str(key) for key in structure.keys]
    return dict(zip(names, map(_parts, structure.children), strict=True))


def _nested(nest: Any, columns: Any) -> tuple[list[str], list[Any]]:
    """The columns of a nest of names: those of inner nests as structs."""
    import pyarrow as pa

    arrays = []
    for part in nest.values():
        if part is None:
            arrays.append(next(columns))
        else:
            names, inner = _nested(part, columns)
            arrays.append(pa.StructArray.from_arrays(inner, names))
    return list(nest), arrays


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
