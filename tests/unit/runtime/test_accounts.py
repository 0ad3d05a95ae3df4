"""What inner datasets have on their way is counted once, whatever threads read them, and no longer than it is there."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.memory.ledger import Ledger
from penstock.runtime.accounts import Accounts

D = ps.Dataset
pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("no_thread_left")]

SIZE = 2000
NUM_DATASETS, NUM_EACH = 24, 17


def numbers(_: Any) -> Any:
    return D.range(NUM_EACH).map(lambda i: np.full(SIZE, int(i), np.float32))


INNER: dict[str, Callable[[Any], Any]] = {
    "prefetch": lambda e: numbers(e).prefetch(2),
    "calls in threads": lambda e: numbers(e).map(lambda x: x + 0, num_parallel_calls=2),
    "calls in threads, prefetch": lambda e: numbers(e).map(lambda x: x + 0, num_parallel_calls=2).prefetch(2),
    "datasets of datasets": lambda e: D.range(1).flat_map(numbers),
    "datasets of datasets that work ahead": lambda e: D.range(1).flat_map(lambda i: numbers(i).prefetch(2)),
    "datasets of datasets in threads": lambda e: D.range(1).interleave(numbers, 2, num_parallel_calls=2),
    "groups": lambda e: numbers(e).group_by_window(lambda x: 0, lambda key, window: window.prefetch(1), 4),
}


@pytest.mark.parametrize("num_threads", [None, 3])
@pytest.mark.parametrize("inner", INNER)
def test_nothing_is_left_of_inner_datasets_and_nothing_counted_twice(inner: str, num_threads: int | None) -> None:
    dataset = D.range(NUM_DATASETS).interleave(INNER[inner], cycle_length=3, num_parallel_calls=num_threads)
    run = dataset.run(memory=1_000_000)
    total, held = 0.0, []
    for element in run:
        total += float(element[0])
        held.append(run.ledger.charged_bytes)
    assert total == NUM_DATASETS * sum(range(NUM_EACH))
    assert min(held) >= 0
    assert run.ledger.charged_bytes == 0
    assert not run._stages.accounts._of_cursors


def test_an_account_is_a_stages_for_good_or_one_cursors() -> None:
    accounts, ledger = Accounts(), Ledger(1000)
    share, node = ledger.share("stage"), D.range(3).node
    first = accounts.of_stage(share, 0, 1)
    assert accounts.of_stage(share, 0, 1) is first
    assert accounts.of_stage(share, 1, 1) is not first
    one, other = accounts.of_cursor(share), accounts.of_cursor(share)
    one.transit(node, 1, 0).add(100)
    other.transit(node, 1, 0).add(10)
    first.transit(node, 1, 0).add(1)
    assert share.charged_bytes == 111
    accounts.forget(one)
    assert share.charged_bytes == 11
    accounts.close()
    assert share.charged_bytes == 0
