"""A run that was interrupted, as by Ctrl-C, has lost nothing and goes on."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import penstock as ps
from tests.threads import our_threads

D = ps.Dataset
pytestmark = pytest.mark.timeout(60)


INTERRUPTED: dict[str, Callable[[D, Callable[[Any], Any]], D]] = {
    "map": lambda source, stop: source.map(stop),
    "threads": lambda source, stop: source.map(stop, num_parallel_calls=2).prefetch(2),
    "batch": lambda source, stop: source.map(stop).batch(3),
    "filter": lambda source, stop: source.filter(stop).shuffle(8, seed=1).batch(2),
    "cache": lambda source, stop: source.map(stop).cache().batch(2),
}


@pytest.mark.parametrize("name", INTERRUPTED)
def test_a_run_that_was_interrupted_goes_on_with_the_same_element(name: str) -> None:
    interrupts = [5, 5, 17]  # twice at the same element

    def stop(x: Any) -> Any:
        if interrupts and x == interrupts[0]:
            del interrupts[0]
            raise KeyboardInterrupt
        return name == "filter" or x

    dataset = INTERRUPTED[name](D.range(20), stop)
    undisturbed = INTERRUPTED[name](D.range(20), lambda x: name == "filter" or x)
    expected = [np.ravel(x).tolist() for x in undisturbed.run(epoch=0)]
    seen: list[list[int]] = []
    num_interrupts = 0
    with dataset.run(epoch=0) as run:
        while True:
            try:
                seen.append(np.ravel(next(run)).tolist())
            except KeyboardInterrupt:
                num_interrupts += 1
                assert run.state_dict()["delivered"] == len(seen)
            except StopIteration:
                break
    assert seen == expected
    assert num_interrupts == 3
    assert run.ledger.charged_bytes == 0
    assert not our_threads()


def test_an_interrupt_on_the_way_to_a_position_does_not_change_it() -> None:
    interrupts: list[int] = []

    def generate() -> Iterator[int]:
        for i in range(10):
            if i in interrupts:
                interrupts.remove(i)
                raise KeyboardInterrupt
            yield i

    dataset = D.from_generator(generate)
    with dataset.run() as run:
        first = [int(next(run)) for _ in range(6)]
        state = run.state_dict()
    with dataset.run() as again:
        interrupts[:] = [3]
        with pytest.raises(KeyboardInterrupt):
            again.load_state_dict(state)
        assert again.state_dict()["position"] == state["position"]
        assert first + [int(x) for x in again] == list(range(10))
