"""distribute: equal parts for several processes, and positions for another number of them."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import StateError
from penstock.testing import check_op

D = ps.Dataset


def parts(dataset: Any, num_parts: int, remainder: str = "drop") -> list[Any]:
    return [dataset.distribute(num_parts, i, remainder) for i in range(num_parts)]


def streamed(dataset: Any) -> Any:
    return dataset.filter(lambda x: True)


SOURCES = {
    "in order": lambda n: D.range(n),
    "shuffled": lambda n: D.range(n).shuffle(seed=3),
    "shuffled in a window": lambda n: D.range(n).shuffle(5, seed=3),
    "stream": lambda n: streamed(D.range(n)),
}


@given(
    length=st.integers(0, 60),
    num_parts=st.integers(1, 5),
    remainder=st.sampled_from(["drop", "pad", "keep"]),
    size=st.integers(1, 9),
    drop=st.booleans(),
    source=st.sampled_from(sorted(SOURCES)),
)
def test_all_get_equally_many_batches_and_nobody_an_element_of_another(
    length: int, num_parts: int, remainder: str, size: int, drop: bool, source: str
) -> None:
    made = [
        [
            part.batch(size, drop).run(epoch=0, optimize=optimize)
            for part in parts(SOURCES[source](length), num_parts, remainder)
        ]
        for optimize in (True, False)
    ]
    found, plain = [[[batch.tolist() for batch in run] for run in runs] for runs in made]
    assert found == plain
    assert len({len(batches) for batches in found}) == 1 or remainder == "keep"
    given = [x for batches in found for batch in batches for x in batch]
    if remainder == "keep":
        assert drop or sorted(given) == list(range(length))
    elif remainder == "drop":
        assert len(set(given)) == len(given)
        left_out = length - len(given)
        assert left_out < (num_parts * size if drop else num_parts)
        if not drop and source != "stream" and length % (num_parts * size) not in range(1, num_parts):
            assert left_out == 0
    elif not drop:
        assert set(given) == set(range(length))
        assert len(given) < length + num_parts


def test_101_elements_for_two_in_batches_of_8() -> None:
    first, second = ([len(batch) for batch in part.batch(8)] for part in parts(D.range(101), 2))
    assert (first, second) == ([8] * 6 + [3], [8] * 6 + [2])


def test_the_number_of_batches_is_known_beforehand() -> None:
    for length in range(30):
        for part in parts(D.range(length), 3):
            assert len(part.batch(4)) == len(list(part.batch(4)))
    assert D.range(5).repeat().distribute(2, 1).cardinality() == ps.INFINITE
    assert streamed(D.range(5)).distribute(2, 1).cardinality() == ps.UNKNOWN


@pytest.mark.parametrize("remainder", ["drop", "pad", "keep"])
@pytest.mark.parametrize("source", sorted(SOURCES))
def test_the_laws(source: str, remainder: str) -> None:
    for length in (0, 1, 2, 11):
        for part in parts(SOURCES[source](length), 3, remainder):
            check_op(part)
            check_op(part.map(lambda x: x * 2).batch(2).prefetch(1))
    check_op(SOURCES[source](7).distribute(2, 1, remainder).repeat(2))
    check_op(SOURCES[source](7).random_map(lambda x, rng: x + rng.random(), seed=1).distribute(2, 1, remainder))


def test_functions_run_only_on_own_elements() -> None:
    seen: list[int] = []
    dataset = D.range(10).map(lambda x: seen.append(int(x)) or x).distribute(2, 1)
    assert [int(x) for x in dataset] == seen == [1, 3, 5, 7, 9]


def test_a_batch_further_on_counts_only_if_every_element_goes_into_it() -> None:
    # Where batches are taken apart again, each gets as many elements as the others.
    part = D.range(9).distribute(2, 0)
    assert [int(x) for x in part.batch(3).unbatch()] == [0, 2, 4, 6]
    assert [batch.tolist() for batch in part.shuffle(1).map(lambda x: x).prefetch(2).batch(3)] == [[0, 2, 4], [6, 8]]


IN_ROWS = {
    "rebatch": lambda part: part.batch(8).rebatch(3),
    "rebatch in turn": lambda part: part.batch(8).rebatch([3, 2]),
    "rebatch, dropping": lambda part: part.batch(8).rebatch(3, True),
    "rebatch twice": lambda part: part.batch(8).rebatch(5).rebatch(2),
    "unbatch": lambda part: part.batch(8).unbatch().batch(3),
    "unbatch twice": lambda part: part.batch(4).batch(2).unbatch().unbatch().batch(3),
    "map": lambda part: part.batch(8).map(lambda x: x + 1).prefetch(1).unbatch().window(3),
    "rows of each element": lambda part: part.map(lambda x: np.full(4, x)).batch(2, True).rebatch(3),
    "some": lambda part: part.batch(8).skip(1).take(3).rebatch(3),
}


@pytest.mark.parametrize("remainder", ["drop", "pad"])
@pytest.mark.parametrize("above", sorted(IN_ROWS))
def test_all_get_equally_many_where_batches_are_taken_apart(above: str, remainder: str) -> None:
    for length, num_parts in ((101, 3), (7, 2), (33, 4), (96, 3)):
        for source in ("in order", "stream"):
            made = [IN_ROWS[above](part) for part in parts(SOURCES[source](length), num_parts, remainder)]
            assert len({len(list(dataset.run(epoch=0))) for dataset in made}) == 1


UNEVEN = {
    "filter": lambda part: part.filter(lambda x: x % 3 > 0).batch(8),
    "unique": lambda part: part.unique().shuffle(4, seed=1).batch(8),
    "take_while": lambda part: part.take_while(lambda x: x < 50).take(3),
    "flat_map": lambda part: part.flat_map(lambda x: D.range(int(x))),
    "interleave": lambda part: part.interleave(lambda x: D.range(int(x))).batch(2).repeat(2),
    "ignore_errors": lambda part: part.map(lambda x: 1 // x).ignore_errors(),
    "group_by_window": lambda part: part.group_by_window(lambda x: x % 2, lambda key, d: d.batch(3), 3),
    "unbatch": lambda part: part.map(lambda x: np.arange(x)).unbatch(),
    "rebatch": lambda part: part.map(lambda x: np.arange(x)).batch(1).map(lambda x: x[0]).unbatch().rebatch(2),
    "sample_from_datasets": lambda part: D.sample_from_datasets([part, D.range(5)], seed=1),
}


@pytest.mark.parametrize("name", sorted(UNEVEN))
def test_what_gives_a_number_that_nobody_can_know_is_refused_behind_it(name: str) -> None:
    for source in ("in order", "stream"):
        dataset = UNEVEN[name](SOURCES[source](101).distribute(3, 1))
        with pytest.raises(ps.errors.PlanError, match=f"{name} at test_distribute.py:.*Put {name} before distribute"):
            iter(dataset)
        # One process waits for nobody; and who says so gets what there is.
        list(UNEVEN[name](SOURCES[source](8).distribute(1, 0)).ignore_errors())
        list(UNEVEN[name](SOURCES[source](8).distribute(3, 1, "keep")).ignore_errors())


def test_rows_of_batches_that_were_divided_are_not_known() -> None:
    with pytest.raises(ps.errors.PlanError, match="rebatch at"):
        iter(D.range(101).batch(8).distribute(3, 1).rebatch(3))
    fixed = [D.range(101).batch(8, drop_remainder=True).distribute(3, i).rebatch(3) for i in range(3)]
    assert [len(list(part)) for part in fixed] == [11, 11, 11]


def test_without_an_end_or_with_a_stated_number_all_get_equally_many() -> None:
    for make in (
        lambda part: part.filter(lambda x: x % 2 > 0).repeat().batch(8).take(5),
        lambda part: part.filter(lambda x: x < 30).assert_cardinality(10).batch(3),
    ):
        assert len({len(list(make(part))) for part in parts(D.range(99), 3)}) == 1
    endless = [D.range(99).repeat().distribute(2, i).filter(lambda x: x % 2 > 0).batch(8).take(5) for i in range(2)]
    assert [len(list(dataset)) for dataset in endless] == [5, 5]
    with pytest.raises(ps.errors.PlanError, match="take_while at"):
        iter(D.counter().distribute(2, 0).take_while(lambda x: x < 9))


SEEDLESS = {
    "shuffle": lambda: D.range(100).shuffle(),
    "shuffle in a window": lambda: D.range(100).shuffle(20).map(lambda x: x),
    "two": lambda: D.range(100).shuffle().filter(lambda x: True).shuffle(9),
    "sample": lambda: D.sample_from_datasets([D.range(50), D.range(50, 100)]),
    "nested": lambda: D.range(10).interleave(lambda i: D.range(i * 10, i * 10 + 10).shuffle(), cycle_length=3),
}


@pytest.mark.parametrize("source", sorted(SEEDLESS))
def test_seeds_that_nobody_chose_are_the_same_for_all(source: str) -> None:
    # Each process makes its own dataset, and draws its own seeds.
    for epoch in range(2):
        made = [SEEDLESS[source]().distribute(2, i).run(epoch=epoch) for i in range(2)]
        assert sorted(int(x) for run in made for x in run) == list(range(100))
    orders = [[int(x) for x in SEEDLESS[source]().distribute(2, 0).run(epoch=epoch)] for epoch in range(2)]
    assert orders[0] != orders[1] or source == "sample"  # which gives the same again, unless told otherwise
    alone = [[int(x) for x in D.range(100).shuffle().distribute(1, 0)] for _ in range(2)]
    assert alone[0] != alone[1]


def test_parts_of_one_shuffled_dataset_have_one_order_though_nobody_chose_a_seed() -> None:
    def elements(make: Any, epoch: int) -> list[int]:
        return [int(x) for i in range(2) for x in make(D.range(100).shuffle()).distribute(2, i).run(epoch=epoch)]

    for epoch in range(2):
        training = elements(lambda shuffled: shuffled.skip(20).map(lambda x: x), epoch)
        validation = elements(lambda shuffled: shuffled.take(20), epoch)
        assert sorted(training + validation) == list(range(100))


def test_shuffles_that_are_alike_have_orders_of_their_own() -> None:
    def pairs() -> list[tuple[int, int]]:
        made = [D.zip((D.range(50).shuffle(), D.range(50).shuffle())).distribute(2, i) for i in range(2)]
        return [(int(a), int(b)) for part in made for a, b in part.run(epoch=0)]

    first, second = zip(*pairs(), strict=True)
    assert pairs() == [*zip(first, second, strict=True)]
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
    same = D.range(50).shuffle()
    assert all(a == b for a, b in D.zip((same, same)).distribute(2, 0))


def delivered(runs: list[Any], steps: int) -> list[int]:
    return [int(x) for run in runs for _ in range(steps) for x in next(run)]


@pytest.mark.parametrize("source", sorted(SOURCES))
@pytest.mark.parametrize("before, after", [(2, 3), (3, 2), (1, 4), (4, 1), (2, 5)])
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_another_number_of_processes_goes_on_where_these_stopped(
    source: str, before: int, after: int, steps: int
) -> None:
    dataset = SOURCES[source](120)

    def open_part(i: int, num_parts: int) -> Any:
        return dataset.distribute(num_parts, i).map(lambda x: x).batch(8).prefetch(1).run(epoch=4)

    runs = [open_part(i, before) for i in range(before)]
    had = delivered(runs, steps)
    state = json.loads(json.dumps(runs[0].state_dict()))
    resumed = [open_part(i, after) for i in range(after)]
    for run in resumed:
        run.load_state_dict(state)
    had += delivered(resumed, 1)
    # Once more, by as many: from positions of their own, or of one of them.
    states = [run.state_dict() for run in resumed]
    again = [open_part(i, after) for i in range(after)]
    for i, run in enumerate(again):
        run.load_state_dict(states[i] if i % 2 else states[0])
    rests = [[int(x) for batch in run for x in batch] for run in again]
    had += [x for rest in rests for x in rest]
    assert len({-(-len(rest) // 8) for rest in rests}) == 1
    left_out = set(range(120)) - set(had)
    assert len(had) == len(set(had))
    assert len(left_out) < (after if source == "stream" else 1)


def test_two_processes_and_then_three_have_each_of_101_elements_once() -> None:
    dataset = D.range(101).shuffle(seed=5)
    runs = [dataset.distribute(2, i).batch(8).run(epoch=0) for i in range(2)]
    had = delivered(runs, 3)
    resumed = [dataset.distribute(3, i).batch(8).run() for i in range(3)]
    for run in resumed:
        run.load_state_dict(runs[1].state_dict())
    rests = [[batch.tolist() for batch in run] for run in resumed]
    assert [len(rest) for rest in rests] == [3, 3, 3]
    assert sorted(had + [x for rest in rests for batch in rest for x in batch]) == list(range(101))


def test_an_epoch_that_has_ended_is_over_for_any_number_of_processes() -> None:
    run = D.range(113).distribute(2, 0).batch(8).run()
    assert sum(len(batch) for batch in run) == 56  # one element is left, which cannot be given to both
    alone = D.range(113).distribute(1, 0).batch(8).run()
    alone.load_state_dict(run.state_dict())
    assert list(alone) == []


def test_where_nobody_can_tell_what_each_had_it_is_refused() -> None:
    def refused(make: Any, why: str, steps: int = 1) -> None:
        run = make(2)
        for _ in range(steps):
            try:
                next(run)
            except ZeroDivisionError:
                pass
        other = make(3)
        with pytest.raises(StateError, match=why):
            other.load_state_dict(run.state_dict())

    why = "is of 2 processes, and this is one of 3: "
    filtered = lambda n: D.range(50).distribute(n, 0, "keep").filter(lambda x: True)  # noqa: E731
    refused(lambda n: filtered(n).run(), why + "filter.* at test_distribute.py")
    refused(lambda n: D.range(50).distribute(n, 0).shuffle(9, seed=1).run(), why + "shuffle")
    refused(lambda n: D.range(50).distribute(n, 0).map(lambda x: 1 // int(x)).run(), why + "elements have failed")
    refused(lambda n: D.range(50).distribute(n, 0).distribute(n, 0).run(), why + "to go on with another number")


def test_what_is_refused() -> None:
    for arguments, why in (
        ((0, 0), "num_shards: expected at least 1, got 0"),
        ((2, 2), "index: expected less than num_shards = 2, got 2"),
        ((2, -1), "index: expected at least 0, got -1"),
        ((2, 0, "all"), "remainder: expected one of drop, pad, keep, got 'all'"),
        ((2, 0, "repeat"), "remainder: expected one of drop, pad, keep, got 'repeat'; put repeat"),
    ):
        with pytest.raises(ValueError, match=f"distribute at test_distribute.py:.*{why}"):
            D.range(5).distribute(*arguments)


def test_large_elements_of_a_stream_are_on_the_ledger() -> None:
    big = D.range(6).map(lambda x: np.full(100_000, x, np.uint8)).filter(lambda x: True)
    for remainder in ("drop", "pad"):
        with big.distribute(4, 0, remainder).run(memory="1MB") as run:
            assert [int(x[0]) for x in run] == ([0] if remainder == "drop" else [0, 4])
            assert 100_000 <= run.ledger.peak_bytes <= 1_000_000


ALL_SOURCES = {**SOURCES, "stream of known length": lambda n: streamed(D.range(n)).assert_cardinality(n)}


@pytest.mark.parametrize("remainder", ["drop", "pad"])
@pytest.mark.parametrize("num_parts, size", [(2, 2), (2, 8), (3, 4)])
def test_any_position_of_any_process_is_good_for_all(num_parts: int, size: int, remainder: str) -> None:
    for length in range(11):
        dataset = D.range(length).shuffle(seed=5)
        everyones_rests(lambda i, d=dataset: d.distribute(num_parts, i, remainder).batch(size), num_parts)


@pytest.mark.parametrize("remainder", ["drop", "pad"])
@pytest.mark.parametrize("source", sorted(ALL_SOURCES))
@pytest.mark.parametrize("optimize", [True, False])
def test_any_position_of_any_process_is_good_for_all_whatever_they_read(
    source: str, remainder: str, optimize: bool
) -> None:
    for length in (5, 7, 10):
        dataset = ALL_SOURCES[source](length)
        everyones_rests(lambda i, d=dataset: d.distribute(3, i, remainder).batch(2), 3, optimize=optimize)


ABOVE = {
    "map": lambda part: part.map(lambda x: x, num_parallel_calls=2).batch(4),
    "prefetch": lambda part: part.batch(4).prefetch(1),
    "repeat": lambda part: part.batch(4).repeat(2),
    "cache": lambda part: part.cache().batch(4),
    "shuffle": lambda part: part.shuffle(3, seed=1).batch(4),
    "padded": lambda part: part.padded_batch(4),
}


@pytest.mark.parametrize("above", sorted(ABOVE))
def test_any_position_of_any_process_is_good_for_all_whatever_they_do(above: str) -> None:
    for length in (5, 7):
        # Elements of a process's own shuffle are in another order for others: the number is what must be right.
        exact = above != "shuffle"
        everyones_rests(lambda i, n=length: ABOVE[above](D.range(n).distribute(2, i)), 2, exact=exact)


def everyones_rests(batched: Any, num_parts: int, *, optimize: bool = True, exact: bool = True) -> None:
    """Has each process save each of its positions, and all of them go on from there."""

    def opened(i: int) -> Any:
        return batched(i).run(epoch=0, optimize=optimize)

    whole = [[batch.tolist() for batch in opened(i)] for i in range(num_parts)]
    given = {x for batches in whole for batch in batches for x in batch}
    for saver in range(num_parts):
        for step in range(len(whole[0]) + 1):
            with opened(saver) as run:
                for _ in range(step):
                    next(run)
                state = json.loads(json.dumps(run.state_dict()))
            for i in range(num_parts):
                resumed = opened(i)
                resumed.load_state_dict(state)
                rest, expected = [batch.tolist() for batch in resumed], whole[i][step:]
                assert [*map(len, rest)] == [*map(len, expected)], (saver, step, i)
                assert given >= {x for batch in rest for x in batch}
                # A last batch of one may be padding, which is whatever element is at hand.
                if exact:
                    assert [b for b in rest if len(b) > 1] == [b for b in expected if len(b) > 1]


def test_a_position_at_the_end_of_uneven_batches_is_the_end_for_all() -> None:
    for length, size, num_parts in ((7, 8, 2), (101, 8, 3), (101, 8, 2), (10, 4, 3)):
        made = [D.range(length).shuffle(seed=5).distribute(num_parts, i).batch(size) for i in range(num_parts)]
        run = made[-1].run(epoch=0)
        for _ in range(len(made[-1])):
            next(run)
        resumed = [part.run() for part in made]
        for other in resumed:
            other.load_state_dict(run.state_dict())
        assert [list(other) for other in resumed] == [[]] * num_parts


@pytest.mark.parametrize("below", ["batches", "cache"])
def test_a_stream_whose_last_element_may_be_given_twice_is_resumed_anywhere(below: str) -> None:
    def part() -> Any:
        numbers = D.from_generator(lambda: iter(np.arange(21)))
        stream = numbers.cache() if below == "cache" else numbers.batch(2).rebatch(3)
        return stream.distribute(2, 0, "pad")

    expected = [x.tolist() for x in part()]
    for count in range(1, len(expected)):
        run = part().run()
        for _ in range(count):
            next(run)
        resumed = part().run()
        resumed.load_state_dict(run.state_dict())
        assert [x.tolist() for x in resumed] == expected[count:]
        resumed.close()
        assert resumed.ledger.charged_bytes == 0


def test_drop_has_the_name_that_batches_have_for_it() -> None:
    named, plain = [D.range(11).distribute(2, 1, remainder) for remainder in ("drop_remainder", "drop")]
    assert list(named) == list(plain)
    with plain.run(epoch=0) as run:
        state = run.state_dict()
    named.run(epoch=0).load_state_dict(state)
