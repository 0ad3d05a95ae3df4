"""Elements larger than anybody could know: the error names a budget, and a run with it goes on where it was."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import penstock as ps

D = ps.Dataset
LARGE_AT = 9


def elements() -> Iterator[np.ndarray]:
    for i in range(15):
        yield np.full(100_000 if i == LARGE_AT else 1000, float(i))


PIPELINES: dict[str, Callable[[], Any]] = {
    "from_generator": lambda: D.from_generator(elements),
    "map": lambda: D.range(15).map(lambda i: np.full(100_000 if i == LARGE_AT else 1000, float(i))),
    "map in threads": lambda: D.from_generator(elements).map(lambda x: x + 1, num_parallel_calls=4),
    "prefetch": lambda: D.from_generator(elements).prefetch(3),
    "padded_batch": lambda: D.from_generator(elements).padded_batch(2),
    "shuffle": lambda: D.from_generator(elements).shuffle(3, seed=1),
    "cache": lambda: D.from_generator(elements).cache(),
    "window": lambda: D.from_generator(elements).window(2).flat_map(lambda window: window),
    "interleave": lambda: D.from_generator(elements).interleave(lambda x: D.from_tensors(x).repeat(2), cycle_length=2),
    "flat_map": lambda: D.from_generator(elements).flat_map(D.from_tensors),
    "maps of a number and an element": lambda: D.from_generator(elements).enumerate().map(lambda i, x: x.repeat(3)),
    "scan": lambda: D.from_generator(elements).scan(0.0, lambda state, x: (x[0], x.repeat(2))),
    "filter, map, prefetch": lambda: (
        D.from_generator(elements).filter(lambda x: x[0] != 1).map(lambda x: x.astype(complex)).prefetch(3)
    ),
    "map in threads, of more": lambda: D.from_generator(elements).map(lambda x: x.repeat(2), num_parallel_calls=2),
    "windows padded": lambda: D.from_generator(elements).window(2).flat_map(lambda window: window.padded_batch(2)),
    "concatenate, padded": lambda: D.from_generator(elements).concatenate(D.from_generator(elements)).padded_batch(2),
    "rows of batches": lambda: D.from_generator(elements).map(lambda x: x.reshape(-1, 100)).rebatch(20),
    "zip": lambda: D.zip(D.from_generator(elements), D.from_generator(elements)).map(np.add),
    "sample": lambda: D.sample_from_datasets([D.from_generator(elements), D.from_generator(elements)], seed=3),
    "maps of batches": lambda: (
        D.from_generator(elements).padded_batch(2).map(lambda x: x * 2).map(lambda x: x.repeat(2))
    ),
}


def until_refused(run: Any, found: list[bytes]) -> str:
    """The elements up to the error, and its text."""
    try:
        for x in run:
            found.append(x.tobytes())
    except ps.errors.OverBudget as error:
        return str(error)
    raise AssertionError("it was not refused")


@pytest.mark.parametrize("name", PIPELINES)
def test_the_number_that_the_error_names_is_enough_for_the_rest(name: str) -> None:
    expected = [x.tobytes() for x in PIPELINES[name]()]
    dataset = PIPELINES[name]()
    memory = 400_000
    found: list[bytes] = []
    run = dataset.run(memory=memory)
    text = until_refused(run, found)
    state = run.state_dict()
    assert 0 < len(found) < len(expected)
    named = int(text.split("use memory=")[1].split(" ")[0])
    with dataset.run(memory=named) as run:
        run.load_state_dict(state)
        found += [x.tobytes() for x in run]
    assert found == expected
    assert run.ledger.charged_bytes == 0


@pytest.mark.parametrize(
    "pipeline",
    [
        lambda data: data.map(lambda x: np.repeat(x, 4), num_parallel_calls=2),
        lambda data: data.window(4).flat_map(lambda window: window.padded_batch(4)),
        lambda data: data.group_by_window(lambda x: x[0] % 3, lambda key, group: group.padded_batch(5), 5),
    ],
    ids=["threads", "windows", "groups"],
)
def test_what_becomes_of_an_element_that_came_is_in_the_number(pipeline: Callable[[Any], Any]) -> None:
    """There was room for it in the stages below, and the one that is refused has not made anything of it yet."""

    def growing_once() -> Iterator[np.ndarray]:
        for i in range(60):
            yield np.full(20_000 if i == 58 else 2000, i, np.uint8)

    memory = 2 * pipeline(D.from_generator(growing_once)).explain(sample=8).to_dict()["minimum_bytes"]
    text = until_refused(pipeline(D.from_generator(growing_once)).run(memory=memory), [])
    named = int(text.split("use memory=")[1].split(" ")[0])
    assert memory < named < 12 * memory
    with pipeline(D.from_generator(growing_once)).run(memory=named) as run:
        for _ in run:
            pass


def test_one_element_is_told_from_too_many() -> None:
    with pytest.raises(ps.errors.ElementTooLarge, match=r"asked for 790 kB more .* use memory=\S+ or more"):
        list(PIPELINES["from_generator"]().run(memory=400_000))


@pytest.mark.timeout(60)
def test_a_ragged_batch_that_is_made_ready_counts_once() -> None:
    """Its values lie in a slot, which is on the ledger already when a thread hands it over."""

    def one_large() -> Iterator[np.ndarray]:
        for i in range(40):
            yield np.full(100_000 if i == 21 else 100, float(i))

    # One on its way, which may be followed by one a quarter larger; one in the batch to be made; the batch.
    memory = int(3.5 * 800_000)
    for _ in range(3):
        batches = D.from_generator(one_large).ragged_batch(4).prefetch(2)
        assert sum(len(batch) for batch in batches.run(memory=memory)) == 40


@pytest.mark.parametrize("memory, error, text", [
    ("12 bananas", ps.errors.BadArgument, "cannot read '12 bananas'"),
    (0, ps.errors.BadArgument, "more than 0 bytes, got 0"),
    (-1, ps.errors.BadArgument, "more than 0 bytes, got -1"),
    (1.5, ps.errors.BadArgument, r"a fraction must be in \(0, 1\], got 1.5"),
    (float("nan"), ps.errors.BadArgument, "a fraction must be in"),
    (True, ps.errors.BadType, "expected a number or text, got bool"),
    (10**15, ps.errors.BadArgument, "1000000000000000 is more than the [0-9,]+ bytes that this process may use"),
])  # fmt: skip
def test_budgets_that_make_no_sense_are_refused(memory: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"memory: .*{text}"):
        D.range(3).run(memory=memory)


def test_a_place_to_spill_to_that_nobody_can_write_to_is_refused() -> None:
    with pytest.raises(ps.errors.BadArgument, match="spill_dir: /proc/self cannot be written to"):
        D.range(3).with_options(ps.Options(spill_dir="/proc/self")).run()
