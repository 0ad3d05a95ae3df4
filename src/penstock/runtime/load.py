"""Loading: the dataset of what was saved, as it comes or as a user's function reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import BadType
from ..io.rows import FromRows
from ..io.saved import Load
from ..leaf import is_dataset
from ..plan.node import Node, Origin

__all__ = ["loaded"]


def loaded(
    source: Load, reader_func: Callable[[Any], Any] | None, make_dataset: Callable[[Node], Any], origin: Origin
) -> Any:
    """The dataset of what was saved: as it comes, or as a user's function makes it of datasets, one for each file."""
    node = Node(source, (), origin)
    node.spec  # noqa: B018  a spec that was given must fit what was saved
    if reader_func is None:
        return make_dataset(node)
    if not callable(reader_func):
        raise BadType(f"reader_func: expected a function, got {type(reader_func).__name__} {reader_func!r:.60}")
    shards = [make_dataset(Node(source.only(shard), (), origin)) for shard in range(len(source.saved.shards))]
    dataset = reader_func(make_dataset(Node(FromRows(shards), (), origin)))
    if not is_dataset(dataset):
        raise BadType(f"reader_func: expected a dataset back, got {type(dataset).__name__} {dataset!r:.60}")
    return dataset
