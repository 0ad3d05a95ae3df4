"""What the caller keeps of what a run gave: it is the caller's, and is told."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps

D = ps.Dataset
pytestmark = pytest.mark.timeout(60)


def test_what_the_caller_holds_is_told() -> None:
    with D.from_tensor_slices(np.zeros((100, 1000))).shuffle(seed=1).batch(10).run() as run:
        batch = next(run)
        assert batch.nbytes == 80_000 <= run.stats()["caller_bytes"] <= 90_000  # the slot that it lies in
        del batch
        assert run.stats()["caller_bytes"] == 0


@pytest.mark.parametrize("ends", ["at its end", "closed", "by an error"])
def test_what_the_caller_holds_is_told_when_the_run_is_over(ends: str) -> None:
    def checked(row: np.ndarray) -> np.ndarray:
        if ends == "by an error" and row[0] == 99:
            raise KeyboardInterrupt
        return row * 1

    rows = np.repeat(np.arange(100.0)[:, None], 1000, axis=1)
    run = D.from_tensor_slices(rows).map(checked).batch(2).run()
    kept = []
    try:
        for batch in run:
            kept.append(batch)
            if ends == "closed" and len(kept) == 40:
                run.close()
                break
    except KeyboardInterrupt:
        run.close()
    del batch
    told = [run.memory()["held_by_caller_bytes"], run.stats()["caller_bytes"]]
    each = kept[0].nbytes
    assert all(len(kept) * each <= nbytes <= len(kept) * each * 9 / 8 for nbytes in told)
    view = kept[3][:, :1]
    kept.clear()
    assert each <= run.memory()["held_by_caller_bytes"] <= each * 9 / 8  # a view holds its batch
    del view
    assert run.memory()["held_by_caller_bytes"] == 0
    assert run.memory()["held_bytes"] == 0


@dataclasses.dataclass
class Example:
    x: Any
    y: Any


KEPT: dict[str, Callable[[Any], Any]] = {
    "batches": lambda ds: ds.batch(10),
    "elements": lambda ds: ds,
    "tuples": lambda ds: ds.map(lambda x: (x + 1, x)).batch(10),
    "dicts in tuples": lambda ds: ds.map(lambda x: (x + 1, {"a": (x,)})).batch(10),
    "dataclasses": lambda ds: ds.map(lambda x: Example(x + 1, x)).batch(10),
    "dataclasses in tuples": lambda ds: ds.map(lambda x: (Example(x + 1, x), x)).batch(10),
    "ragged": lambda ds: ds.ragged_batch(10),
    "padded": lambda ds: ds.padded_batch(10),
    "prefetched": lambda ds: ds.map(lambda x: x + 1, num_parallel_calls=2).batch(10).prefetch(2),
}


@pytest.mark.parametrize("build", KEPT.values(), ids=KEPT)
def test_a_caller_may_keep_all_it_was_given(build: Callable[[Any], Any]) -> None:
    """2.4 MB or more, under a budget of a tenth of that: what the caller holds is the caller's."""
    dataset = build(D.from_tensor_slices(np.zeros((3000, 100))).shuffle(seed=1))
    with dataset.run(memory=240_000) as run:
        kept = list(run)
    assert len(kept) in (300, 3000)
    assert run.ledger.peak_bytes <= 240_000
