"""`fit(class_weight=…)`: weights of classes, as the third part of each batch.

Keras applies class weights in its own data adapters, and tells none of them to one that it is given. What iterates over
an adapter's steps is told, though, and asks the adapter for its number of batches while it is being made: that is where
they are seen. Without this they would be ignored, and so would `y` and `sample_weight`.
"""

from __future__ import annotations

import functools
import warnings
import weakref
from types import FrameType
from typing import Any

import numpy as np

from ..errors import BadArgument, BadType

__all__ = ["ClassWeights", "FitArguments"]


class ClassWeights:
    """Adds to batches of features and targets the weight of each target's class; of classes not named it is 1."""

    def __init__(self, class_weight: Any, dtype: Any) -> None:
        if not isinstance(class_weight, dict) or not class_weight:
            raise BadType(f"class_weight: expected a dict of weights by class number, got {class_weight!r:.60}")
        try:
            classes = sorted((int(number), float(weight)) for number, weight in class_weight.items())
        except (TypeError, ValueError) as error:
            raise BadType(f"class_weight: expected weights by class number, got {class_weight!r:.60}") from error
        self._classes = np.array([number for number, _ in classes])
        self._weights = np.array([weight for _, weight in classes], dtype)

    def __call__(self, *parts: Any) -> Any:
        """A batch with weights; `map` calls with its parts where it is a plain tuple."""
        if len(parts) == 1 and isinstance(parts[0], tuple):
            parts = parts[0]
        if len(parts) == 3 and parts[2] is not None:
            raise BadArgument(
                "class_weight: expected batches of features and targets, got sample weights too; multiply these by the "
                "weights of the classes, with map, and leave out class_weight"
            )
        targets = parts[1] if len(parts) in (2, 3) else None
        if not isinstance(targets, (np.ndarray, np.generic)) or targets.dtype.kind not in "biuf":
            got = f"{targets.dtype} array" if isinstance(targets, np.ndarray) else type(targets).__name__
            raise BadType(
                f"class_weight: expected batches (features, targets) with one array of class numbers, or of one number "
                f"for each class, as targets, got {len(parts)} parts with targets {got}"
            )
        return parts[0], targets, self.of(targets)

    def of(self, targets: Any) -> np.ndarray:
        """Weights of class numbers, or of what has a number for each class on its last axis."""
        if targets.ndim > 1:
            targets = targets[..., 0] if targets.shape[-1] == 1 else targets.argmax(-1)
        numbers = np.rint(targets).astype(np.int64) if targets.dtype.kind == "f" else targets
        places = np.minimum(np.searchsorted(self._classes, numbers), len(self._classes) - 1)
        one = self._weights.dtype.type(1)
        weights: np.ndarray = np.where(self._classes[places] == numbers, self._weights[places], one)
        return weights


class FitArguments:
    """What Keras's iterators over steps were told, of those that read one feed."""

    def __init__(self) -> None:
        self._told: list[tuple[weakref.ref[Any], ClassWeights]] = []

    def note(self, asked_by: FrameType) -> None:
        """Looks at who asks for the number of batches: an iterator that is being made, or anyone."""
        if asked_by.f_code is not _code_of_steps():
            return
        told = asked_by.f_locals
        for name in ("y", "sample_weight"):
            if told.get(name) is not None:
                raise BadArgument(f"{name}: expected it to be part of each batch of to_keras(), got an argument of fit")
        if told.get("class_weight") is not None:
            import keras

            weights = ClassWeights(told["class_weight"], keras.config.floatx())
            self._told = [(ref, other) for ref, other in self._told if ref() is not None]
            self._told.append((weakref.ref(told["self"]), weights))

    def class_weights(self, steps: Any) -> ClassWeights | None:
        """Those that an iterator over steps was told."""
        return next((weights for ref, weights in self._told if ref() is steps), None)


@functools.cache
def _code_of_steps() -> Any:
    """The code that makes Keras's iterator over steps; where it is not as it was, class weights cannot be seen."""
    import keras
    from keras.src.trainers.epoch_iterator import EpochIterator

    code = EpochIterator.__init__.__code__
    if (
        not {"self", "class_weight", "y", "sample_weight"} <= set(code.co_varnames)
        or "num_batches" not in code.co_names
    ):
        warnings.warn(
            f"to_keras: Keras {keras.__version__} does not show class_weight to data adapters: fit(class_weight=…) has "
            "no effect; give weights as the third part of each batch",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return code
