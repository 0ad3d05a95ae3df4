"""Numbers far beyond what there is: they mean what they say, or are refused by name."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from tests.threads import our_threads

D: Any = ps.Dataset
HUGE = (2**31, 2**63, 10**25)
COUNT = 20


def flat(windows: Any) -> Any:
    return windows.flat_map(lambda window: window)


ALL = list(range(COUNT))
WORKS: dict[str, tuple[Callable[[int], Any], list[Any]]] = {
    "take": (lambda n: D.range(COUNT).take(n), ALL),
    "skip": (lambda n: D.range(COUNT).skip(n), []),
    "repeat": (lambda n: D.range(2).repeat(n).take(3), [0, 1, 0]),
    "batch": (lambda n: D.range(COUNT).batch(n), [ALL]),
    "padded_batch": (lambda n: D.range(COUNT).padded_batch(n), [ALL]),
    "rebatch": (lambda n: D.range(COUNT).batch(3).rebatch(n), [ALL]),
    "rebatch in turn": (lambda n: D.range(COUNT).batch(3).rebatch([n, 2]), [ALL]),
    "window": (lambda n: flat(D.range(COUNT).window(n)), ALL),
    "window shift": (lambda n: flat(D.range(COUNT).window(3, n)), [0, 1, 2]),
    "window stride": (lambda n: flat(D.range(COUNT).window(3, 1, n)), ALL),
    "window drop_remainder": (lambda n: flat(D.range(COUNT).window(n, drop_remainder=True)), []),
    "prefetch": (lambda n: D.range(COUNT).prefetch(n), ALL),
    "interleave": (lambda n: D.range(3).interleave(lambda i: D.range(2), cycle_length=n), [0, 0, 0, 1, 1, 1]),
    "map": (lambda n: D.range(COUNT).map(lambda x: x, num_parallel_calls=n), ALL),
    "random_map": (lambda n: D.range(COUNT).random_map(lambda x, g: x, num_parallel_calls=n), ALL),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("n", HUGE)
@pytest.mark.parametrize("name", WORKS)
def test_what_is_more_than_there_is_means_all_of_it(name: str, n: int) -> None:
    made, expected = WORKS[name]
    assert [np.asarray(x).tolist() for x in made(n)] == expected


@pytest.mark.parametrize("n", HUGE[1:])
def test_more_shards_than_places_can_be_told_apart_are_refused(n: int) -> None:
    with pytest.raises(ValueError, match=f"shard at .*: num_shards: expected at most 4294967296, got {n}"):
        D.range(3).repeat().shard(n, 0)


def test_as_many_shards_as_are_taken_work_without_end() -> None:
    assert [int(x) for x in D.range(3).repeat().shard(2**32, 1).take(3)] == [1, 2, 0]


@pytest.mark.timeout(60)
def test_no_more_threads_are_started_than_there_are_elements_or_may_be() -> None:
    def threads(dataset: Any) -> int:
        with dataset.run() as run:
            next(run)
            return len(our_threads())

    assert threads(D.range(5).map(lambda x: x, num_parallel_calls=10**9)) <= 5
    stream = D.from_generator(lambda: itertools.count(), ps.TensorSpec((), np.int64))
    assert threads(stream.map(lambda x: x, num_parallel_calls=10**9)) <= 1024
    assert our_threads() == []


def test_windows_of_more_than_there_is_are_those_of_the_plain_meaning() -> None:
    def plain(count: int, size: int, shift: int, stride: int, drop: bool) -> list[list[int]]:
        windows = [list(range(i, min(count, i + (size - 1) * stride + 1), stride)) for i in range(0, count, shift)]
        return [window for window in windows if len(window) == size or not drop]

    for arguments in itertools.product([0, 1, 5], [1, 2, 6, 100], [1, 2, 6, 10**25], [1, 2, 6, 10**25], [False, True]):
        count, *rest = arguments
        dataset = D.range(count).window(*rest)
        assert [[int(x) for x in window] for window in dataset] == plain(*arguments), arguments
        assert dataset.cardinality() == len(plain(*arguments))
