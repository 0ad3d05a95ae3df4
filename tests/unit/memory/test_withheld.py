"""What is left unused of the slack once a run writes to disk: nobody is refused anything for it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.errors import OverBudget
from penstock.memory.ledger import Ledger
from penstock.memory.withheld import Withheld

MB = 1_000_000


@pytest.mark.parametrize("budget, floors, expected", [
    (3 * MB, 0, 0),
    (16 * MB, 0, 2 * MB),
    (16 * MB, 12 * MB, MB),
    (16 * MB, 16 * MB, 0),
    (4000 * MB, 0, 10 << 20),
])  # fmt: skip
def test_how_much(budget: int, floors: int, expected: int) -> None:
    withheld = Withheld()
    withheld.begin(budget, floors)
    withheld.begin(budget, floors)
    assert withheld.nbytes == expected


def ledger_that_withholds() -> Ledger:
    ledger = Ledger(16 * MB)
    ledger.withheld.begin(ledger.budget_bytes, 0)
    return ledger


def test_who_can_do_without_gets_less() -> None:
    ledger = ledger_that_withholds()
    share = ledger.share("stage")
    assert ledger.slack_bytes == 14 * MB
    assert share.try_acquire(13 * MB) is None
    assert share.try_acquire(12 * MB) is not None


def test_who_cannot_gets_all_and_from_then_on_nothing_is_withheld() -> None:
    ledger = ledger_that_withholds()
    share = ledger.share("stage")
    share.charge(16 * MB)
    assert ledger.charged_bytes == 16 * MB
    with pytest.raises(OverBudget):
        share.charge(1)
    share.discharge(16 * MB)
    ledger.withheld.begin(ledger.budget_bytes, 0)
    assert ledger.slack_bytes == 16 * MB


def test_what_is_in_use_when_it_begins_stays() -> None:
    ledger = Ledger(16 * MB)
    share = ledger.share("stage")
    share.charge(15 * MB)
    ledger.withheld.begin(ledger.budget_bytes, 0)
    assert ledger.slack_bytes == 0
    share.discharge(4 * MB)
    assert ledger.slack_bytes == 3 * MB


def large(i: Any) -> Any:
    return np.full(100_000, i)


@pytest.mark.parametrize("count, expected", [(5, 0), (40, 2 * MB)])
def test_a_run_withholds_when_it_writes_to_disk(count: int, expected: int, tmp_path: Path) -> None:
    dataset = ps.Dataset.range(count).map(large, stateful=True).filter(lambda x: True).shuffle(count, seed=1)
    with dataset.with_options(ps.Options(spill_dir=tmp_path)).run(memory=16 * MB) as run:
        for _ in run:
            pass
        assert (run.stats()["spilled_bytes"] > 0) == (expected > 0)
        assert run.ledger.withheld.nbytes == expected


def test_a_run_withholds_that_reads_what_a_cache_has_on_disk(tmp_path: Path) -> None:
    dataset = ps.Dataset.range(40).map(large).cache().with_options(ps.Options(spill_dir=tmp_path))
    for _ in range(2):
        with dataset.run(memory=16 * MB) as run:
            assert sum(1 for _ in run) == 40
            assert run.ledger.withheld.nbytes == 2 * MB
