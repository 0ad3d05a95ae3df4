"""Programs for test_keras.py, under TensorFlow: what `fit` and `evaluate` say of the losses, as for tf.data's datasets.

Prints one line of JSON: the cases where they differ.
"""

import json
import os
import warnings
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import penstock as ps

D = ps.Dataset
NUM, SIZE = 31, 16  # the last batch is a smaller one
X = np.ones((NUM, 1), np.float32)
Y = np.repeat(np.float32([0, 1]), [SIZE, NUM - SIZE])
warnings.filterwarnings("ignore", "Your input ran out of data")


def model(**compile_args: Any) -> Any:
    """Two outputs, which are 0 and stay so."""
    given = keras.Input((1,))
    outputs = [keras.layers.Dense(1, kernel_initializer="zeros", use_bias=False, name=name)(given) for name in "ab"]
    made = keras.Model(given, outputs)
    made.compile(keras.optimizers.SGD(0.0), "mse", **compile_args)
    return made


def logs(data: Any, **compile_args: Any) -> dict[str, Any]:
    made = model(**compile_args)
    history = made.fit(data, epochs=2, validation_data=data, verbose=0).history
    found = {**history, "evaluate": made.evaluate(data, verbose=0), "steps": [int(made.optimizer.iterations)]}
    return {name: np.round(values, 5).tolist() for name, values in found.items()}


def different() -> list[Any]:
    """Cases in which ours says something else than tf.data."""
    parts = (X, (Y, Y))
    theirs = tf.data.Dataset.from_tensor_slices(parts)
    ours = D.from_tensor_slices(parts)
    unseen = ours.batch(SIZE).map(lambda x, y: (x, y))
    cases: list[tuple[Any, list[ps.Dataset], dict[str, Any]]] = [
        (theirs.batch(SIZE), [ours.batch(SIZE), unseen], {}),
        (theirs.batch(SIZE), [ours.batch(SIZE)], {"run_eagerly": True}),
        # More steps than there are, and a last execution of fewer.
        (theirs.batch(SIZE), [ours.batch(SIZE), unseen.filter(lambda x, y: True)], {"steps_per_execution": 3}),
        (theirs.batch(10), [ours.batch(10)], {"steps_per_execution": 3}),
        (theirs.batch(10, drop_remainder=True), [ours.batch(10, drop_remainder=True)], {}),
    ]
    found = []
    for theirs_in_batches, datasets, compile_args in cases:
        expected = logs(theirs_in_batches, **compile_args)
        for dataset in datasets:
            for feed in (dataset.to_keras(), dataset.to_tf()):
                got = logs(feed, **compile_args)
                if got != expected:
                    found.append([str(dataset), type(feed).__name__, compile_args, got, expected])
    return found


def sizes_seen() -> dict[str, Any]:
    """The sizes of batches that a step is compiled for, and those that one sees that is not."""
    seen: list[int | None] = []

    class Noting(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def build(self, shape: Any) -> None:
            self.dense.build(shape)

        def call(self, x: Any) -> Any:
            seen.append(x.shape[0])
            return self.dense(x)

    def sizes(dataset: ps.Dataset, **compile_args: Any) -> list[int | None]:
        made = Noting()
        made.build((None, 1))
        made.compile("sgd", "mse", **compile_args)
        seen.clear()
        made.fit(dataset.to_keras(), verbose=0)
        return sorted(set(seen), key=str)

    rows = D.from_tensor_slices((X, Y))
    return {
        "of any size": sizes(rows.batch(SIZE)),
        "of one size": sizes(rows.batch(SIZE, drop_remainder=True)),
        "not compiled": sizes(rows.batch(SIZE), run_eagerly=True),
    }


if __name__ == "__main__":
    print(json.dumps({"different": different(), "sizes": sizes_seen()}))
