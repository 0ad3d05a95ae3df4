"""choose_from_datasets: elements of several datasets, in the order that another dataset says."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..cursor import Cursor, State
from ..element import Failed
from ..errors import BadType, OutOfRange
from ..leaf import is_dataset
from ..plan.op import Context, Op
from ..spec import INFINITE, Spec, TensorSpec, describe, spec_of
from .choosing import Choices, ChoosingCursor, chosen_spec, dataset_list

__all__ = ["ChooseFromDatasets"]


@dataclasses.dataclass(frozen=True)
class ChooseFromDatasets(Op):
    """Takes each next element from the dataset whose number comes next in `choice_dataset`.

    Args:
        datasets: A list of datasets with equal structures and dtypes.
        choice_dataset: A dataset of int64 numbers from 0 to `len(datasets) - 1`. A number beyond is an error in its
            place, and the next one goes on.
        stop_on_empty_dataset: Whether all ends when a dataset is chosen that has ended. False: it is passed over.

    Memory: nothing between pulls.
    State: that of each input.

    >>> import penstock as ps
    >>> a, b = ps.Dataset.range(3), ps.Dataset.range(7, 10)
    >>> choice = ps.Dataset.from_tensor_slices([0, 0, 1, 0])
    >>> [int(x) for x in ps.Dataset.choose_from_datasets([a, b], choice)]
    [0, 1, 7, 2]
    """

    stop_on_empty_dataset: bool = True

    @classmethod
    def of(
        cls, datasets: Any, choice_dataset: Any, stop_on_empty_dataset: bool = True
    ) -> tuple[ChooseFromDatasets, list[Any]]:
        """The operator, and the datasets it reads from, the choices first."""
        found = dataset_list(datasets)
        if not is_dataset(choice_dataset):
            got = f"{type(choice_dataset).__name__} {choice_dataset!r:.60}"
            raise BadType(f"choice_dataset: expected a dataset of int64 numbers, got {got}")
        return cls(stop_on_empty_dataset), [choice_dataset, *found]

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        choice, *data = inputs
        leaf = choice.element
        if choice.seen and not (isinstance(leaf, TensorSpec) and leaf.dtype == np.int64 and leaf.shape in (None, ())):
            raise BadType(f"choice_dataset: expected int64 numbers, got {describe(leaf)}")
        return chosen_spec(data)

    def open(self, context: Context) -> Cursor:
        inputs = [context.input(i) for i in range(1, len(context.node.inputs))]
        return ChoosingCursor(context, _ChoiceSelector(context, len(inputs)), inputs, self.stop_on_empty_dataset)


class _ChoiceSelector:
    """Reads the choices from a dataset."""

    def __init__(self, context: Context, num_inputs: int) -> None:
        self._context = context
        self._num_inputs = num_inputs
        self._input = context.input(0)
        self.endless = context.node.inputs[0].spec.cardinality == INFINITE

    def next(self, n: int, live: np.ndarray) -> Choices | None:
        block = self._input.pull(n)
        if block is None:
            return None
        failures: dict[int, Failed] = {}
        numbers = block.columns[0] if block.columns is not None and block.structure.is_leaf else None
        if numbers is None or numbers.dtype != np.int64 or numbers.ndim != 1:
            numbers = np.array([self._number(row, i, failures) for i, row in enumerate(block.rows())], np.int64)
        beyond = (numbers < 0) | (numbers >= self._num_inputs)
        if beyond.any():
            for i in np.flatnonzero(beyond).tolist():
                failures.setdefault(i, self._refused(int(numbers[i])))
            numbers = np.where(beyond, -1, numbers)
        return Choices(numbers, failures)

    def _number(self, row: Any, i: int, failures: dict[int, Failed]) -> int:
        if type(row) is np.int64:
            return int(row)
        if type(row) is not Failed:
            text = f"choice_dataset: expected int64 numbers, got {describe(spec_of(row))}"
            row = Failed(self._context.located(BadType(text)))
        failures[i] = row
        return -1

    def _refused(self, number: int) -> Failed:
        text = f"choice_dataset: expected a number from 0 to {self._num_inputs - 1}, got {number}"
        return Failed(self._context.located(OutOfRange(text)))

    def state(self) -> State:
        return self._input.state()

    def restore(self, state: State) -> None:
        self._input.restore(state)

    def close(self) -> None:
        self._input.close()
