"""A program for test_keras.py, under TensorFlow: fits of models whose training steps have optimizers of their own.

Prints one line of JSON: for each model whether a fit that was killed ends as one that was not.
"""

import json
import os
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from keras_kills import KillAfter, Killed

import penstock as ps

X = np.random.default_rng(0).normal(size=(24, 3)).astype(np.float32)
warnings.simplefilter("ignore", DeprecationWarning)  # NumPy, of Keras's variables


class TwoParts(keras.Model):
    """Two networks, of which each is trained against the other."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = [keras.Sequential([keras.Input((3,)), keras.layers.Dense(3)]) for _ in range(2)]

    def call(self, x: Any) -> Any:
        return self.parts[1](self.parts[0](x))

    def optimizer_of(self, part: int) -> Any:
        raise NotImplementedError

    def train_step(self, x: Any) -> Any:
        for number, part in enumerate(self.parts):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(self(x) ** 2) * (1 - 3 * number) + tf.reduce_mean(part(x) ** 2)
            weights = part.trainable_weights
            optimizer = self.optimizer_of(number)
            if optimizer is not None:
                optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return {"loss": loss}


class TwoOptimizers(TwoParts):
    """Keras's own optimizer, which `compile` makes if it is not told, is left unused."""

    def optimizer_of(self, part: int) -> Any:
        return self.of_parts[part] if part else self.of_first

    def made(self) -> Any:
        self.compile()
        self.of_parts = {1: keras.optimizers.Adam(0.01)}
        self.of_first = keras.optimizers.SGD(0.01, momentum=0.9)
        return self


class OneOfAPart(TwoParts):
    """The optimizer is of one network's variables; the other stays as it is."""

    def optimizer_of(self, part: int) -> Any:
        return self.optimizer if part else None

    def made(self) -> Any:
        self.compile("adam")
        return self


def weights_of(make: Callable[[], Any], path: str, kills: list[int]) -> Any:
    for kill in [*kills, 1000]:
        keras.utils.set_random_seed(0)
        made = make().made()
        feed = ps.Dataset.from_tensor_slices(X).shuffle(seed=1).batch(4).to_keras()
        try:
            made.fit(feed, epochs=2, verbose=0, callbacks=[ps.keras_checkpoint(path, feed, 2), KillAfter(kill)])
        except Killed:
            continue
        return [weight.tolist() for weight in made.get_weights()]


def cases() -> dict[str, Any]:
    models: dict[str, Any] = {"two optimizers": TwoOptimizers, "one of a part": OneOfAPart}
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, model in models.items():
            whole = weights_of(model, f"{folder}/{name} whole", [])
            found[name] = weights_of(model, f"{folder}/{name}", [5, 3]) == whole
        try:
            weights_of(OneOfAPart, f"{folder}/two optimizers", [])
        except ps.errors.StateError as error:
            found["fewer optimizers"] = str(error).partition(": ")[2]
    return found


if __name__ == "__main__":
    print(json.dumps(cases()))
