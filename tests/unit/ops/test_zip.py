"""zip: rows side by side, whatever the inputs give at a time, and whatever fails in them."""

from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.errors import BadArgument, BadType
from penstock.testing import check_op

Point = namedtuple("Point", "x y")
Dataset = ps.Dataset


def failing(size: int, *values: int) -> Any:
    def function(x: Any) -> Any:
        if int(x) in values:
            raise RuntimeError(f"told to fail on {x}")
        return x

    return Dataset.range(size).map(function)


def in_twos(size: int) -> Any:
    """0, 1, 2, … in blocks of at most two."""
    return Dataset.range(size).batch(2).unbatch()


def delivered(dataset: Any) -> list[Any]:
    """Plain numbers, and the word `error` in the place of one."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(part) for key, part in value.items()}
        if isinstance(value, tuple):
            return type(value)(*map(plain, value)) if hasattr(value, "_fields") else tuple(map(plain, value))
        return value.tolist()

    def steps() -> Iterator[Any]:
        with dataset.run() as run:
            while True:
                try:
                    yield plain(next(run))
                except StopIteration:
                    return
                except RuntimeError:
                    yield "error"

    return list(steps())


def test_the_nest_of_datasets_is_the_nest_of_elements() -> None:
    a, b = Dataset.range(2), Dataset.range(5, 9)
    assert delivered(Dataset.zip(a, b)) == [(0, 5), (1, 6)]
    assert delivered(Dataset.zip((a, b))) == [(0, 5), (1, 6)]
    assert delivered(Dataset.zip(datasets=(a, b))) == [(0, 5), (1, 6)]
    assert delivered(Dataset.zip(a)) == [0, 1]
    assert delivered(Dataset.zip((a,))) == [(0,), (1,)]
    assert delivered(Dataset.zip({"b": a, "a": Point(a, b)})) == [{"b": i, "a": Point(i, i + 5)} for i in range(2)]
    assert delivered(Dataset.zip(a, (b, {"c": a}))) == [(i, (i + 5, {"c": i})) for i in range(2)]


def test_spec_and_cardinality() -> None:
    endless, unknown = Dataset.range(3).repeat(), Dataset.range(3).filter(lambda x: True)
    zipped = Dataset.zip({"a": Dataset.range(4), "b": Dataset.range(3).batch(2)})
    assert zipped.element_spec == {"a": ps.TensorSpec((), np.int64), "b": ps.TensorSpec((None,), np.int64)}
    assert zipped.cardinality() == 2
    assert Dataset.zip(endless, Dataset.range(2)).cardinality() == 2
    assert Dataset.zip(endless, endless).cardinality() == ps.INFINITE
    assert Dataset.zip(Dataset.range(0), unknown).cardinality() == ps.UNKNOWN
    assert Dataset.zip(Dataset.range(2), Dataset.range(2).map(lambda x: x / 2)).element_spec == (
        ps.TensorSpec((), np.int64),
        ps.TensorSpec((), np.float64),
    )


def test_of_arrays_a_batch_is_a_view() -> None:
    images = np.arange(12.0).reshape(6, 2)
    first, _ = next(iter(Dataset.zip(Dataset.from_tensor_slices(images), Dataset.range(6)).batch(4)))
    assert np.shares_memory(first, images)


@pytest.mark.parametrize(
    "first, second, expected",
    [
        (failing(4, 1), Dataset.range(4), [(0, 0), "error", (2, 2), (3, 3)]),
        (failing(4, 1), failing(4, 1, 2), [(0, 0), "error", "error", (3, 3)]),
        (Dataset.range(2), failing(3, 2), [(0, 0), (1, 1)]),
        (failing(3, 2), Dataset.range(2), [(0, 0), (1, 1), "error"]),
        (failing(9, 2), Dataset.range(2), [(0, 0), (1, 1), "error"]),
    ],
)
def test_a_row_fails_as_one_and_the_rest_stays_aligned(first: Any, second: Any, expected: list[Any]) -> None:
    assert delivered(Dataset.zip(first, second)) == expected
    check_op(Dataset.zip(first, second))


def test_inputs_that_give_unequal_numbers_at_a_time() -> None:
    check_op(Dataset.zip(in_twos(20), Dataset.range(30), {"c": failing(25, 3, 19)}))
    check_op(Dataset.zip(Dataset.range(30), in_twos(20)).batch(3))


def test_what_waits_for_others_is_on_the_ledger() -> None:
    wide = Dataset.range(30).map(lambda x: np.full(1000, x))
    run = Dataset.zip(wide, in_twos(30)).batch(5).run(optimize=False)
    next(run)
    (held,) = (share for share in run.ledger.shares if share.name.startswith("zip"))
    assert held.peak_bytes == 4 * 8000  # the first comes alone, to be measured, and goes at once
    run.close()
    assert run.ledger.charged_bytes == 0


@pytest.mark.parametrize(
    "arguments, error",
    [
        ((), BadType),
        (((),), BadArgument),
        (({},), BadArgument),
        (([Dataset.range(2)],), BadType),
        ((Dataset.range(2), [Dataset.range(2)]), BadType),
        ((Dataset.range(2), 5), BadType),
        ((None,), BadType),
    ],
)
def test_misuse_names_what_came(arguments: tuple[Any, ...], error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^zip at test_zip.py:\d+: expected"):
        Dataset.zip(*arguments)


def test_arguments_and_datasets_at_once_are_refused() -> None:
    with pytest.raises(BadType, match="either"):
        Dataset.zip(Dataset.range(2), datasets=Dataset.range(2))
