"""A crew: every number once, no gaps, and threads that end."""

import threading

import pytest

import penstock as ps
from penstock.runtime.backends.crew import Crew
from penstock.runtime.meter import Meter

DEADLINE_S = 20.0
pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("no_thread_left")]


@pytest.mark.parametrize("parallel", [1, 2, 5, ps.AUTOTUNE])
def test_all_numbers_once(parallel: int) -> None:
    crew = Crew(parallel, Meter("map"))
    for count in (1, 2, 3, 100, 1):
        seen: list[int] = []
        assert crew.each(lambda i, seen=seen: not seen.append(i), count) == count
        assert sorted(seen) == list(range(count))
    crew.stop()


def test_as_many_at_a_time_as_were_asked_for() -> None:
    crew = Crew(3, Meter("map"))
    together = threading.Barrier(3)
    assert crew.each(lambda i: together.wait(DEADLINE_S) >= 0, 6) == 6
    crew.stop()


def test_no_ends_it_and_what_is_made_has_no_gaps() -> None:
    crew = Crew(3, Meter("map"))
    seen: list[int] = []
    count = crew.each(lambda i: not seen.append(i) and i != 7, 100)
    assert count >= 8
    assert sorted(seen) == list(range(count))
    assert crew.each(lambda i: True, 5) == 5
    crew.stop()


def test_what_a_call_raises_comes_out_once_all_have_ended() -> None:
    crew = Crew(2, Meter("map"))
    begun, raised = threading.Event(), threading.Event()
    done: list[int] = []

    def make(i: int) -> bool:
        if i == 0:
            assert raised.wait(DEADLINE_S)
            done.append(i)
            return True
        raised.set()
        raise KeyError(begun)

    with pytest.raises(KeyError):
        crew.each(make, 2)
    assert done == [0]
    crew.stop()


def test_stopped_in_the_midst_it_makes_no_more() -> None:
    crew = Crew(2, Meter("map"))
    inside, stopping = threading.Event(), threading.Event()
    seen: list[int] = []
    raised: list[BaseException] = []

    def make(i: int) -> bool:
        seen.append(i)
        inside.set()
        return stopping.wait(DEADLINE_S)

    def work() -> None:
        try:
            crew.each(make, 1000)
        except RuntimeError as error:
            raised.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    assert inside.wait(DEADLINE_S)
    stopper = threading.Thread(target=crew.stop)
    stopper.start()
    while not crew.threads.stopped:
        pass
    stopping.set()
    stopper.join(DEADLINE_S)
    worker.join(DEADLINE_S)
    assert len(seen) <= 4
    assert len(raised) == 1
    with pytest.raises(RuntimeError, match="closed"):
        crew.each(lambda i: True, 1)
