"""Elements one by one: rows of wide tables are many objects, and few are there at a time."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps

D = ps.Dataset
NUM_ROWS, NUM_COLUMNS = 1_200, 100
NAMES = [f"column {i}" for i in range(NUM_COLUMNS)]


def stacked() -> Any:
    return D.from_tensor_slices({name: np.arange(NUM_ROWS, dtype=np.int32) for name in NAMES})


def made(i: Any) -> dict[str, np.int32]:
    return {name: np.int32(i) for name in NAMES}


OPERATORS: dict[str, Callable[[Any], Any]] = {
    "unique": lambda data: data.unique(),
    "take_while": lambda data: data.take_while(lambda row: True),
    "rejection_resample": lambda data: data.rejection_resample(lambda row: row["column 0"] % 2, [0.5, 0.5], [0.5, 0.5]),
    "flat_map": lambda data: D.range(1).flat_map(lambda i: D.range(NUM_ROWS).map(made)),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_that_look_at_each_element_make_few_rows_of_a_wide_table_at_once(name: str) -> None:
    seen = 0

    def count(*row: Any) -> bool:
        nonlocal seen
        seen += 1
        return False

    dataset = OPERATORS[name](stacked()).filter(count).batch(NUM_ROWS)
    with dataset.run(memory="256MB") as run:
        tracemalloc.start()
        try:
            assert list(run) == []
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert seen == NUM_ROWS
    assert peak < 4_000_000  # all rows are 7 MB
