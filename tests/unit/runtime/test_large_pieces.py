"""Pieces of more elements than are on their way at a time elsewhere: a thread makes all of them."""

from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.memory.transit import MOST_SINGLY
from penstock.runtime.backends.pieces import Pieces

D = ps.Dataset
COUNT = 2 * MOST_SINGLY + 100


@pytest.fixture(autouse=True)
def one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pieces, "size", lambda self, demand: demand)


@pytest.mark.parametrize("calls", [1, 2, ps.AUTOTUNE])
def test_of_many_elements(calls: int) -> None:
    (batch,) = D.range(COUNT).map(lambda x: x + 1, num_parallel_calls=calls).batch(COUNT)
    assert (batch == np.arange(1, COUNT + 1)).all()


@pytest.mark.parametrize("calls", [1, 2])
def test_of_elements_with_many_objects(calls: int) -> None:
    table = {f"column {i}": np.arange(2000) for i in range(300)}

    def last(row: dict[str, Any]) -> Any:
        return row["column 299"]

    (batch,) = D.from_tensor_slices(table).map(last, num_parallel_calls=calls).batch(2000)
    assert (batch == np.arange(2000)).all()
