"""Datasets of PyTorch as sources."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from ..dataset import Dataset
from ..element import LEAF, Structure
from ..errors import BadType, PenstockError
from ..io.arrays import FromTensorSlices
from ..io.generator import FromGenerator
from ..io.map_style import FromMapStyle
from ..ops.assert_cardinality import AssertCardinality
from ..plan.node import Node, caller_origin, located
from ..plan.op import Op
from ..spec import UNKNOWN

__all__ = ["from_torch"]


def from_torch(dataset: Any) -> Dataset:
    """The elements of a dataset of PyTorch.

    A map-style one (with a length and items) is read at any place: `shuffle`, `take` and `shard` work on its indices,
    and nothing is read that is not asked for. An iterable one is a stream, iterated anew in each run. The tensors of a
    `TensorDataset` are taken as they are, without a copy. If an iterable one states a length, that is taken for true: a
    run that finds another number of elements raises at its end.

    Tuples and dicts stay what they are, tensors become arrays. Lists become tuples: PyTorch collates both alike. In a
    `map` with `num_parallel_calls` only what follows runs in threads: items are asked for one by one.

    Args:
        dataset: A `torch.utils.data.Dataset`, or anything that has `__len__` and `__getitem__`, or `__iter__`.

    Memory: the items asked for; what the dataset itself holds is not the pipeline's.
    State: one integer; an iterable one is iterated again, and as many elements are dropped.

    >>> import penstock as ps
    >>> list(ps.from_torch(["a", "b", "c"]).skip(1))
    [b'b', b'c']
    """
    origin = caller_origin()
    try:
        node = Node(_source(dataset), (), origin)
    except PenstockError as error:
        raise located(error, "from_torch", origin) from None
    length = _stated_length(dataset) if node.spec.cardinality == UNKNOWN else None
    if length is not None:
        node = Node(AssertCardinality(length, counts_failed=True), (node,), origin)
    return Dataset(node)


def _stated_length(stream: Any) -> int | None:
    try:
        return len(stream)
    except (TypeError, NotImplementedError, AttributeError):  # it has none, or what it goes by has none
        return None


def _source(dataset: Any) -> Op:
    from torch.utils.data import IterableDataset, TensorDataset

    if type(dataset) is TensorDataset:
        return FromTensorSlices(tuple(_as_numpy(tensor) for tensor in dataset.tensors))
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
        if not hasattr(dataset, "__iter__"):
            kind = type(dataset).__name__
            raise BadType(f"dataset: expected a dataset of PyTorch, got {kind} {dataset!r:.60}")
        return FromGenerator(_Elements(dataset), made_by="from_torch")
    try:
        return FromMapStyle(dataset, len(dataset), made_by="from_torch", convert=_element)
    except TypeError as error:
        raise BadType(f"dataset: expected one with a length, or an IterableDataset, got {error}") from None


class _Elements:
    """Goes through an iterable dataset, each time anew; as itself, and no function, it can be pickled."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __call__(self) -> Iterator[Any]:
        return map(_element, self._stream)  # no generator, which would end with the first error

    def __str__(self) -> str:
        return type(self._stream).__name__


def _element(element: Any) -> Any:
    """The element with arrays for its tensors, which NumPy does not take as they are if they have gradients.

    A list is a nest to PyTorch, and an array to us: so it becomes a tuple.
    """
    import torch

    if isinstance(element, torch.Tensor):
        return _as_numpy(element)
    if isinstance(element, Mapping):
        return {key: _element(part) for key, part in element.items()}
    if isinstance(element, (tuple, list)):
        parts = [_element(part) for part in element]
        return type(element)(*parts) if hasattr(element, "_fields") else tuple(parts)
    if dataclasses.is_dataclass(element) and not isinstance(element, type):
        structure = Structure.of(element)
        parts = [_element(part) for part in structure.fields(element)]
        return Structure(structure.kind, structure.keys, (LEAF,) * len(parts)).unflatten(parts)
    return element


def _as_numpy(tensor: Any) -> Any:
    import torch

    tensor = tensor.detach().resolve_conj().resolve_neg()
    name = str(tensor.dtype).removeprefix("torch.")
    got = f"expected tensors that NumPy has arrays for, got {name} {tuple(tensor.shape)}"
    if not name.startswith(("bfloat16", "float8")):
        try:
            return tensor.numpy()
        except (TypeError, RuntimeError) as error:
            raise BadType(f"{got}: {error}") from None
    try:
        import ml_dtypes

        dtype = getattr(ml_dtypes, name)
    except (ImportError, AttributeError):
        raise BadType(f"{got}; install ml_dtypes, or give tensor.float()") from None
    bits = torch.int16 if tensor.element_size() == 2 else torch.int8
    return tensor.contiguous().view(bits).numpy().view(dtype)
