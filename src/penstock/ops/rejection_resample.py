"""rejection_resample: elements drawn so that their classes come in given proportions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..block import Block
from ..cursor import Cursor, State, UnaryCursor, expect_list
from ..element import Failed
from ..ending import Ended
from ..errors import BadArgument, BadType, OutOfRange
from ..leaf import as_leaf
from ..order import draw_seed, hash64
from ..plan.op import Context, Op, argument
from ..spec import INFINITE, UNKNOWN, UNSEEN, Spec
from .calling import call, check_callable
from .choosing import Choices, ChoosingCursor, Selector, WeightedSelector
from .few_at_a_time import FewAtATime
from .randomness import uniforms

__all__ = ["RejectionResample"]

# As in tf.data: an estimate holds for this many elements, and each class was seen this often before any other.
_ESTIMATED_AT_ONCE = 32
_SEEN_BEFORE = 10


@dataclasses.dataclass(frozen=True)
class RejectionResample(Op):
    """Rejects some elements and repeats others, so that classes come in the proportions of `target_dist`.

    Gives pairs of class and element. As in tf.data there are two passes over the input, side by side: one as it is, and
    one in which elements of too frequent classes are rejected. Each element comes from one of the two, at random, so
    that as little as possible is rejected; when one of them ends, all ends.

    Args:
        class_func: A function of an element that returns its class: an integer from 0 to `len(target_dist) - 1`.
        target_dist: The wanted share of each class. Shares need not sum to 1.
        initial_dist: The share of each class in the input. None: it is estimated while reading, which takes two more
            passes over the input and more calls of `class_func`.
        seed: The same seed gives the same elements. None: other elements in each dataset.

    Memory: nothing between pulls; each pass over the input holds what the input holds.
    State: how often each class was seen, integers, and one input position for each pass.

    >>> import numpy as np, penstock as ps
    >>> ds = ps.Dataset.range(1000).rejection_resample(lambda x: np.int64(x % 10 == 0), [0.5, 0.5], [0.9, 0.1], seed=1)
    >>> bool(0.4 < np.mean([label for label, _ in ds]) < 0.6)
    True
    """

    class_func: Callable[..., Any]
    target_dist: tuple[float, ...]
    initial_dist: tuple[float, ...] | None = None
    seed: int | None = None
    drawn: int = dataclasses.field(default_factory=draw_seed, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_callable("class_func", self.class_func)
        object.__setattr__(self, "target_dist", _shares("target_dist", self.target_dist))
        if self.initial_dist is not None:
            initial = _shares("initial_dist", self.initial_dist)
            if len(initial) != len(self.target_dist):
                count = len(self.target_dist)
                raise BadArgument(f"initial_dist: expected {count} shares like target_dist, got {len(initial)}")
            object.__setattr__(self, "initial_dist", initial)
        if self.seed is not None:
            object.__setattr__(self, "seed", argument("seed", self.seed))

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        (spec,) = inputs
        known = self._known
        if known is not None and known.keep == 1:
            return Spec(UNSEEN, spec.cardinality)
        endless = spec.cardinality == INFINITE and (known is None or known.keep > 0)
        return Spec(UNSEEN, INFINITE if endless else UNKNOWN)

    @property
    def _known(self) -> _Rates | None:
        """The rates, where they do not have to be estimated."""
        if self.initial_dist is None:
            return None
        return _Rates.of(self.initial_dist, self.target_dist)

    @property
    def num_readings(self) -> int:
        known = self._known
        if known is None:
            return 4
        return 1 if known.keep in (0, 1) else 2

    def open(self, context: Context) -> Cursor:
        known = self._known
        seed = self.drawn if self.seed is None else self.seed
        classes = _Classes(context, self.class_func, len(self.target_dist))
        if known is not None and known.keep == 1:
            return _AllCursor(context.input(), classes)
        filtered = _FilteredCursor(context.input(), classes, self._rates(context, classes), hash64(seed, 1))
        if known is not None and known.keep == 0:
            return filtered
        selector: Selector
        if known is not None:
            selector = WeightedSelector(context, (known.keep, 1 - known.keep), hash64(seed, 0))
        else:
            selector = _EstimatedSelector(self._rates(context, classes), hash64(seed, 0))
        return ChoosingCursor(context, selector, [_AllCursor(context.input(), classes), filtered], True)

    def _rates(self, context: Context, classes: _Classes) -> _Fixed | _Estimate:
        if self._known is not None:
            return _Fixed(self._known)
        return _Estimate(context.input(), classes, self.target_dist)


def _shares(name: str, value: Any) -> tuple[float, ...]:
    """The share of each class, checked, summing to 1."""
    try:
        shares = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise BadType(f"{name}: expected one number for each class, got {value!r:.60}") from None
    if shares.ndim != 1 or not shares.size:
        raise BadArgument(f"{name}: expected one number for each class, got shape {shares.shape}")
    if not (np.isfinite(shares) & (shares >= 0)).all() or not shares.sum() > 0:
        raise BadArgument(f"{name}: expected finite numbers of at least 0, not all 0, got {shares.tolist()}")
    return tuple((shares / shares.sum()).tolist())


class _Rates(NamedTuple):
    """How to get from one distribution of classes to another with the fewest rejections.

    `keep` is how often to take an element as it comes; `accept` how often to accept one of each class otherwise.
    """

    keep: float
    accept: list[float]

    @classmethod
    def of(cls, initial: Sequence[float], target: Sequence[float]) -> _Rates:
        """The rates for distributions that sum to 1."""
        ratios = np.asarray(target) / (np.asarray(initial) + np.finfo(np.float32).tiny)
        least, most = float(ratios.min()), float(ratios.max())
        if most - least < 1e-6:  # equal but for rounding: nothing needs to be rejected
            return cls(1.0, [1.0] * ratios.size)
        return cls(least, ((ratios - least) / (most - least)).tolist())


class _Fixed:
    """Rates that are known beforehand."""

    def __init__(self, rates: _Rates) -> None:
        self._rates = rates

    def at(self, place: int) -> _Rates | None:
        return self._rates

    def state(self) -> State:
        return 0

    def restore(self, state: State) -> None:
        """Has no position."""

    def close(self) -> None:
        """Holds nothing."""


class _Classes:
    """The user's function of an element's class, with its mistakes as values."""

    def __init__(self, context: Context, function: Callable[..., Any], num_classes: int) -> None:
        self._context = context
        self._function = function
        self.num_classes = num_classes

    def of(self, row: Any, place: int) -> Any:
        """The class of an element, or why there is none; a failed element is its own answer."""
        if type(row) is Failed:
            return row
        if self._context.share.ending.is_near:
            raise Ended
        try:
            return self._checked(call(self._function, row))
        except Exception as error:
            return Failed(self._context.noted(error, place))

    def _checked(self, value: Any) -> Any:
        number = value if isinstance(value, np.integer) else as_leaf(value)
        if not isinstance(number, np.integer):
            got = getattr(number, "dtype", type(number).__name__)
            raise BadType(f"class_func: expected one integer, got {got} {value!r:.60}")
        if not 0 <= int(number) < self.num_classes:
            raise OutOfRange(f"class_func: expected a class from 0 to {self.num_classes - 1}, got {number}")
        return number


class _Estimate:
    """Rates from the classes seen so far: a pass of its own over the input, some elements ahead of who asks.

    Elements that fail are left out here; who delivers them tells of it.
    """

    def __init__(self, input: Cursor, classes: _Classes, target: tuple[float, ...]) -> None:
        self._input = input
        self._classes = classes
        self._target = target
        self._counts = [_SEEN_BEFORE] * classes.num_classes
        self._num_steps = 0
        self._ended = False
        self._rates: _Rates | None = None

    def at(self, place: int) -> _Rates | None:
        """The rates for a place, which is never before the last one; None behind the end of the input."""
        while self._num_steps <= place // _ESTIMATED_AT_ONCE:
            if self._ended or not self._step():
                return None
        if self._rates is None:
            total = sum(self._counts)
            self._rates = _Rates.of([count / total for count in self._counts], self._target)
        return self._rates

    def _step(self) -> bool:
        """Counts some more classes; False if there were none."""
        count = 0
        while count < _ESTIMATED_AT_ONCE:
            block = self._input.pull(_ESTIMATED_AT_ONCE - count)
            if block is None:
                self._ended = True
                break
            count += block.size
            for row in block.rows():
                number = self._classes.of(row, 0)
                if type(number) is not Failed:
                    self._counts[number] += 1
            del block, row  # or they would still be held while the next ones are made
        if count:
            self._num_steps += 1
            self._rates = None
        return count > 0

    def state(self) -> State:
        return [list(self._counts), self._num_steps, int(self._ended), self._input.state()]

    def restore(self, state: State) -> None:
        counts, self._num_steps, ended, below = expect_list(state, 4)
        self._counts = expect_list(counts, self._classes.num_classes)
        self._ended = bool(ended)
        self._rates = None
        self._input.restore(below)

    def close(self) -> None:
        self._input.close()


class _EstimatedSelector:
    """Chooses between the input as it is (0) and the filtered one (1) as the estimate advises."""

    endless = False

    def __init__(self, estimate: _Fixed | _Estimate, key: int) -> None:
        self._estimate = estimate
        self._key = key
        self._step = 0

    def next(self, n: int, live: np.ndarray) -> Choices | None:
        # Not beyond the elements for which this estimate holds.
        n = min(n, _ESTIMATED_AT_ONCE - self._step % _ESTIMATED_AT_ONCE)
        rates = self._estimate.at(self._step)
        if rates is None:
            return None
        numbers = (uniforms(self._key, self._step, n) >= rates.keep).astype(np.int64)
        self._step += n
        return Choices(numbers, {})

    def state(self) -> State:
        return [self._step, self._estimate.state()]

    def restore(self, state: State) -> None:
        self._step, below = expect_list(state, 2)
        self._estimate.restore(below)

    def close(self) -> None:
        self._estimate.close()


class _AllCursor(UnaryCursor):
    """Each element with its class."""

    __slots__ = ("_classes", "_place")

    def __init__(self, input: Cursor, classes: _Classes) -> None:
        super().__init__(FewAtATime(input))
        self._classes = classes
        self._place = 0

    def pull(self, n: int) -> Block | None:
        block = self.input.pull(n)
        if block is None:
            return None
        rows = []
        for i, row in enumerate(block.rows()):
            number = self._classes.of(row, self._place + i)
            rows.append(number if type(number) is Failed else (number, row))
        self._place += block.size
        return Block.of_rows(rows)

    def skip(self, n: int) -> int:
        skipped = self.input.skip(n)
        self._place += skipped
        return skipped

    def state(self) -> State:
        return [self._place, self.input.state()]

    def restore(self, state: State) -> None:
        self._place, below = expect_list(state, 2)
        self.input.restore(below)


class _FilteredCursor(UnaryCursor):
    """The elements that are accepted, each with its class."""

    __slots__ = ("_classes", "_key", "_place", "_rates")

    def __init__(self, input: Cursor, classes: _Classes, rates: _Fixed | _Estimate, key: int) -> None:
        super().__init__(input)
        self._classes = classes
        self._rates = rates
        self._key = key
        self._place = 0

    def pull(self, n: int) -> Block | None:
        rows: list[Any] = []
        while not rows:
            # Not beyond the elements for which an estimate holds.
            n = min(n, _ESTIMATED_AT_ONCE - self._place % _ESTIMATED_AT_ONCE)
            rates = self._rates.at(self._place)
            block = None if rates is None else self.input.pull(n)
            if rates is None or block is None:
                return None
            chances = uniforms(self._key, self._place, block.size).tolist()
            for i, row in enumerate(block.rows()):
                number = self._classes.of(row, self._place + i)
                if type(number) is Failed:
                    rows.append(number)
                elif chances[i] < rates.accept[number]:
                    rows.append((number, row))
            self._place += block.size
            del block, row  # or they would still be held while the next ones are made
        return Block.of_rows(rows)

    def state(self) -> State:
        return [self._place, self._rates.state(), self.input.state()]

    def restore(self, state: State) -> None:
        self._place, rates, below = expect_list(state, 3)
        self._rates.restore(rates)
        self.input.restore(below)

    def close(self) -> None:
        self._rates.close()
        self.input.close()
