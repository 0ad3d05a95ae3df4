"""regroup_rows: batches that are taken apart again are not made, where that changes nothing."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.optimize import PASSES, optimize
from penstock.optimize.regroup_rows import regroup_rows

D = ps.Dataset
ARRAY = np.arange(40.0).reshape(20, 2)
SLICES = D.from_tensor_slices({"x": ARRAY, "y": np.arange(20)})


def regrouped(dataset: Any) -> Any:
    return optimize(dataset.node, [(regroup_rows,)])[0]


@pytest.mark.parametrize("written, wanted", [
    (lambda: SLICES.batch(4).unbatch(), lambda: SLICES),
    (lambda: SLICES.batch(6).unbatch(), lambda: SLICES),
    (lambda: SLICES.batch(6, drop_remainder=True).unbatch(), lambda: SLICES.take(18)),
    (lambda: SLICES.batch(5, drop_remainder=True).unbatch(), lambda: SLICES),
    (lambda: SLICES.batch(40, drop_remainder=True).unbatch(), lambda: SLICES.take(0)),
    (lambda: SLICES.batch(6).rebatch(4), lambda: SLICES.batch(4)),
    (lambda: SLICES.batch(6).rebatch(7, drop_remainder=True), lambda: SLICES.batch(7, drop_remainder=True)),
    (lambda: SLICES.batch(6, drop_remainder=True).rebatch(7), lambda: SLICES.take(18).batch(7)),
    (lambda: SLICES.batch(6, drop_remainder=True).rebatch(3), lambda: SLICES.take(18).batch(3, drop_remainder=True)),
    (lambda: SLICES.batch(4).unbatch().batch(5).unbatch(), lambda: SLICES),
])  # fmt: skip
def test_rows_are_grouped_once(written: Callable[[], Any], wanted: Callable[[], Any]) -> None:
    assert regrouped(written()) == wanted().node


def test_without_an_end_there_is_no_remainder() -> None:
    endless = SLICES.repeat()
    written = endless.batch(6, drop_remainder=True).unbatch()
    assert optimize(written.node, PASSES)[0] == optimize(endless.node, PASSES)[0]


@pytest.mark.parametrize("written", [
    lambda: SLICES.batch(6).rebatch([4, 2]),
    lambda: SLICES.padded_batch(4).unbatch(),
    lambda: SLICES.map(lambda row: row).batch(4).unbatch(),
    lambda: SLICES.batch(4).map(lambda row: row).unbatch(),
    lambda: D.from_tensor_slices(ARRAY).unbatch(),
    lambda: D.from_tensor_slices(ARRAY).rebatch(3),
    lambda: D.from_tensor_slices(ps.Ragged(np.arange(6), np.array([0, 2, 4, 6]))).batch(2).unbatch(),
    lambda: D.from_generator(lambda: iter(range(5)), ps.TensorSpec((), "int64")).batch(2).unbatch(),
])  # fmt: skip
def test_what_may_differ_or_fail_is_grouped_as_written(written: Callable[[], Any]) -> None:
    dataset = written()
    assert regrouped(dataset) == dataset.node


@pytest.mark.parametrize("above", [
    lambda ds: ds.batch(7),
    lambda ds: ds.shuffle(5, seed=1).batch(7),
    lambda ds: ds.shuffle(seed=1).take(11),
    lambda ds: ds.repeat(2).shard(3, 1).batch(2),
    lambda ds: ds.random_map(lambda row, rng: row["x"] + rng.random(), seed=3).shuffle(4, seed=1),
])  # fmt: skip
@pytest.mark.parametrize("regroup", [
    lambda ds: ds.batch(6).unbatch(),
    lambda ds: ds.batch(6, drop_remainder=True).unbatch(),
    lambda ds: ds.shuffle(seed=2).batch(6).unbatch(),
    lambda ds: ds.skip(3).batch(6, drop_remainder=True).rebatch(4).unbatch(),
])  # fmt: skip
def test_the_elements_are_the_same(regroup: Callable[[Any], Any], above: Callable[[Any], Any]) -> None:
    dataset = above(regroup(SLICES))
    assert any(step.rule == "regroup_rows" for step in optimize(dataset.node, PASSES)[1])
    found, expected = list(dataset.run(epoch=1)), list(dataset.run(epoch=1, optimize=False))
    assert repr(found) == repr(expected)
    assert len(found) > 0


def test_the_number_of_elements_is_told_as_tf_data_tells_it() -> None:
    assert SLICES.batch(6).unbatch().cardinality() == ps.UNKNOWN
