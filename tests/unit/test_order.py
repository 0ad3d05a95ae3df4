"""Orders against their plain-Python twins: a list, made by an expert in lists with no eye on memory."""

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock._native import permute
from penstock.order import (
    Index,
    Order,
    PermutationOrder,
    RangeOrder,
    RepeatOrder,
    ShardOrder,
    SkipOrder,
    TakeOrder,
    WindowOrder,
    WindowShuffler,
    as_array,
    child_epoch,
    hash64,
)

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def listed(index: Index) -> list[int]:
    array = as_array(index)
    assert array.dtype == np.int64
    return array.tolist()


def mix64(x: int) -> int:
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def permuted(items: list[int], key: int) -> list[int]:
    places = np.empty(len(items), np.int64)
    if items:
        permute(len(items), key, 0, places)
    return [items[i] for i in places]


def window_shuffled(items: list[int], size: int, key: int) -> list[int]:
    stream = mix64(key + GOLDEN & MASK)
    buffer, rest, out = items[:size], items[size:][::-1], []
    while buffer:
        j = mix64(stream + GOLDEN * len(out) & MASK) * len(buffer) >> 64
        out.append(buffer[j])
        buffer[j] = rest.pop() if rest else buffer[-1]
        if len(buffer) + len(out) > len(items):
            buffer.pop()
    return out


class Pipeline(NamedTuple):
    """Order operators by name; `order` binds them as the plan does, `twin` does the same to lists."""

    length: int
    steps: tuple[tuple[Any, ...], ...]

    def order(self, epoch: int = 0) -> Order:
        bound: Callable[[int], Order] = lambda epoch: RangeOrder(self.length)  # noqa: E731
        for step in self.steps:
            bound = bind(step, bound)
        return bound(epoch)

    def twin(self, epoch: int = 0) -> list[int]:
        return twin_of(self.length, self.steps, epoch)


def bind(step: tuple[Any, ...], inner: Callable[[int], Order]) -> Callable[[int], Order]:
    name, *numbers = step
    if name == "take":
        return lambda epoch: TakeOrder(inner(epoch), *numbers)
    if name == "skip":
        return lambda epoch: SkipOrder(inner(epoch), *numbers)
    if name == "shard":
        return lambda epoch: ShardOrder(inner(epoch), *numbers)
    if name == "repeat":
        return lambda epoch: RepeatOrder(inner, numbers[0], epoch)
    size, seed = numbers
    if size is None:
        return lambda epoch: PermutationOrder(inner(epoch), hash64(seed, epoch))
    return lambda epoch: WindowOrder(inner(epoch), size, hash64(seed, epoch))


def twin_of(length: int, steps: tuple[tuple[Any, ...], ...], epoch: int) -> list[int]:
    if not steps:
        return list(range(length))
    name, *numbers = steps[-1]
    if name == "repeat":
        epochs = [child_epoch(epoch, i, numbers[0]) for i in range(numbers[0])]
        return [x for child in epochs for x in twin_of(length, steps[:-1], child)]
    items = twin_of(length, steps[:-1], epoch)
    if name == "take":
        return items[: numbers[0]]
    if name == "skip":
        return items[numbers[0] :]
    if name == "shard":
        return items[numbers[1] :: numbers[0]]
    size, seed = numbers
    return permuted(items, hash64(seed, epoch)) if size is None else window_shuffled(items, size, hash64(seed, epoch))


@st.composite
def pipelines(draw: Callable[[Any], Any], windows: bool = True) -> Pipeline:
    counts = st.integers(0, 12)
    shards = st.integers(1, 4).flatmap(lambda n: st.tuples(st.just("shard"), st.just(n), st.integers(0, n - 1)))
    kinds = [
        st.tuples(st.sampled_from(["take", "skip"]), counts),
        shards,
        st.tuples(st.just("repeat"), st.integers(0, 3)),
    ]
    seeds = st.integers(0, 5)
    steps = draw(st.lists(st.one_of(*kinds, st.tuples(st.just("shuffle"), st.none(), seeds)), max_size=4))
    if windows and draw(st.booleans()):
        # A full permutation needs random access below it: it comes before a window, never after.
        steps += draw(st.lists(st.one_of(*kinds, st.tuples(st.just("shuffle"), st.integers(1, 20), seeds)), max_size=3))
    return Pipeline(draw(st.integers(0, 20)), tuple(steps))


@settings(derandomize=True, deadline=None, max_examples=100)
@given(pipeline=pipelines(), epoch=st.integers(0, 3))
def test_the_whole_of_an_order_is_its_twin(pipeline: Pipeline, epoch: int) -> None:
    order, twin = pipeline.order(epoch), pipeline.twin(epoch)
    assert order.length == len(twin)
    assert listed(order.slice(0, len(twin))) == twin
    assert listed(order.slice(0, 10**9)) == twin  # cut at the end


@settings(derandomize=True, deadline=None, max_examples=80)
@given(pipeline=pipelines(), cuts=st.lists(st.integers(0, 60), max_size=6))
def test_any_cuts_give_the_same(pipeline: Pipeline, cuts: list[int]) -> None:
    order, twin = pipeline.order(), pipeline.twin()
    edges = sorted({0, len(twin), *[cut for cut in cuts if cut <= len(twin)]})
    parts = [listed(order.slice(a, b)) for a, b in itertools.pairwise(edges)]
    assert [x for part in parts for x in part] == twin


@settings(derandomize=True, deadline=None, max_examples=80)
@given(pipeline=pipelines(), asks=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=5))
def test_any_part_may_be_asked_for_at_any_time(pipeline: Pipeline, asks: list[tuple[int, int]]) -> None:
    """Back and forth: resuming is asking for a later part of a new order, and going back starts over unseen."""
    order, twin = pipeline.order(), pipeline.twin()
    for start, count in asks:
        assert listed(order.slice(start, start + count)) == twin[start : start + count]


@settings(derandomize=True, deadline=None, max_examples=80)
@given(pipeline=pipelines(windows=False), data=st.data())
def test_any_places_at_once_where_access_is_random(pipeline: Pipeline, data: st.DataObject) -> None:
    order, twin = pipeline.order(), pipeline.twin()
    assert order.random_access
    if twin:
        places = data.draw(st.lists(st.integers(0, len(twin) - 1), max_size=10))
        assert order.at(np.array(places, np.int64)).tolist() == [twin[i] for i in places]


@settings(derandomize=True, deadline=None)
@given(pipeline=pipelines())
def test_a_shuffle_window_anywhere_makes_an_order_sequential(pipeline: Pipeline) -> None:
    windows = [step for step in pipeline.steps if step[0] == "shuffle" and step[1] is not None]
    order = pipeline.order()
    assert order.random_access == (not windows)
    if pipeline.steps and pipeline.steps[-1] in windows:
        with pytest.raises(TypeError, match="sequential"):
            order.at(np.zeros(1, np.int64))


@settings(derandomize=True, deadline=None)
@given(n=st.integers(0, 100), size=st.integers(1, 50), key=st.integers(0, MASK))
def test_the_law_of_the_window(n: int, size: int, key: int) -> None:
    """An element leaves at most size - 1 places early, and every one leaves once."""
    out = listed(WindowOrder(RangeOrder(n), size, key).slice(0, n))
    assert sorted(out) == list(range(n))
    assert all(x - place <= size - 1 for place, x in enumerate(out))


def test_a_window_of_one_is_the_identity() -> None:
    assert listed(WindowOrder(RangeOrder(50), 1, 7).slice(0, 50)) == list(range(50))


def test_neighbours_are_given_as_a_slice() -> None:
    """What lets a source answer with a view."""
    orders = [
        RangeOrder(10),
        TakeOrder(RangeOrder(10), 5),
        SkipOrder(RangeOrder(10), 2),
        ShardOrder(RangeOrder(10), 1, 0),
    ]
    orders.append(RepeatOrder(lambda epoch: RangeOrder(10), 3, 0))
    for order in orders:
        assert isinstance(order.slice(1, 4), slice)
    assert isinstance(orders[-1].slice(8, 12), np.ndarray)  # over the seam


def test_orders_without_end() -> None:
    endless = RangeOrder(math.inf)
    assert endless.length == math.inf
    assert listed(endless.slice(10**12, 10**12 + 3)) == [10**12, 10**12 + 1, 10**12 + 2]
    assert TakeOrder(endless, 3).length == 3
    assert SkipOrder(endless, 3).length == ShardOrder(endless, 4, 1).length == math.inf
    assert listed(ShardOrder(SkipOrder(endless, 3), 4, 1).slice(0, 3)) == [4, 8, 12]
    assert sorted(listed(TakeOrder(WindowOrder(endless, 4, 1), 10).slice(0, 10)))[0] == 0


@pytest.mark.parametrize("length, count, expected", [
    (math.inf, None, math.inf), (math.inf, 0, 0), (math.inf, 2, math.inf), (0, None, 0), (0, 5, 0), (3, None, math.inf),
    (3, 0, 0), (3, 2, 6),
])  # fmt: skip
def test_how_long_a_repeat_is(length: Any, count: int | None, expected: Any) -> None:
    assert RepeatOrder(lambda epoch: RangeOrder(length), count, 0).length == expected


def test_a_repeat_of_what_never_ends_never_comes_to_its_second_time() -> None:
    order = RepeatOrder(lambda epoch: RangeOrder(math.inf), 3, 0)
    assert listed(order.slice(5, 8)) == [5, 6, 7]
    assert order.at(np.array([9])).tolist() == [9]


@settings(derandomize=True)
@given(count=st.integers(1, 5), runs=st.integers(1, 4))
def test_epochs_of_a_repeat_are_those_of_runs_side_by_side(count: int, runs: int) -> None:
    epochs = [child_epoch(run, i, count) for run in range(runs) for i in range(count)]
    assert epochs == list(range(runs * count))


def test_epochs_of_endless_repeats_do_not_clash() -> None:
    epochs = {child_epoch(run, i, None) for run in range(20) for i in range(100)}
    assert len(epochs) == 2000


def test_each_iteration_of_a_repeat_is_shuffled_anew() -> None:
    order = RepeatOrder(lambda epoch: PermutationOrder(RangeOrder(20), hash64(1, epoch)), 3, 0)
    out = np.array(listed(order.slice(0, 60))).reshape(3, 20)
    assert (np.sort(out) == np.arange(20)).all()
    assert len({tuple(row) for row in out}) == 3


def test_keys_are_spread_and_stay_as_they_are() -> None:
    """A saved position holds seeds and epochs: what they are hashed to may never change."""
    assert hash64(1, 2) == 17709254606964033710
    keys = {hash64(seed, epoch) for seed in range(-20, 20) for epoch in range(20)}
    assert len(keys) == 800
    assert all(0 <= key <= MASK for key in keys)
    assert hash64(2**200, 1) != hash64(2**200 + 1, 1)
    assert hash64(1, 23) != hash64(12, 3)


# --- what orders hold ---


def test_only_windows_hold_bytes() -> None:
    window = WindowOrder(RangeOrder(10**9), 1000, 1)
    assert window.held_bytes == 8000
    assert WindowOrder(RangeOrder(10), 1000, 1).held_bytes == 80
    assert WindowOrder(window, 50, 1).held_bytes == 8400
    assert TakeOrder(SkipOrder(ShardOrder(window, 2, 1), 3), 5).held_bytes == 8000
    assert RepeatOrder(lambda epoch: window, None, 0).held_bytes == 16000  # this iteration's, and the one at hand
    assert PermutationOrder(RangeOrder(10**12), 1).held_bytes == 0


def test_any_place_of_a_huge_permutation_is_there_at_once() -> None:
    order = TakeOrder(PermutationOrder(RangeOrder(10**15), 3), 10**14)
    out = listed(order.slice(10**14 - 5, 10**14 + 5))
    assert len(set(out)) == 5
    assert all(0 <= x < 10**15 for x in out)


@settings(derandomize=True, deadline=None)
@given(
    size=st.integers(1, 10),
    feeds=st.lists(st.integers(1, 8), max_size=6),
    draws=st.lists(st.integers(0, 5), max_size=9),
)
def test_a_window_shuffler_does_not_care_how_it_is_fed(size: int, feeds: list[int], draws: list[int]) -> None:
    shuffler, fed, out = WindowShuffler(size, 9), 0, []
    calls = [*draws, 1000]
    for i, count in enumerate(feeds):
        shuffler.feed(np.arange(fed, fed + count))
        fed += count
        out += shuffler.draw(calls[i % len(calls)]).tolist()
        assert sorted(out + shuffler.held().tolist()) == list(range(fed))
        assert shuffler.wanted(1) == max(0, size + 1 - len(shuffler.held()))
    shuffler.drain()
    assert shuffler.wanted(5) == 0
    while len(part := shuffler.draw(calls[0] or 3)):
        out += part.tolist()
    assert out == window_shuffled(list(range(fed)), size, 9)
    assert shuffler.drawn == fed
    assert shuffler.held_bytes == 8 * size


# --- elastic takes ---


def test_only_an_elastic_take_makes_room() -> None:
    assert TakeOrder(RangeOrder(10), 3, elastic=True).extended(2).length == 5
    assert TakeOrder(RangeOrder(4), 3, elastic=True).extended(2).length == 4
    assert TakeOrder(RangeOrder(10), 3).extended(2).length == 3
    assert RangeOrder(10).extended(2).length == 10
