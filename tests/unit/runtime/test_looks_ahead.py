"""To look at data, or whether there are more, is no step forward."""

from typing import Any

import penstock as ps

D = ps.Dataset


def test_whether_there_is_more_can_be_asked_without_a_step_forward() -> None:
    dataset = D.range(10).filter(lambda x: x % 2 == 0).batch(2)
    with dataset.run() as run:
        found = []
        while run.has_next():
            state = run.state_dict()
            assert run.has_next()
            assert run.state_dict() == state
            found.append(next(run).tolist())
            assert run.state_dict()["delivered"] == len(found)
        assert found == [[0, 2], [4, 6], [8]]
        assert not run.has_next()
        assert next(run, None) is None
    with dataset.run() as again:
        again.load_state_dict(state)
        assert [batch.tolist() for batch in again] == [[8]]


def test_a_run_that_was_opened_to_load_a_position_is_no_epoch_of_the_other_part() -> None:
    def parts() -> tuple[Any, Any, Any]:
        shuffled = D.range(16).shuffle(seed=1)
        return shuffled, shuffled.skip(4), shuffled.take(4)

    with parts()[1].run() as run:
        next(run)
        state = run.state_dict()
    shuffled, train, test = parts()
    next(iter(train))  # only a look at the data
    with train.run() as run:
        run.load_state_dict(state)
    assert (train.next_epoch, test.next_epoch) == (1, 0)
    assert shuffled.next_epoch == 1  # and of what is made from it now
