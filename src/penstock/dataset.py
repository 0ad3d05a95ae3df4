"""Dataset: what users hold.

A Dataset is an immutable handle on a plan node. Its methods are made from the operators: `take = method(Take)` gives the
method the signature and the documentation of the class. Nothing runs before `run()` or `iter()`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from .errors import PenstockError
from .io.arrays import FromTensors, FromTensorSlices
from .io.numbers import Counter, Random, Range
from .memory.limits import available_bytes
from .ops.batch import Batch
from .ops.map import Map
from .ops.repeat import Repeat
from .ops.shard import Shard
from .ops.shuffle import Shuffle
from .ops.skip import Skip
from .ops.take import Take
from .options import DEFAULT_MEMORY_FRACTION, Options, parse_memory
from .plan.node import Node, caller_origin, located
from .plan.op import Op
from .runtime.run import Run

__all__ = ["Dataset"]


def _name_of(op: type[Op]) -> str:
    return op.name.fget(op.__new__(op))  # type: ignore[attr-defined,no-any-return]


def _documented(wrapper: Any, op: type[Op], first: str | None) -> Any:
    """Gives a method the signature and documentation of its operator."""
    parameters = [p for p in inspect.signature(op).parameters.values() if not _is_internal(op, p.name)]
    if first is not None:
        parameters.insert(0, inspect.Parameter(first, inspect.Parameter.POSITIONAL_OR_KEYWORD))
    wrapper.__signature__ = inspect.Signature(parameters, return_annotation="Dataset")
    wrapper.__doc__ = op.__doc__
    wrapper.__name__ = _name_of(op)
    wrapper.__qualname__ = f"Dataset.{wrapper.__name__}"
    return wrapper


def _is_internal(op: type[Op], name: str) -> bool:
    return name in getattr(op, "internal", ())


def method(op: type[Op]) -> Any:
    """A method that puts this operator on top of the dataset."""

    def wrapper(self: Dataset, *args: Any, name: str | None = None, **kwargs: Any) -> Dataset:
        return Dataset._made(op, (self.node,), args, kwargs)

    return _documented(wrapper, op, "self")


def source(op: type[Op]) -> Any:
    """A static method that makes a dataset from this source."""

    def wrapper(*args: Any, name: str | None = None, **kwargs: Any) -> Dataset:
        return Dataset._made(op, (), args, kwargs)

    return staticmethod(_documented(wrapper, op, None))


class Dataset:
    """A pipeline: a source and operators, in the verbs of tf.data, on NumPy data.

    >>> import numpy as np, penstock as ps
    >>> ds = ps.Dataset.from_tensor_slices(np.arange(6)).map(lambda x: x * 2).batch(4)
    >>> list(ds)
    [array([0, 2, 4, 6]), array([ 8, 10])]
    """

    __penstock_dataset__ = True

    def __init__(self, node: Node, options: Options | None = None) -> None:
        self.node = node
        self._options = options or Options()
        self._next_epoch = 0
        node.spec  # noqa: B018  a mistake is found here, at the user's line

    @classmethod
    def _made(cls, op: type[Op], inputs: tuple[Node, ...], args: Any, kwargs: Any) -> Dataset:
        origin = caller_origin()
        try:
            return cls(Node(op(*args, **kwargs), inputs, origin))
        except PenstockError as error:
            raise located(error, _name_of(op), origin) from None

    from_tensor_slices = source(FromTensorSlices)
    from_tensors = source(FromTensors)
    range = source(Range)
    counter = source(Counter)
    random = source(Random)

    map = method(Map)
    batch = method(Batch)
    take = method(Take)
    skip = method(Skip)
    shard = method(Shard)
    repeat = method(Repeat)
    shuffle = method(Shuffle)

    def run(
        self, memory: int | float | str | None = None, *, epoch: int | None = None, optimize: bool | None = None
    ) -> Run:
        """Opens one pass."""
        from .optimize import optimized

        options = self._options.merged(Options(memory=memory, optimize=optimize))
        chosen = DEFAULT_MEMORY_FRACTION if options.memory is None else options.memory
        if epoch is None:
            epoch = self._next_epoch
        self._next_epoch = epoch + 1
        return Run(
            self.node,
            None if options.optimize is False else optimized,
            parse_memory(chosen, available_bytes()),
            options.deterministic is not False,
            epoch,
            Dataset,
        )

    def __iter__(self) -> Iterator[Any]:
        return self.run()
