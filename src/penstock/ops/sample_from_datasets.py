"""sample_from_datasets: elements of several datasets at random."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..block import Block
from ..cursor import Cursor, State, UnaryCursor, expect_list
from ..element import Failed
from ..errors import BadArgument, BadType, OutOfRange, SpecMismatch
from ..leaf import is_dataset
from ..order import draw_seed, hash64
from ..plan.op import Context, Op, argument
from ..spec import INFINITE, Spec, TensorSpec, describe, spec_of
from .choosing import Choices, ChoosingCursor, Selector, WeightedSelector, chosen_spec, dataset_list
from .randomness import uniforms

__all__ = ["SampleFromDatasets"]


@dataclasses.dataclass(frozen=True)
class SampleFromDatasets(Op):
    """Takes each next element from one of the datasets, chosen at random.

    Args:
        datasets: A list of datasets with equal structures and dtypes.
        weights: How likely each dataset is to be chosen: floats, one for each, or a dataset of such rows, one row for
            each choice. They need not sum to 1. None: all alike.
        seed: The same seed gives the same choices. None: other choices in each dataset.
        stop_on_empty_dataset: Whether all ends when a dataset is chosen that has ended. False: it is passed over.
        rerandomize_each_iteration: Whether each iteration makes other choices. False unless asked for, as in tf.data.

    Memory: nothing between pulls.
    State: one integer, and that of each input.

    >>> import penstock as ps
    >>> ds = ps.Dataset.sample_from_datasets([ps.Dataset.range(3), ps.Dataset.range(7, 9)], weights=[0.2, 0.8], seed=1)
    >>> sorted(int(x) for x in ds)
    [0, 1, 2, 7, 8]
    """

    weights: tuple[float, ...] | None = None
    seed: int | None = None
    stop_on_empty_dataset: bool = False
    rerandomize_each_iteration: bool | None = None
    weights_from_input: bool = dataclasses.field(default=False, kw_only=True)
    drawn: int = dataclasses.field(default_factory=draw_seed, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        datasets: Any,
        weights: Any = None,
        seed: int | None = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: bool | None = None,
    ) -> tuple[SampleFromDatasets, list[Any]]:
        """The operator, and the datasets it reads from; a dataset of weights comes first."""
        found = dataset_list(datasets)
        rest = (seed, stop_on_empty_dataset, rerandomize_each_iteration)
        if is_dataset(weights):
            return cls(None, *rest, weights_from_input=True), [weights, *found]
        if weights is None:
            return cls(None, *rest), found
        numbers = _checked(weights, len(found))
        chosen = [i for i, weight in enumerate(numbers) if weight > 0]
        # As in tf.data a dataset that is never chosen is not even opened; if there is no other, nothing comes.
        kept = [found[i] for i in chosen] or found[:1]
        return cls(tuple(numbers[i] for i in chosen), *rest), kept

    def __post_init__(self) -> None:
        if self.seed is not None:
            object.__setattr__(self, "seed", argument("seed", self.seed))

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        if self.weights == ():
            return inputs[0].with_cardinality(0)
        if self.weights_from_input:
            weights, *inputs = inputs
            _check_spec(weights, len(inputs))
        elif len(inputs) == 1:
            return inputs[0]
        return chosen_spec(inputs)

    def open(self, context: Context) -> Cursor:
        first = int(self.weights_from_input)
        if self.weights == () or (len(context.node.inputs) == 1 and not first):
            return _Only(context.input(), self.weights != ())
        inputs = [context.input(i) for i in range(first, len(context.node.inputs))]
        seed = self.drawn if self.seed is None else self.seed
        key = hash64(seed, context.epoch if self.rerandomize_each_iteration else 0)
        selector: Selector
        if self.weights_from_input:
            selector = _VaryingSelector(context, len(inputs), key)
        else:
            selector = WeightedSelector(context, self.weights or [1.0] * len(inputs), key)
        return ChoosingCursor(context, selector, inputs, self.stop_on_empty_dataset)


def _checked(weights: Any, count: int) -> list[float]:
    """Weights from the user, one for each dataset."""
    if not isinstance(weights, Iterable) or isinstance(weights, (str, bytes, dict)):
        raise BadType(f"weights: expected floats or a dataset of them, got {type(weights).__name__} {weights!r:.60}")
    numbers = np.asarray(weights if hasattr(weights, "__array__") else list(weights))
    if numbers.shape != (count,):
        raise BadArgument(f"weights: expected {count}, one for each dataset, got shape {numbers.shape}")
    if numbers.dtype.kind != "f":
        raise BadType(f"weights: expected floats, got {numbers.dtype}")
    if not (np.isfinite(numbers) & (numbers >= 0)).all():
        raise BadArgument(f"weights: expected finite numbers of at least 0, got {numbers.tolist()}")
    return [float(weight) for weight in numbers]


def _check_spec(weights: Spec, count: int) -> None:
    """Refuses a dataset of weights that can be known not to fit."""
    leaf = weights.element
    if not weights.seen:
        return
    if not isinstance(leaf, TensorSpec) or leaf.dtype.kind != "f":
        raise BadType(f"weights: expected rows of {count} floats, got {describe(leaf)}")
    if leaf.shape not in (None, (None,), (count,)):
        raise SpecMismatch(f"weights: expected rows of {count} floats, one for each dataset, got {describe(leaf)}")


class _Only(UnaryCursor):
    """The only dataset that can be chosen, or nothing of it."""

    __slots__ = ("_has_weight",)

    def __init__(self, input: Cursor, has_weight: bool) -> None:
        super().__init__(input)
        self._has_weight = has_weight

    def pull(self, n: int) -> Block | None:
        return self.input.pull(n) if self._has_weight else None

    def skip(self, n: int) -> int:
        return self.input.skip(n) if self._has_weight else 0


class _VaryingSelector:
    """Chooses at random by weights that a dataset gives anew for each choice."""

    def __init__(self, context: Context, num_inputs: int, key: int) -> None:
        self._context = context
        self._num_inputs = num_inputs
        self._key = key
        self._step = 0
        self._input = context.input(0)
        self.endless = context.node.inputs[0].spec.cardinality == INFINITE

    def next(self, n: int, live: np.ndarray) -> Choices | None:
        block = self._input.pull(n)
        if block is None:
            return None
        failures: dict[int, Failed] = {}
        weights = self._matrix(block, failures)
        cumulative = np.cumsum(weights, axis=1)
        wanted = uniforms(self._key, self._step, block.size) * cumulative[:, -1]
        numbers = np.count_nonzero(cumulative <= wanted[:, None], axis=1)
        self._step += block.size
        bad = ~(np.isfinite(weights) & (weights >= 0)).all(axis=1) | ~(cumulative[:, -1] > 0)
        for i in np.flatnonzero(bad).tolist():
            text = f"weights: expected finite numbers of at least 0, not all 0, got {weights[i].tolist()}"
            failures.setdefault(i, Failed(self._context.located(OutOfRange(text))))
        if failures:
            numbers[list(failures)] = -1
        return Choices(numbers, failures)

    def _matrix(self, block: Block, failures: dict[int, Failed]) -> np.ndarray:
        """The rows of weights, one below the other; those of failures are of no account."""
        shape = (block.size, self._num_inputs)
        if block.columns is not None and block.structure.is_leaf:
            (column,) = block.columns
            if column.shape == shape and column.dtype.kind == "f":
                return column.astype(np.float64)
        matrix = np.ones(shape)
        for i, row in enumerate(block.rows()):
            if type(row) is np.ndarray and row.shape == shape[1:] and row.dtype.kind == "f":
                matrix[i] = row
            elif type(row) is Failed:
                failures[i] = row
            else:
                text = f"weights: expected rows of {self._num_inputs} floats, got {describe(spec_of(row))}"
                failures[i] = Failed(self._context.located(SpecMismatch(text)))
        return matrix

    def state(self) -> State:
        return [self._step, self._input.state()]

    def restore(self, state: State) -> None:
        self._step, below = expect_list(state, 2)
        self._input.restore(below)

    def close(self) -> None:
        self._input.close()
