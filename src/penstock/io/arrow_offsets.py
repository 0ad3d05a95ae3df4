"""Arrow arrays with fixed-size lists in fixed-size lists, such that `take` gathers the rows that it is asked for.

A slice of an array is the array and an offset. Of such lists of numbers pyarrow's `take` counts the offset in the wrong
unit, and gives what lies elsewhere, behind the end of the buffers too. Offsets come without anybody slicing, where
the chunks of a table's columns end at different rows. Here only the innermost values have one: that is counted right.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrow_values import mask_of

__all__ = ["with_inner_offsets"]


def with_inner_offsets(batch: Any) -> Any:
    """The same record batch, and nothing of it copied but where lists are null."""
    import pyarrow as pa

    if not any(_has_lists_of_lists(field.type) for field in batch.schema):
        return batch
    return pa.RecordBatch.from_arrays([_moved(column) for column in batch.columns], schema=batch.schema)


def _has_lists_of_lists(kind: Any) -> bool:
    from pyarrow import types

    if types.is_fixed_size_list(kind) and types.is_fixed_size_list(kind.value_type):
        return True
    is_known = types.is_fixed_size_list(kind) or _is_list(kind) or types.is_struct(kind)
    return is_known and any(_has_lists_of_lists(kind.field(i).type) for i in range(kind.num_fields))


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind))


def _moved(array: Any) -> Any:
    import pyarrow as pa

    kind, count = array.type, len(array)
    if not _has_lists_of_lists(kind) and not pa.types.is_fixed_size_list(kind):
        return array
    if _is_list(kind):  # which are gathered right, but for what is in them
        buffers = array.buffers()[:2]
        return pa.Array.from_buffers(kind, count, buffers, array.null_count, array.offset, [_moved(array.values)])
    if pa.types.is_struct(kind):
        children = [_moved(array.field(i)) for i in range(kind.num_fields)]
    else:
        size = kind.list_size
        children = [_moved(array.values.slice(array.offset * size, count * size))]
    null = mask_of(array)
    valid = None if null is None else pa.py_buffer(np.packbits(~null, bitorder="little"))
    return pa.Array.from_buffers(kind, count, [valid], array.null_count, 0, children)
