"""Rows of ragged arrays, made one by one; of text, they are counted, and no more are made than there is room for."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..block import Block
from ..byte_strings import is_text
from ..element import Structure
from ..leaf import as_leaf, leaf_bytes
from ..order import Index
from ..plan.op import Context

__all__ = ["RaggedReader"]


class RaggedReader:
    """Reads element by element, since a ragged column has no rows of one size."""

    def __init__(self, structure: Structure, columns: list[Any], context: Context) -> None:
        self._structure = structure
        self._columns = columns
        self._has_text = any(is_text(np.dtype(column.dtype)) for column in columns)
        self._context = context

    def read(self, index: Index) -> Block:
        places = range(index.start, index.stop) if isinstance(index, slice) else index.tolist()
        if not self._has_text:
            return self._block([self._row(place) for place in places])
        transit = self._context.transit
        places = places[: transit.begin(len(places))]
        room_bytes, held_bytes = transit.room_bytes, 0
        rows: list[tuple[Any, ...]] = []
        for row in map(self._row, places):
            nbytes = sum(map(leaf_bytes, row))
            if rows and held_bytes + nbytes > room_bytes:
                break
            rows.append(row)
            held_bytes += nbytes
        transit.add(held_bytes, len(rows))
        return self._block(rows)

    def _row(self, place: int) -> tuple[Any, ...]:
        return tuple([as_leaf(column[place]) for column in self._columns])

    def _block(self, rows: list[tuple[Any, ...]]) -> Block:
        return Block.of_rows(list(map(self._structure.unflatten, rows)), has_failures=False)
