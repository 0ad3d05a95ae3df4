"""Positions of every operator whose input is a cache: before it was read, while it is filled, and from what it keeps.

A cache that nobody has read is at no place of any pass yet: whoever reads it must not take that for the end.
"""

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.testing import elements_of, same

pytestmark = pytest.mark.timeout(60)

D = ps.Dataset


@dataclasses.dataclass
class Inputs:
    """Datasets whose last operator is a cache, another one for each number, and a directory for what is kept."""

    make: Callable[[int, Path], Any]
    directory: Path

    def __post_init__(self) -> None:
        self.directory.mkdir(exist_ok=True)

    def __call__(self, number: int) -> Any:
        return self.make(number, self.directory)


def all_but_one(x: Any) -> Any:
    if x % 10 == 2:
        raise ArithmeticError(f"{x} is not wanted")
    return x


def windows(number: int, cached: Inputs) -> Any:
    return cached(0).group_by_window(lambda x: x % 2, lambda key, inside: inside.cache().map(lambda x: x + number), 2)


PIPELINES: dict[str, Callable[[Inputs], Any]] = {
    "assert_cardinality": lambda cached: cached(0).assert_cardinality(5),
    "batch": lambda cached: cached(0).batch(2),
    "bucket_by_sequence_length": lambda cached: cached(0).bucket_by_sequence_length(
        lambda x: x % 3, [1, 2], [2, 2, 2], pad_to_bucket_boundary=False
    ),
    "cache": lambda cached: cached(0).cache(),
    "choose_from_datasets": lambda cached: D.choose_from_datasets(
        [cached(0), D.range(20, 24), cached(1)], D.range(30).map(lambda i: i % 3), stop_on_empty_dataset=False
    ),
    "choose_from_datasets: by a cache": lambda cached: D.choose_from_datasets(
        [cached(0), D.range(20, 24)], cached(1).map(lambda x: x % 2)
    ),
    "concatenate": lambda cached: cached(0).concatenate(cached(1)).concatenate(D.range(2)),
    "distribute": lambda cached: cached(0).distribute(2, 1, remainder="pad"),
    "distribute: first": lambda cached: cached(0).distribute(2, 0, remainder="pad"),
    "enumerate": lambda cached: cached(0).enumerate(),
    "filter": lambda cached: cached(0).filter(lambda x: x % 2 == 0),
    "flat_map": lambda cached: cached(0).flat_map(lambda x: D.range(x % 3).cache()),
    "group_by_window": lambda cached: windows(1, cached),
    "ignore_errors": lambda cached: cached(0).map(all_but_one).ignore_errors(),
    "interleave": lambda cached: cached(0).interleave(lambda x: D.range(x % 4).cache(), cycle_length=3),
    "interleave: parallel": lambda cached: D.range(3).interleave(
        lambda x: cached(int(x)), cycle_length=2, num_parallel_calls=2
    ),
    "map": lambda cached: cached(0).map(lambda x: x + 1),
    "map: parallel": lambda cached: cached(0).map(lambda x: x + 1, num_parallel_calls=2),
    "map: stateful": lambda cached: cached(0).map(lambda x: x + 1, stateful=True),
    "padded_batch": lambda cached: cached(0).map(lambda x: np.ones(x % 3)).padded_batch(2),
    "prefetch": lambda cached: cached(0).prefetch(2),
    "ragged_batch": lambda cached: cached(0).map(lambda x: np.ones(x % 3)).ragged_batch(2),
    "random_map": lambda cached: cached(0).random_map(lambda x, rng: x + rng.integers(9), seed=3),
    "rebatch": lambda cached: cached(0).batch(3).cache().rebatch(2),
    "rejection_resample": lambda cached: cached(0).rejection_resample(lambda x: x % 2, [0.3, 0.7], seed=3),
    "repeat": lambda cached: cached(0).repeat(3),
    "sample_from_datasets": lambda cached: D.sample_from_datasets([D.range(20, 25), cached(0), cached(1)], seed=1),
    "sample_from_datasets: one of two": lambda cached: D.sample_from_datasets(
        [cached(0), cached(1)], [0.0001, 1.0], seed=1, stop_on_empty_dataset=True
    ),
    "scan": lambda cached: cached(0).scan(np.int64(0), lambda total, x: (total + x, total)),
    "shard": lambda cached: cached(0).shard(2, 1),
    "shuffle": lambda cached: cached(0).shuffle(3, seed=3),
    "skip": lambda cached: cached(0).skip(2),
    "snapshot": lambda cached: cached(0).snapshot(str(cached.directory / "snapshot")),
    "sparse_batch": lambda cached: cached(0).map(lambda x: np.ones(x % 3)).sparse_batch(2, [3]),
    "take": lambda cached: cached(0).take(4),
    "take_while": lambda cached: cached(0).take_while(lambda x: x < 4),
    "unbatch": lambda cached: cached(0).batch(2).cache().unbatch(),
    "unique": lambda cached: cached(0).map(lambda x: x // 2).unique(),
    "window": lambda cached: cached(0).window(2, shift=1).flat_map(lambda inside: inside.batch(2)),
    "zip": lambda cached: D.zip((cached(0), D.range(20, 24), cached(1))),
    "zip: of one": lambda cached: D.zip((cached(0), cached(0))),
}


def in_memory(number: int, directory: Path) -> Any:
    return D.range(10 * number, 10 * number + 5).map(lambda x: x).cache()


def with_failures(number: int, directory: Path) -> Any:
    return D.range(10 * number, 10 * number + 6).map(all_but_one).cache()


def in_a_file(number: int, directory: Path) -> Any:
    return D.range(10 * number, 10 * number + 5).map(lambda x: x).cache(directory / str(number))


def of_a_cache(number: int, directory: Path) -> Any:
    return in_memory(number, directory).map(lambda x: x).cache()


# They open an input when they come to it. Until then no position speaks of it, and what failed there is shown to the
# first who comes by, as a cache does.
OPENED_LATER = ("cache", "concatenate", "rebatch", "unbatch")
CASES = [
    pytest.param(name, made, id=f"{name}, {made.__name__}")
    for name in PIPELINES
    for made in (in_memory, with_failures, in_a_file, of_a_cache)
    if made is not with_failures or name not in OPENED_LATER
]


def steps(run: Any) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """The position before each element and at the end, with the element that comes then."""
    while True:
        state = run.state_dict()
        element = elements_of(run, 1)
        yield state, element
        if not element:
            return


@pytest.mark.parametrize("read_before", [0, 2, 99], ids=["fresh", "partly filled", "filled"])
@pytest.mark.parametrize(("name", "made"), CASES)
def test_a_position_gives_the_rest(
    name: str, made: Callable[[int, Path], Any], read_before: int, tmp_path: Path
) -> None:
    build = PIPELINES[name]
    dataset = build(Inputs(made, tmp_path / "whole"))
    with dataset.run() as run:
        elements_of(run, read_before)
    with dataset.run() as run:
        taken = list(steps(run))
    whole = [element for _, some in taken for element in some]
    for at, (state, _) in enumerate(taken):
        # As after a restart, where nothing is kept but what is in files; and in the same process, where by now all is.
        targets = [build(Inputs(made, tmp_path / "whole")), dataset]
        if name != "snapshot" or read_before < 99:  # which a position may be in
            targets.append(build(Inputs(made, tmp_path / str(at))))
        for target in targets:
            with target.run() as resumed:
                resumed.load_state_dict(state)
                rest = elements_of(resumed, 100)
            assert same(rest, whole[at:]), f"after {at}: {rest}, uninterrupted {whole[at:]}"


def test_an_input_that_was_not_read_when_the_budget_was_too_small_is_not_lost() -> None:
    dataset = D.choose_from_datasets(
        [D.range(50).map(lambda i: np.zeros(100)), D.range(50).map(lambda i: np.zeros(10_000)).cache()],
        D.range(100).map(lambda i: i % 2),
    )
    with dataset.run(memory=50_000) as run:
        next(run)
        with pytest.raises(ps.errors.ElementTooLarge):
            next(run)
        state = run.state_dict()
    with dataset.run(memory="10MB") as resumed:
        resumed.load_state_dict(state)
        assert len(list(resumed)) == 99


def test_every_operator_is_read_over_a_cache() -> None:
    source = inspect.getsource(ps.dataset)
    operators = set(re.findall(r"^    (\w+) = (?:method|combination|combination_method)\(", source, re.MULTILINE))
    assert operators == {name.split(":")[0] for name in PIPELINES}
