"""A budget that one dataset's sample has named is enough for an equal one that was not sampled, and in later epochs.

Without a sample stages learn what they need from the elements that come: what was set aside for others by then must not
be missed when a large one comes.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from tests.memory.test_budget_law import EPOCHS, built, consumed

pytestmark = [pytest.mark.timeout(120)]


@pytest.mark.parametrize(
    ("kind", "steps", "nested"),
    [
        ("lognormal", ["repeat", "window", "concatenate", "filter"], True),
        ("lognormal", ["window", "prefetch", "take"], True),
        ("lognormal", ["window", "interleave in threads"], True),
        ("one large", ["interleave in threads", "map", "prefetch"], True),
        ("one large", ["interleave in threads"], True),
        ("lognormal", ["rebatch", "flat_map", "interleave in threads"], False),
    ],
)
def test_the_minimum_of_a_sample_serves_who_was_not_sampled(kind: str, steps: list[str], nested: bool) -> None:
    expected, _ = consumed(built(kind, steps, nested), "fast")
    memory = built(kind, steps, nested).explain(sample=10_000).to_dict()["minimum_bytes"]
    with tempfile.TemporaryDirectory() as spill_dir:
        dataset = built(kind, steps, nested).with_options(ps.Options(spill_dir=spill_dir))
        found, run = consumed(dataset, "fast", memory)
    assert found == expected
    assert run.ledger.peak_bytes <= memory
    assert run.ledger.charged_bytes == 0


@pytest.mark.parametrize(
    "steps",
    [
        ["shuffle", "interleave", "interleave in threads", "random_map"],  # the large one is beyond the sample's last
        ["shuffle", "parallel map", "rebatch", "concatenate"],  # or in the branch of which more was read
    ],
)
def test_another_order_may_bring_what_a_sample_has_seen_further_up(steps: list[str]) -> None:
    plain, dataset = built("one large", steps, False), built("one large", steps, False)
    expected = [consumed(plain, "fast")[0] for _ in range(EPOCHS)]
    memory = dataset.explain(sample=10_000).to_dict()["minimum_bytes"]
    assert [consumed(dataset, "fast", memory)[0] for _ in range(EPOCHS)] == expected


AFTER_A_CACHE: dict[str, Callable[[Any], Any]] = {
    "window": lambda d: d.window(10, shift=5).flat_map(lambda window: window.batch(10)),
    "shuffle, window": lambda d: d.shuffle(10, seed=1).window(10, shift=5).flat_map(lambda window: window.batch(10)),
    "group_by_window": lambda d: d.group_by_window(lambda x: 0, lambda key, window: window.batch(4), window_size=4),
    "prefetch": lambda d: d.prefetch(10).batch(10),
}


@pytest.mark.parametrize("name", AFTER_A_CACHE)
@pytest.mark.parametrize("part", [1, 1.1, 1.2])
def test_what_a_cache_keeps_is_not_counted_twice(name: str, part: float) -> None:
    def made() -> Any:
        cached = ps.Dataset.range(100).map(lambda i: np.full(25_000, i)).cache()
        return AFTER_A_CACHE[name](cached)

    memory = int(part * made().explain(sample=10_000).to_dict()["minimum_bytes"])
    expected, _ = consumed(made(), "fast")
    found, run = consumed(made(), "fast", memory)
    assert found == expected
    assert run.ledger.peak_bytes <= memory


def lengths(seed: int) -> list[int]:
    return [int(n) for n in np.random.default_rng(seed).lognormal(6, 1.3, 40).clip(1, 50_000)]


def windows_in_turn() -> Any:
    def inner(i: Any) -> Any:
        made = ps.Dataset.range(21).map(lambda j: np.zeros(lengths(6)[j], np.float32))
        return made.window(2).flat_map(lambda window: window)

    return ps.Dataset.range(8).interleave(inner, cycle_length=4)


def shuffles_in_turn() -> Any:
    def inner(i: Any) -> Any:
        made = ps.Dataset.range(10).filter(lambda j: True).map(lambda j: np.zeros(10 + 4 * int(j) ** 3))
        return made.shuffle(5, seed=2)

    return ps.Dataset.range(8).interleave(inner, cycle_length=4).padded_batch(3)


@pytest.mark.parametrize("made", [windows_in_turn, shuffles_in_turn])
def test_inner_datasets_make_no_more_than_they_must(made: Callable[[], Any]) -> None:
    """Nothing is made at once, or reserved, on what larger elements of other datasets will need."""
    expected, _ = consumed(made(), "fast")
    sampled = made()
    memory = sampled.explain(sample=10_000).to_dict()["minimum_bytes"]
    for dataset in (sampled, made()):
        found, run = consumed(dataset, "fast", memory)
        assert found == expected
        assert run.ledger.peak_bytes <= memory
        assert run.ledger.charged_bytes == 0


def test_a_file_that_a_sample_has_written_can_be_read_with_the_minimum_it_named(tmp_path: Path) -> None:
    for seed in range(6):
        sizes = np.clip(np.random.default_rng(seed).lognormal(6, 1.3, 40), 1, 50_000).astype(int)

        def cached(sizes: np.ndarray = sizes, seed: int = seed) -> ps.Dataset:
            made = ps.Dataset.range(40).map(lambda i: np.zeros(sizes[i], np.float32))
            return made.cache(tmp_path / str(seed)).take(13)

        memory = (sampled := cached()).explain(sample=100).to_dict()["minimum_bytes"]
        for dataset in (sampled, cached()):
            assert [x.size for x in dataset.run(memory=memory, epoch=0)] == sizes[:13].tolist()
