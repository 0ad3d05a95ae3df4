"""How many distinct elements are expected, judged by those that came so far."""

import numpy as np
import pytest

from penstock.ops.richness import Richness

RNG = np.random.default_rng(3)
NUM = 20_000
DRAWN = RNG.integers(0, 2000, NUM)

STREAMS = {
    "drawn": DRAWN,
    "equal ones together": np.sort(DRAWN),
    "some frequent, many rare": RNG.zipf(1.6, NUM),
    "all distinct": np.arange(NUM),
    "all the same": np.zeros(NUM, int),
}


def expected_after(stream: np.ndarray, num_read: int, step: int, num_elements: int) -> int | None:
    richness, seen = Richness(num_elements), set()
    for start in range(0, num_read, step):
        seen.update(stream[start : start + step].tolist())
        richness.note(start + step, len(seen))
    return richness.expected()


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("step", [1, 16, 100])
def test_it_is_about_right_from_early_on(name: str, step: int) -> None:
    stream = STREAMS[name]
    actual = len(set(stream.tolist()))
    for num_read in (400, 1600, 8000):
        expected = expected_after(stream, num_read, step, NUM)
        assert expected is not None
        assert 0.6 * actual <= expected <= 2 * actual, (num_read, actual, expected)


def test_of_an_unknown_number_only_kinds_can_be_told() -> None:
    expected = expected_after(DRAWN, 1600, 16, -1)
    assert expected is not None
    assert 1500 <= expected <= 4000
    assert expected_after(np.sort(DRAWN), 1600, 16, -1) is None
    assert expected_after(np.arange(NUM), 1600, 16, -1) is None


def test_without_a_repeat_all_may_be_distinct() -> None:
    assert expected_after(np.arange(NUM), 400, 16, NUM) == NUM
