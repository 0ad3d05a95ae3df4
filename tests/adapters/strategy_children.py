"""Programs for test_tf_memory.py: what is trained on, before and after, with some devices of TensorFlow's on one CPU.

python strategy_children.py <number of devices>: prints one line of JSON, what each way to train has changed.
"""

import contextlib
import functools
import json
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import penstock as ps

IS_PROGRAM = __name__ == "__main__"  # and not looked through for tests
NUM_DEVICES = int(sys.argv[1]) if IS_PROGRAM else 1
# Each replica has as many rows of a batch, and a batch is large enough to be in a slot.
SIZE = 16 * NUM_DEVICES
NUM = 2 * NUM_DEVICES * SIZE
EPOCHS = 2
warnings.filterwarnings("ignore", "`shuffle=True` was passed")

STRATEGY: Any = None
if IS_PROGRAM:
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * NUM_DEVICES
    )
    STRATEGY = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(NUM_DEVICES)])


def aligned(values: np.ndarray) -> np.ndarray:
    """A copy that TensorFlow would make tensors on."""
    raw = np.empty(values.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    array = raw[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    array[...] = values
    return array


X = np.random.default_rng(0).random((NUM, 64), np.float32)
Y = X[:, ::-1] * 2.0


def fitted(data: Any, **compiled: Any) -> list[float]:
    """The losses of some epochs."""
    keras.utils.set_random_seed(0)
    with STRATEGY.scope() if NUM_DEVICES > 1 else contextlib.nullcontext():
        model = keras.Sequential([keras.layers.Dense(64)])
        model.compile(keras.optimizers.SGD(0.01, momentum=0.5), "mse", **compiled)
    return [float(loss) for loss in model.fit(data, epochs=EPOCHS, verbose=0).history["loss"]]


def square(x: Any, y: Any) -> Any:
    return tf.reduce_mean(tf.square(x * 2.0 + 1.0 - y * 3.0))


def dealt(iterable: Any) -> list[float]:
    """What replicas compute of their parts, in a graph that reads these."""

    @tf.function
    def read(batches: Any) -> Any:
        return STRATEGY.reduce("SUM", STRATEGY.run(square, args=next(batches)), axis=None)

    found = []
    for _ in range(EPOCHS):
        batches = iter(iterable)
        found.append(sum(float(read(batches)) for _ in range(2)))
    return found


def whole(data: Any) -> list[float]:
    return dealt(STRATEGY.experimental_distribute_dataset(data))


def from_function(data: Any) -> list[float]:
    """Each replica reads batches of its own, and makes less of them."""
    halves = data.map(lambda x, y: (x[:16] + 1.0, y[:16] * 2.0))
    return dealt(STRATEGY.distribute_datasets_from_function(lambda context: halves))


def put_aside(data: ps.Dataset) -> ps.Dataset:
    """Batches that a function has made once, and gives again in each epoch."""
    known: dict[int, Any] = {}

    def of(number: int, x: np.ndarray, y: np.ndarray) -> Any:
        return known.setdefault(int(number), (aligned(x), aligned(y)))

    return data.enumerate().map(lambda number, batch: of(number, *batch))


KINDS: dict[str, Callable[[ps.Dataset], ps.Dataset]] = {
    "views": lambda data: data,
    "cached": lambda data: data.map(lambda x, y: (aligned(x), aligned(y))).cache(),
    "put aside": put_aside,
}
# What is read, how, and by what: it is given a dataset of tf.data's, too.
Way = tuple[str, str, Callable[[Any], list[float]]]
ON_SEVERAL: list[Way] = [
    ("views", "to_keras", fitted),
    ("cached", "to_keras", fitted),
    ("put aside", "to_tf", fitted),
    ("views", "to_tf", whole),
    ("cached", "to_tf", from_function),
]
ON_ONE: list[Way] = [
    ("views", "to_keras", functools.partial(fitted, jit_compile=True)),
    ("views", "to_keras", functools.partial(fitted, jit_compile=False, steps_per_execution=5)),
    ("views", "to_tf", functools.partial(fitted, run_eagerly=True)),
]


def changes(kind: str, method: str, read: Callable[[Any], list[float]]) -> dict[str, Any]:
    """How many numbers that were read are others afterwards, and what was made of them, compared to tf.data."""
    x, y = aligned(X), aligned(Y)
    found = read(getattr(KINDS[kind](ps.Dataset.from_tensor_slices((x, y)).batch(SIZE)), method)())
    expected = read(tf.data.Dataset.from_tensor_slices((X, Y)).batch(SIZE))
    return {"changed": int((x != X).sum() + (y != Y).sum()), "same": np.allclose(found, expected, rtol=1e-3)}


if IS_PROGRAM:
    ways = {1: ON_ONE, 2: ON_SEVERAL, 3: ON_SEVERAL[:2]}[NUM_DEVICES]
    print(json.dumps([changes(*way) for way in ways]))
