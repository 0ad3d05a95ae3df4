"""Which plans give processes parts of different size."""

from typing import Any

import pytest

import penstock as ps
from penstock.plan.even import unequal_parts
from penstock.plan.settle import settled

D = ps.Dataset


@pytest.mark.parametrize(
    "dataset, expected",
    [
        (D.range(101).distribute(2, 1).batch(8), (51, 50)),
        (D.range(101).distribute(2, 1).map(lambda x: x).batch(8).prefetch(1), (51, 50)),
        (D.range(101).distribute(2, 1).batch(8, drop_remainder=True), None),
        (D.range(100).distribute(2, 1).batch(8), None),
        (D.range(101).distribute(2, 1), None),
        (D.range(101).distribute(2, 1, remainder="keep").batch(8, drop_remainder=True), (51, 50)),
        (D.range(101).filter(lambda x: True).distribute(2, 1).batch(8), None),
        (D.range(101).batch(8), None),
    ],
)
def test_how_many_elements_the_first_and_the_last_process_get(dataset: Any, expected: Any) -> None:
    assert unequal_parts(settled(dataset.node)) == expected
