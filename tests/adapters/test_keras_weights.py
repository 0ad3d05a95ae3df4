"""Class weights: what Keras itself makes of them, and what has none. In `fit`: see test_keras."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from penstock.adapters import keras_weights
from penstock.adapters.keras_weights import ClassWeights, FitArguments
from penstock.errors import BadArgument, BadType

from .feeds import Pair

CLASS_WEIGHT = {0: 0.5, 7: 2.0, 2: 3}
pytestmark = pytest.mark.timeout(400)  # Keras takes long to load on a busy machine


@pytest.mark.parametrize(
    "targets",
    [
        np.array([0, 2, 7, 1, -1, 9]),
        np.array([[0], [2], [7], [8]], np.uint8),
        np.array([0.4, 1.6, 2.5, 6.9], np.float32),
        np.array([True, False]),
        np.eye(9)[[0, 2, 7, 8]],
        np.array([], np.int64),
    ],
)
def test_weights_are_those_that_keras_gives(targets: Any) -> None:
    from keras.src.trainers.data_adapters.data_adapter_utils import class_weight_to_sample_weights

    weights = ClassWeights(CLASS_WEIGHT, np.float32)
    found = weights("features", targets)
    assert found[0] == "features"
    assert found[1] is targets
    np.testing.assert_array_equal(found[2], class_weight_to_sample_weights(targets, CLASS_WEIGHT), strict=True)


def test_targets_of_sequences_have_a_weight_for_each_step() -> None:
    steps = np.array([[0, 2, 7], [7, 7, 1]])
    found = ClassWeights(CLASS_WEIGHT, np.float32).of(np.eye(9)[steps])
    assert found.tolist() == [[0.5, 3, 2], [2, 2, 1]]


@pytest.mark.parametrize("class_weight", [{}, [1, 2], {"cat": 2.0}, {0: None}])
def test_what_is_no_class_weight_is_refused(class_weight: Any) -> None:
    with pytest.raises(BadType, match="class_weight: expected"):
        ClassWeights(class_weight, np.float32)


def test_batches_that_class_weights_do_not_go_with_are_refused() -> None:
    weights, x, y = ClassWeights(CLASS_WEIGHT, np.float32), np.ones(2), np.array([0, 2])
    assert weights(x, y, None)[2].tolist() == [0.5, 3]
    assert weights(Pair(x, y))[2].tolist() == [0.5, 3]
    with pytest.raises(BadArgument, match="got sample weights too; multiply these"):
        weights(x, y, y)
    with pytest.raises(BadType, match="got 1 parts with targets NoneType"):
        weights(x)
    with pytest.raises(BadType, match="got 2 parts with targets dict"):
        weights(x, {"a": y})
    with pytest.raises(BadType, match="got 2 parts with targets object array"):
        weights(x, np.array([b"cat", b"dog"], object))


def test_a_keras_that_does_not_show_them_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    from keras.src.trainers import epoch_iterator

    class OtherSteps:
        def __init__(self, **arguments: Any) -> None:
            pass

    monkeypatch.setattr(epoch_iterator, "EpochIterator", OtherSteps)
    monkeypatch.setattr(keras_weights, "_code_of_steps", keras_weights._code_of_steps.__wrapped__)
    with pytest.warns(RuntimeWarning, match=r"fit\(class_weight=…\) has no effect"):
        assert keras_weights._code_of_steps() is None


def test_who_else_asks_for_the_number_of_batches_tells_nothing() -> None:
    def ask(class_weight: Any, y: Any) -> None:
        arguments.note(sys._getframe())

    arguments = FitArguments()
    ask(CLASS_WEIGHT, np.ones(3))
    assert arguments.class_weights(None) is None
