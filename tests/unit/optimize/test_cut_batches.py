"""cut_batches: a batch that is never full needs room for what comes only."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.errors import BudgetTooSmall
from penstock.optimize import optimize
from penstock.optimize.cut_batches import cut_batches

D = ps.Dataset


def cut(dataset: Any) -> Any:
    return optimize(dataset.node, [(cut_batches,)])[0]


@pytest.mark.parametrize("batch", [
    lambda ds, n: ds.batch(n),
    lambda ds, n: ds.padded_batch(n),
    lambda ds, n: ds.ragged_batch(n),
    lambda ds, n: ds.map(lambda x: np.full(1, x)).apply(lambda d: d.sparse_batch(n, [1])),
])  # fmt: skip
def test_one_more_than_there_are(batch: Callable[[Any, int], Any]) -> None:
    assert cut(batch(D.range(10), 1000)).op.batch_size == 11
    assert cut(batch(D.range(10).take(3), 1000)).op.batch_size == 4
    for size in (1, 9, 10, 11):
        assert cut(batch(D.range(10), size)).op.batch_size == size


@pytest.mark.parametrize("dataset", [
    lambda: D.range(10).repeat(),
    lambda: D.range(10).filter(lambda x: x > 3),
    lambda: D.from_generator(lambda: iter(range(10))),
])  # fmt: skip
def test_where_nobody_knows_how_many_there_are(dataset: Callable[[], Any]) -> None:
    batched = dataset().batch(1000)
    assert cut(batched) == batched.node


def test_batches_of_a_stated_size() -> None:
    batched = D.range(10).batch(1000, drop_remainder=True)
    assert cut(batched) == batched.node
    assert list(batched) == []


def test_the_reason_says_how_many_there_are() -> None:
    _, (step,) = optimize(D.range(2000).batch(10**6).node, [(cut_batches,)])
    assert (step.rule, step.reason) == ("cut_batches", "there are 2,000 elements: no batch needs room for more")


def test_all_of_a_small_dataset_in_one_batch() -> None:
    images = D.range(10).map(lambda x: np.full(1000, x))
    with images.batch(10**9).run(memory="200kB") as run:
        (batch,) = run
    assert batch.shape == (10, 1000)
    assert batch[:, 0].tolist() == list(range(10))
    with pytest.raises(BudgetTooSmall):
        D.range(10).filter(lambda x: True).batch(10**9).run(memory="200kB")  # nobody knows how many
