"""random_map: a function of each element and of random numbers that are the element's own."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any

import numpy as np
from numpy.random import Generator, Philox, SeedSequence
from numpy.random.bit_generator import ISpawnableSeedSequence

from ..order import draw_seed, hash64
from ..plan.footprint import Footprint, Sizes, of_calls
from ..plan.op import Context, ElementFunction, Op, argument
from ..plan.traits import Traits
from ..spec import UNSEEN, Spec
from .calling import Calls, check_callable, check_parallel_calls

__all__ = ["RandomMap"]


@dataclasses.dataclass(frozen=True)
class RandomMap(Op):
    """Applies `map_func` to each element, with a source of random numbers as its last argument.

    That `numpy.random.Generator` depends on the seed, the epoch and the place of the element, and on nothing else:
    results are the same whatever the number of parallel calls, and after a resume. A tuple element is unpacked into
    arguments; a list that is returned becomes a tuple of components.

    Args:
        map_func: The function: `map_func(element, rng)`, or `map_func(*parts, rng)`.
        seed: The same seed gives the same numbers. None: other numbers in each dataset.
        num_parallel_calls: Threads that call it; `AUTOTUNE` chooses from measured rates. None: the caller's thread.
        deterministic: Whether parallel calls keep the order of elements. None leaves it to the options.

    Memory: nothing between pulls; with parallel calls, num_parallel_calls × the elements of a call.
    State: one integer and its input's.

    >>> import penstock as ps
    >>> ds = ps.Dataset.range(100).random_map(lambda x, rng: x + rng.integers(10), seed=1)
    >>> list(ds.run(epoch=0)) == list(ds.run(epoch=0)), list(ds.run(epoch=0)) == list(ds.run(epoch=1))
    (True, False)
    """

    map_func: Callable[..., Any]
    seed: int | None = None
    num_parallel_calls: int | None = None
    deterministic: bool | None = None
    into_slot: bool = dataclasses.field(default=False, kw_only=True, repr=False)
    by_number: bool = dataclasses.field(default=False, kw_only=True, repr=False)
    telling: bool = dataclasses.field(default=False, kw_only=True, repr=False)
    drawn: int = dataclasses.field(default_factory=draw_seed, kw_only=True, compare=False, repr=False)

    spec_is_hidden = True
    internal = ("into_slot", "by_number", "telling")

    def __post_init__(self) -> None:
        check_callable("map_func", self.map_func)
        check_parallel_calls(self, self.num_parallel_calls)
        if self.seed is not None:
            object.__setattr__(self, "seed", argument("seed", self.seed))

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return Spec(UNSEEN, inputs[0].cardinality)

    @functools.cached_property
    def traits(self) -> Traits:
        return Traits(
            runtime="elementwise",
            one_to_one=True,
            keyed=True,
            num_parallel_calls=self.num_parallel_calls or 0,
            deterministic=self.deterministic,
            tells_failures=self.telling,
        )

    def footprint(self, sizes: Sizes) -> Footprint:
        return of_calls(self.traits.num_parallel_calls, sizes)

    def telling_failures(self) -> Op:
        return dataclasses.replace(self, telling=True)

    def numbered(self) -> Op | None:
        return None if self.by_number else dataclasses.replace(self, by_number=True)

    def collating(self) -> Op | None:
        return None if self.into_slot else dataclasses.replace(self, into_slot=True)

    def element_function(self, context: Context) -> ElementFunction:
        seed = self.drawn if self.seed is None else self.seed
        generators = _Generators(hash64(seed, context.epoch))
        return Calls(self.map_func, context, self.into_slot, generators.at, self.by_number)


class _Generators:
    """The generator of each place, cheaply: a thread has one, and moves it from place to place.

    To make a generator takes 3 µs and more, to move one takes less than 1 µs. A function that keeps the one it was
    given keeps it for good: the next call gets another.
    """

    def __init__(self, key: int) -> None:
        self._key = key
        self._local = threading.local()

    def at(self, place: int) -> Generator:
        """The generator of a place, before anything was drawn from it."""
        try:
            own: _Own = self._local.own
        except AttributeError:
            own = self._local.own = _Own(self._key)
        if getrefcount(own.generator) != own.references or getrefcount(own.bits) != own.bits_references:
            own = self._local.own = _Own(self._key)
        own.counter[2] = place
        own.bits.state = own.state  # type: ignore[assignment]  # its stub names a dict of other fields
        own.seeds.place = place
        own.seeds.num_spawned = 0
        return own.generator


class _Own:
    """One thread's generator. The key is that of the run, the place is in the upper half of the counter."""

    __slots__ = ("bits", "bits_references", "counter", "generator", "references", "seeds", "state")

    def __init__(self, key: int) -> None:
        self.seeds = _Seeds(key)
        self.bits = Philox(self.seeds)  # type: ignore[arg-type]  # any ISeedSequence will do
        self.generator = Generator(self.bits)
        self.counter = [0, 0, 0, 0]
        # NumPy copies what it is given here; the list is ours to change.
        fresh: dict[str, Any] = dict(self.bits.state)
        self.state = {**fresh, "state": {"counter": self.counter, "key": fresh["state"]["key"]}}
        self.references = getrefcount(self.generator)
        self.bits_references = getrefcount(self.bits)


class _Seeds(ISpawnableSeedSequence):
    """What a generator was seeded with: a key, and for those that are spawned from it also the place."""

    def __init__(self, key: int) -> None:
        self._key = key
        self.place = 0
        self.num_spawned = 0

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        return SeedSequence(self._key).generate_state(n_words, dtype)

    def spawn(self, n_children: int) -> list[_Seeds]:
        first = self.num_spawned
        self.num_spawned += n_children
        return [_Seeds(hash64(self._key, self.place, i)) for i in range(first, self.num_spawned)]
