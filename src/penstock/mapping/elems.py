"""What `map_fn` goes through: arrays, nests of them, or a dataset; and how its function gets one element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..dataset import Dataset
from ..errors import BadArgument, PenstockError
from ..io.arrays import FromTensorSlices
from ..plan.node import Node, caller_origin
from ..spec import INFINITE, UNSEEN, Spec

__all__ = ["Elems", "all_parts", "as_tuple", "elems_of", "only_part"]

# What a function is tried on before it is trusted to be compiled.
_SAMPLED = 16


class Elems(NamedTuple):
    """The elements as a dataset.

    Attributes:
        dataset: What the engine runs.
        pack: Makes the one argument of the function from the parts that the engine calls it with.
        num_elements: How many there are; None where only a run can tell.
        arrays: What they are slices of; None for those of a dataset.
    """

    dataset: Dataset
    pack: Callable[[tuple[Any, ...]], Any]
    num_elements: int | None
    arrays: FromTensorSlices | None

    @property
    def spec(self) -> Spec:
        return self.dataset.node.spec

    def first(self) -> Dataset:
        """Some elements to try a function on, which a run must read: the first ones."""
        return self.dataset.take(_SAMPLED)

    def sample(self) -> list[Any] | None:
        """Such elements where they are there already, as views: the first, the last, and some between."""
        arrays = self.arrays
        if arrays is None or not arrays.gives_views:
            return None
        count = arrays.num_elements
        if count <= _SAMPLED:
            return arrays.views().rows()
        step = -(-count // (_SAMPLED - 2))
        return arrays.views(count - 1).rows() + arrays.views(step, step // 2).rows()


def elems_of(elems: Any) -> Elems:
    """The elements of arrays along their first axis, or of a dataset.

    As in tf.map_fn an element is *one* argument: of a tuple of arrays the function gets a tuple, of a list of arrays a
    list. (`Dataset.map` would unpack the tuple.) A list without arrays in it is an array, as elsewhere in penstock.
    """
    pack: Callable[[tuple[Any, ...]], Any]
    arrays = None
    if isinstance(elems, Dataset):
        dataset = elems
        spec = dataset.static_element_spec
        if spec is UNSEEN:
            spec = dataset.element_spec
        pack = all_parts if type(spec) is tuple else only_part
    else:
        tensors = as_tuple(elems)
        arrays = _slices(tensors)
        dataset = _dataset_of(arrays)
        pack = only_part if type(tensors) is not tuple else all_parts if tensors is elems else list
    count = dataset.cardinality()
    if count == INFINITE:
        raise BadArgument("elems: expected an end, got an infinite dataset; use take(n) for a part of it")
    return Elems(dataset, pack, None if count < 0 else count, arrays)


def _slices(tensors: Any) -> FromTensorSlices:
    """Not by `Dataset.from_tensor_slices`, of which who wrote `map_fn` knows nothing: an error would speak of it."""
    try:
        return FromTensorSlices(tensors)
    except PenstockError as error:
        raise type(error)(f"elems: {error}") from None


def _dataset_of(arrays: FromTensorSlices) -> Dataset:
    return Dataset(Node(arrays, (), caller_origin()))


def as_tuple(nest: Any) -> Any:
    """A list of arrays as a tuple of them; anything else as it is."""
    if isinstance(nest, list) and any(getattr(part, "shape", ()) for part in nest):
        return tuple(nest)
    return nest


def only_part(parts: tuple[Any, ...]) -> Any:
    """The argument made of an element that is no tuple."""
    return parts[0]


def all_parts(parts: tuple[Any, ...]) -> Any:
    """The argument made of the parts of a tuple."""
    return parts
