"""A shuffle of a whole stream needs all of it before the first draw: it asks for many at a time, not for each alone."""

from typing import Any

import pytest

import penstock as ps
from penstock.io import generator
from penstock.ops.draws import Draws


@pytest.mark.parametrize("count", [1, 5_000])
@pytest.mark.parametrize("demand", ["one by one", "batches"])
def test_a_whole_stream_is_read_in_blocks(count: int, demand: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    pull = generator._GeneratorCursor.pull

    def noted(self: Any, n: int) -> Any:
        block = pull(self, n)
        sizes.append(0 if block is None else block.size)
        return block

    monkeypatch.setattr(generator._GeneratorCursor, "pull", noted)
    dataset = ps.Dataset.from_generator(lambda: iter(range(count))).shuffle(None, seed=1)
    found = list(dataset) if demand == "one by one" else [x for batch in dataset.batch(7) for x in batch]
    assert sorted(map(int, found)) == list(range(count))
    assert sum(sizes) == count
    # One to learn its size, blocks that grow with what is known of sizes, and one that is empty.
    assert len(sizes) <= 2 + count // 100


def test_nothing_is_wanted_once_the_end_is_known() -> None:
    draws = Draws(None, 7, most_ahead=64)
    assert draws.wanted(1, 0) > 1
    draws.end(3)
    assert draws.wanted(1, 3) == 0
