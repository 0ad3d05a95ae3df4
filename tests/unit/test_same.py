"""testing.same: equal to the bit, whatever results are made of."""

from collections import namedtuple
from typing import Any

import numpy as np
import pytest

from penstock.leaf import Ragged, Sparse
from penstock.testing import same

Pair = namedtuple("Pair", "a b")


def ragged(values: Any = (1, 2, 3), splits: Any = (0, 1, 3)) -> Ragged:
    return Ragged(np.array(values), np.array(splits))


def sparse(values: Any = (1.0, 2.0)) -> Sparse:
    return Sparse(np.array([[0], [2]]), np.array(values), np.array([3]))


ALIKE = [
    lambda: {"x": np.arange(3), "y": {"z": np.zeros((2, 2)), "none": None}},
    lambda: ({"x": np.arange(3)}, [np.float32(1), b"text"], "text"),
    lambda: {"r": ragged(), "s": sparse(), "deep": Ragged(ragged(), np.array([0, 2]))},
    lambda: np.array([1.0, np.nan]),
    lambda: np.array([1.0, np.nan, None, b"x", "y", np.arange(3)], object),
    lambda: float("nan"),
    lambda: {"x": (float("nan"), None)},
    lambda: np.array([b"a", b"bc"], object),
    lambda: Pair(np.arange(2), None),
    lambda: np.float64("nan"),
    dict,
    lambda: None,
]
DIFFERENT = [
    ({"x": np.arange(3)}, {"x": np.arange(4)}),
    ({"x": np.arange(3)}, {"x": np.arange(3), "y": None}),
    ({"x": np.arange(3)}, {"y": np.arange(3)}),
    ({"x": np.arange(3)}, np.arange(3)),
    (np.arange(3), {"x": np.arange(3)}),
    ({"x": {"y": np.int64(1)}}, {"x": {"y": np.int32(1)}}),
    ((np.arange(3),), [np.arange(3)]),
    ((1, 2), Pair(1, 2)),
    (ragged(), ragged(splits=(0, 2, 3))),
    (ragged(), np.arange(3)),
    (np.arange(3), ragged()),
    (sparse(), sparse((1.0, 3.0))),
    (None, np.arange(3)),
    (None, 0),
    (np.arange(3), None),
    (1, np.arange(3)),
    (np.arange(3), [0, 1, 2]),
    ("a", b"a"),
    (1, 1.0),
    (1, True),
    (np.array([0.0]), np.array([-0.0])),
    (0.0, -0.0),
    (float("nan"), 1.0),
    (np.array([None], object), np.array([0], object)),
    (np.array([b"a", b"b"], object), np.array([b"a", b"c"], object)),
]


@pytest.mark.parametrize("number", range(len(ALIKE)))
def test_alike(number: int) -> None:
    assert same(ALIKE[number](), ALIKE[number]())


@pytest.mark.parametrize("number", range(len(DIFFERENT)))
def test_different(number: int) -> None:
    a, b = DIFFERENT[number]
    assert not same(a, b)
    assert not same(b, a)
