"""Feed: a dataset whose runs deliver tensors instead of arrays.

What all frameworks share. A feed is iterated once for each epoch, and each of its iterators is one run of the dataset:
the run opens with the first element that is asked for, so that an iterator nobody reads is no epoch, and closes with
the iterator. Elements are converted as they are delivered, in the caller's thread. Tensors are made on the arrays
themselves: each holds a reference to its array, which is what keeps a slot from being used again (ADR 0005).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..dataset import Dataset
from ..element import Structure
from ..errors import BadType, PenstockError
from ..options import Options
from ..runtime.closing import close_dropped
from ..runtime.run import Run

__all__ = ["Convert", "Feed", "FeedIterator", "each_leaf", "plain_nests", "refused"]

Convert = Callable[[Any, Run], Any]


class FeedIterator:
    """An iterator over one epoch, with a position that can be saved; also a context manager."""

    def __init__(
        self, open_run: Callable[[], Run], convert: Convert, prepare: Callable[[Any], Any] | None = None
    ) -> None:
        self._open_run = open_run
        self._convert = convert
        self._prepare = prepare
        self._run: Run | None = None

    @property
    def run(self) -> Run:
        """The run that it reads: `stats()`, `memory()`."""
        run = self._run
        if run is None:
            run = self._run = self._open_run()
        return run

    def __iter__(self) -> FeedIterator:
        return self

    def __next__(self) -> Any:
        run = self._run or self.run
        try:
            # Converters may ask who else has the element: here it has no name.
            if self._prepare is None:
                return self._convert(next(run), run)
            return self._convert(self._prepare(next(run)), run)
        except PenstockError as error:
            if not error.is_located:  # by an operator: it is about what the last one gave
                error.add_note(f"of what {run.whereabouts} gives")
            raise

    def state_dict(self) -> dict[str, Any]:
        """The position after the last element delivered."""
        return self.run.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Moves to a saved position: what comes next is what came next then."""
        self.run.load_state_dict(state)

    def get_state(self) -> dict[str, Any]:
        """`state_dict`, as iterators of Grain call it."""
        return self.state_dict()

    def set_state(self, state: dict[str, Any]) -> None:
        """`load_state_dict`, as iterators of Grain call it."""
        self.load_state_dict(state)

    def close(self) -> None:
        """Ends the run. So does dropping the iterator."""
        if self._run is not None:
            self._run.close()

    def __enter__(self) -> FeedIterator:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # As for the run itself, which the feed remembers.
        if self._run is not None and not self._run.is_over and not is_finalizing():
            close_dropped(self, self._run.close)


class Feed:
    """A dataset and the options of its runs, iterated once for each epoch.

    Attributes:
        prepare: What is done to elements before they are converted; None if nothing is.
        convert: Makes tensors of an element of a run.
        last_run: The run that began last, open or over: `memory()`, `stats()`. None before the first.
    """

    last_run: Run | None = None

    def __init__(
        self,
        dataset: Dataset,
        convert: Convert,
        memory: int | float | str | None,
        optimize: bool | None,
        prepare: Callable[[Any], Any] | None = None,
    ) -> None:
        Options(memory=memory, optimize=optimize)  # refuses bad ones where they were written, not in the first run
        self.dataset = dataset
        self.convert = convert
        self.prepare = prepare
        self.memory = memory
        self.optimize = optimize

    def open_run(self, epoch: int | None = None) -> Run:
        """The next run, or that of a certain epoch."""
        run = self.last_run = self.dataset.run(self.memory, epoch=epoch, optimize=self.optimize)
        return run

    def __iter__(self) -> FeedIterator:
        return FeedIterator(self.open_run, self.convert, self.prepare)

    def __len__(self) -> int:
        return len(self.dataset)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.dataset!r}>"


def each_leaf(convert: Callable[[Any, Run], Any]) -> Convert:
    """The function that converts each leaf of an element of a run, and keeps its structure."""

    def convert_element(element: Any, run: Run) -> Any:
        kind = type(element)
        if kind is tuple:
            return tuple([
                convert(part, run) if type(part) is np.ndarray else convert_element(part, run) for part in element
            ])  # fmt: skip
        if kind is np.ndarray:
            return convert(element, run)
        if kind is dict:
            return {
                key: convert(part, run) if type(part) is np.ndarray else convert_element(part, run)
                for key, part in element.items()
            }
        return Structure.of(element).map(lambda leaf: convert(leaf, run), element)

    return convert_element


def plain_nests(element: Any) -> Any:
    """The element with dicts for dataclasses, which some frameworks do not look into."""
    structure = Structure.of(element)
    if structure.kind is None:
        return element
    parts = [plain_nests(part) for part in structure.fields(element)]
    if issubclass(structure.kind, tuple):
        return tuple(parts) if structure.kind is tuple else structure.kind(*parts)
    return dict(zip(structure.keys, parts, strict=True))


def refused(method: str, leaf: Any, what_to_do: str) -> BadType:
    """The error for a leaf that a framework has no tensor for."""
    kind = f"{leaf.dtype} array" if isinstance(leaf, np.ndarray) else type(leaf).__name__
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "O":
        kind = "array of byte strings"
    shown = " ".join(repr(leaf).split())  # on one line
    return BadType(f"{method}: expected elements that it has tensors for, got {kind} {shown:.60}; {what_to_do}")
