"""What the tests of files have in common."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.testing import same

ALL = 10_000


def failed_by_file(run: Any) -> dict[str, int]:
    """How many elements of which file could not be read, over all stages."""
    return {file: n for stage in run.stats()["stages"] for file, n in stage["failed_by_file"].items()}


@contextlib.contextmanager
def busy_arrow() -> Iterator[None]:
    """While another thread takes 64 MB from Arrow and gives them back, over and over."""
    ended, begun = threading.Event(), threading.Event()

    def use() -> None:
        # The waits let the other threads run, with these bytes held and without.
        while not ended.wait(1e-4):
            held = pa.allocate_buffer(64 << 20)
            begun.set()
            ended.wait(1e-4)
            del held

    thread = threading.Thread(target=use)
    thread.start()
    begun.wait(60)
    try:
        yield
    finally:
        ended.set()
        thread.join(60)


def at_the_minimum(dataset: Any) -> list[Any]:
    """All elements, read with the smallest budget that `explain` names; a byte less is refused."""
    plan = dataset.explain(sample=ALL).to_dict()
    minimum = plan["minimum_bytes"]
    assert plan["complete"]
    run = dataset.run(memory=minimum)
    found = list(run)
    assert run.ledger.peak_bytes <= minimum
    assert run.ledger.charged_bytes == 0
    expected = list(dataset)
    assert len(found) == len(expected)
    assert all(map(same, [_leaves(e) for e in found], [_leaves(e) for e in expected]))
    with pytest.raises(ps.errors.BudgetTooSmall, match=f"use memory={minimum:_} or more"):
        dataset.run(memory=minimum - 1)
    return found


def _leaves(element: Any) -> Any:
    return [_leaves(part) for part in element.values()] if isinstance(element, dict) else element
