"""enumerate: the index is that of the place, whatever failed before it and whatever moved below."""

from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.errors import BadArgument, BadType, OutOfRange
from penstock.testing import check_op, elements_of

Dataset = ps.Dataset


def pairs(dataset: Any) -> list[tuple[int, int]]:
    return [(int(i), int(x)) for i, x in dataset]


def test_counts_from_start() -> None:
    assert pairs(Dataset.range(7, 9).enumerate()) == [(0, 7), (1, 8)]
    assert pairs(Dataset.range(7, 9).enumerate(start=-1)) == [(-1, 7), (0, 8)]
    assert pairs(Dataset.range(7, 9).map(lambda x: x).enumerate(np.int32(5))) == [(5, 7), (6, 8)]


def test_structure_and_spec() -> None:
    nested = Dataset.from_tensor_slices({"a": np.zeros((4, 2), np.float32)}).enumerate()
    assert nested.element_spec == (ps.TensorSpec((), np.int64), {"a": ps.TensorSpec((2,), np.float32)})
    assert nested.cardinality() == 4
    index, rows = next(iter(nested.batch(3)))
    assert index.tolist() == [0, 1, 2]
    assert index.dtype == np.int64
    assert rows["a"].shape == (3, 2)
    index, (a, b) = next(iter(Dataset.zip(Dataset.range(2), Dataset.range(2)).enumerate()))
    assert (int(index), int(a), int(b)) == (0, 0, 0)


def test_an_element_that_fails_uses_up_its_index() -> None:
    bad = Dataset.range(5).map(lambda x: x if x != 2 else int("two")).enumerate()
    assert [int(i) for i, _ in bad.ignore_errors()] == [0, 1, 3, 4]
    check_op(bad)


def test_an_order_moved_below_does_not_change_the_indices() -> None:
    shuffled = Dataset.range(20).map(lambda x: x * 2).enumerate(3).shuffle(6, seed=1)
    assert all(i == x // 2 + 3 for i, x in pairs(shuffled))
    assert "shuffle" in str(shuffled.explain())
    check_op(shuffled)
    check_op(shuffled.skip(3).enumerate().shard(2, 1))
    check_op(Dataset.range(20).shuffle(5, seed=1).enumerate())
    check_op(Dataset.range(5).enumerate().repeat(2).enumerate())


def test_beyond_the_largest_index_elements_fail() -> None:
    found = elements_of(Dataset.range(3).enumerate(2**63 - 2).run())
    assert [str(x) for x in found[2:]] == ["raised OutOfRange"]
    with pytest.raises(OutOfRange, match="9223372036854775808 does not fit int64"):
        list(Dataset.range(3).enumerate(2**63 - 2))
    check_op(Dataset.range(5).enumerate(2**63 - 3).shuffle(3, seed=1))


@pytest.mark.parametrize("start, error", [(2.5, BadType), ("a", BadType), (True, BadType), (2**63, BadArgument)])
def test_misuse(start: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^enumerate at test_enumerate.py:\d+: start: expected"):
        Dataset.range(3).enumerate(start)
