"""The budget that a refusal names: enough after two tries, less than twice what is needed; five where sizes grow."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import penstock as ps

D = ps.Dataset
DRAWN = np.random.default_rng(0).integers(0, 400, 4000)


def rows(count: int = 400, size: int = 100) -> Any:
    """Elements of which nothing is known but how many there are."""
    return D.range(count).map(lambda n: np.full(size, n), stateful=True)


def with_one_large(size: int = 50_000, count: int = 64) -> Any:
    def elements() -> Iterator[np.ndarray]:
        for i in range(count):
            yield np.full(size if i == count // 2 else 500, float(i))

    return D.from_generator(elements)


def grouped(data: Any, num_keys: int, window_size: int) -> Any:
    return data.group_by_window(lambda x: x.flat[0] % num_keys, lambda key, window: window.batch(4), window_size)


PROGRAMS: dict[str, Callable[[], Any]] = {
    "a key for each": lambda: grouped(rows(), 10_000, 2),
    "a key for each of an unknown number": lambda: grouped(rows().filter(lambda x: True), 10_000, 2),
    "some keys": lambda: grouped(rows(1000), 30, 20),
    "few keys": lambda: grouped(rows(1000), 3, 200),
    "numbers": lambda: grouped(D.range(300).map(lambda n: n * 2, stateful=True), 5000, 7),
    "buckets": lambda: rows(300).bucket_by_sequence_length(lambda x: x[0] % 40, [10, 20, 30], [16, 16, 16, 16]),
    "buckets, one large": lambda: with_one_large().bucket_by_sequence_length(len, [100], [8, 8]),
    "padded": lambda: rows().padded_batch(32),
    "padded, one large": lambda: with_one_large().padded_batch(16),
    "padded after a function, one large": lambda: with_one_large().map(lambda x: x + 1).padded_batch(16),
    "ragged, one large": lambda: with_one_large().ragged_batch(16),
    "ragged and made ready, one large": lambda: with_one_large().ragged_batch(4).prefetch(2),
    "one large alone in its bucket": lambda: with_one_large().bucket_by_sequence_length(len, [1000, 9000], [9, 8, 64]),
    "one large in windows": lambda: with_one_large().window(16).flat_map(lambda window: window),
    "one large in turn with others": lambda: with_one_large().interleave(lambda x: D.from_tensors(x).repeat(2), 4),
    "window": lambda: rows().window(100),
    "all distinct": lambda: rows().unique(),
    "few distinct": lambda: D.from_tensor_slices(DRAWN).map(lambda n: n * 2, stateful=True).unique(),
    "few distinct of an unknown number": lambda: D.from_tensor_slices(DRAWN).filter(lambda n: True).unique(),
    "few distinct, equal ones together": lambda: rows(4000, 1).map(lambda n: n // 10, stateful=True).unique(),
    "windows read one after the other": lambda: rows().window(100).flat_map(lambda window: window),
    "windows in batches": lambda: rows().window(100, shift=10).flat_map(lambda window: window.batch(100)),
    "one large": lambda: with_one_large().map(lambda x: x + 1),
}


# How many times what is needed may be named. Nobody knows that the only large element will stay alone in its bucket,
# nor that a function passes a window's elements on as they are.
AT_MOST = {"one large alone in its bucket": 6, "one large in windows": 2.5}


def refusal(dataset: Any, memory: int) -> int | None:
    """The budget that the error names; None where there is none."""
    with dataset.run(memory=memory, epoch=0) as run:
        try:
            for _ in run:
                pass
        except ps.errors.OverBudget as error:
            return int(str(error).split("use memory=")[1].split(" ")[0])
    return None


def smallest_that_works(dataset: Any) -> int:
    low, high = 1000, 64_000_000
    while high > 1.05 * low:
        middle = int((low * high) ** 0.5)
        if refusal_or_plan(dataset, middle) is None:
            high = middle
        else:
            low = middle
    return high


def refusal_or_plan(dataset: Any, memory: int) -> int | None:
    try:
        return refusal(dataset, memory)
    except ps.errors.BudgetTooSmall as error:
        return int(str(error).split("use memory=")[1].split(" ")[0])


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_number_that_is_named_works_at_the_second_try(name: str) -> None:
    dataset = PROGRAMS[name]()
    needed = smallest_that_works(dataset)
    for part in (0.9, 0.5, 0.4):
        memory = int(needed * part)
        named = []
        while (enough := refusal_or_plan(dataset, memory)) is not None and len(named) < 9:
            named.append(enough)
            memory = enough
        assert len(named) <= 2, (needed, int(needed * part), named)
        assert max(named, default=0) < AT_MOST.get(name, 2) * needed, (needed, int(needed * part), named)


def test_what_only_the_data_can_tell_is_said() -> None:
    numbers = D.range(4000).map(lambda n: n % 400, stateful=True).unique()
    with numbers.run(memory=20_000) as run, pytest.raises(ps.errors.OverBudget) as refused:
        for _ in run:
            pass
    # Nothing came twice by then: the number is for all of them being distinct, which they are not.
    assert re.search(r"use memory=\d+_\d+ or more \((\d+) of the \1 elements so far were distinct", str(refused.value))
    assert "each of which takes 108 B; what follows, only the data can tell" in str(refused.value)
    assert "this is for 4,000 distinct elements in all" in str(refused.value)


GROWING = [int(1000 * 1.1**i) for i in range(100)]
UNEVEN = np.exp(np.random.default_rng(0).normal(8, 1.5, 400)).astype(int).tolist()


def of_sizes(sizes: list[int]) -> Any:
    return D.from_generator(lambda: (np.zeros(size, np.uint8) for size in sizes))


@pytest.mark.parametrize("sizes", [GROWING, UNEVEN], ids=["growing", "uneven"])
@pytest.mark.parametrize(
    "program",
    [
        lambda data: data,
        lambda data: data.prefetch(4),
        lambda data: data.padded_batch(8),
        lambda data: data.scan(np.zeros(3, np.uint8), lambda state, x: (x, x)),
        lambda data: data.window(8).flat_map(lambda window: window),
        lambda data: data.group_by_window(lambda x: len(x) % 3, lambda key, window: window.padded_batch(5), 5),
    ],
    ids=["alone", "prefetch", "padded", "scan", "window", "grouped"],
)
def test_who_follows_the_numbers_gets_there_in_five_tries(sizes: list[int], program: Callable[[Any], Any]) -> None:
    """From what the first eight elements need, to a hundred times as much and more."""
    memory = program(of_sizes(sizes)).explain(sample=8).to_dict()["minimum_bytes"]
    named: list[int] = []
    dataset = program(of_sizes(sizes))
    while (enough := refusal_or_plan(dataset, memory)) is not None and len(named) < 9:
        named.append(enough)
        memory = enough
    assert len(named) <= 5, named


@pytest.mark.parametrize(("length", "part"), [(lambda n: n % 50 + 1, 0.24), (lambda n: n * 37 % 211 + 1, 0.1)])
def test_what_grows_for_a_while_is_not_taken_for_more_than_it_is(length: Callable[[int], int], part: float) -> None:
    """Elements grow at first, and then no more; a batch is padded to the largest, and counts as such already."""
    dataset = D.range(100).map(lambda n: np.full(length(int(n)), n)).padded_batch(20).map(np.ravel)
    needed = smallest_that_works(dataset)
    memory, named = int(needed * part), 0
    while (enough := refusal_or_plan(dataset, memory)) is not None:
        named = memory = enough
    assert named < 5 * needed, (needed, named)


def test_threads_that_read_datasets_may_each_be_making_a_large_element() -> None:
    """What is named has room for all of them: they met small ones first, and nobody counted on others."""

    def advised(num_parallel_calls: int | None) -> int:
        numbers = D.range(8).interleave(lambda x: D.range(4).map(lambda i: np.full(100, i)), 4, 1, num_parallel_calls)
        with numbers.run(memory=100_000) as run:
            next(run)
            (share,) = [share for share in run.ledger.shares if share.name == "interleave"]
            return run.ledger.advise(share, 1_000_000) or 0

    alone = advised(None)
    assert alone >= 1_000_000
    assert [advised(num) for num in (1, 4)] == [alone + 2 * num * 1_000_000 for num in (1, 4)]


def small(count: int = 30) -> Any:
    return D.from_generator(lambda: (np.full(500, float(i)) for i in range(count)))


# Rows of a large element are as small as those of others, and a source that was not read has not grown from nothing.
PASSED_ON: dict[str, Callable[[], Any]] = {
    "rows": lambda: with_one_large().unbatch().batch(1000),
    "rows of a function": lambda: with_one_large().unbatch().map(lambda x: x + 1).batch(64).prefetch(2),
    "rows of few bytes before": lambda: of_sizes([1] * 50 + [20_000] + [1] * 50).unbatch().map(lambda x: x).batch(64),
    "rows of two dimensions": lambda: (
        with_one_large().map(lambda x: x.reshape(-1, 20)).unbatch().batch(256).prefetch(2)
    ),
    "rows again": lambda: with_one_large().rebatch(700),
    "concatenate": lambda: small().concatenate(with_one_large()).map(lambda x: x + 1),
    "concatenate in threads": lambda: (
        small().concatenate(with_one_large()).map(lambda x: x + 1, num_parallel_calls=2).prefetch(2)
    ),
    "concatenate of larger ones": lambda: (
        small().concatenate(D.from_generator(larger)).map(lambda x: x + 1).prefetch(2)
    ),
    "one of two": lambda: D.choose_from_datasets(
        [small(), D.from_generator(larger)], D.range(40).map(lambda n: np.int64(n >= 20))
    ).map(lambda x: x + 1),
}


def larger() -> Iterator[np.ndarray]:
    return (np.full(25_000, float(i)) for i in range(20))


@pytest.mark.parametrize("name", PASSED_ON)
@pytest.mark.parametrize("part", [0.3, 0.8])
def test_what_one_large_element_becomes_is_not_taken_for_many_as_large(name: str, part: float) -> None:
    dataset = PASSED_ON[name]()
    needed = smallest_that_works(dataset)
    named, memory = [], int(needed * part)
    while (enough := refusal_or_plan(dataset, memory)) is not None and len(named) < 9:
        named.append(enough)
        memory = enough
    assert 1 <= len(named) <= 2, (needed, named)
    assert max(named) < 4 * needed, (needed, named)
