"""A GradientTape loop over an array and over JPEG files: does the step load its batch, or is it there already?

    python examples/training_steps.py [--rows 6400] [--images 960] [--batch-size 32] [--device-ms 20]

The time around `next()` is the time that a step waits for data; its share of the whole loop is printed, with and
without `prefetch`. All contenders train the same small network on the same batches, in order. After each step the loop
sleeps for some milliseconds, as one does that waits for an accelerator: the cores are free for the next batch then.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from _measure import Watch, compare, digest_of

SIZE = 64

Data = tuple[Any, np.ndarray]
Pipeline = Callable[[Data, int, bool], Iterable[Any]]


def make_array(count: int, folder: Path) -> Data:
    rng = np.random.default_rng(0)
    return rng.random((count, SIZE, SIZE, 3), np.float32), rng.integers(0, 10, count)


def make_files(count: int, folder: Path) -> Data:
    """JPEG files of 256 x 256 pixels: smooth, so that they are of the size that photographs have."""
    import penstock as ps

    rng = np.random.default_rng(0)
    names = []
    for number in range(count):
        image = ps.image.resize(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8), (256, 256))
        names.append(str(folder / f"{number}.jpg"))
        Path(names[-1]).write_bytes(ps.image.encode_jpeg(image.astype(np.uint8)))
    return names, rng.integers(0, 10, count)


# --- pipelines ------------------------------------------------------------------------------------------------------


def penstock_array(data: Data, batch_size: int, ahead: bool) -> Iterable[Any]:
    import penstock as ps

    ds = ps.Dataset.from_tensor_slices(data).batch(batch_size)
    return (ds.prefetch(ps.AUTOTUNE) if ahead else ds).to_tf(memory="64MB")


def penstock_files(data: Data, batch_size: int, ahead: bool) -> Iterable[Any]:
    import penstock as ps

    def load(name: bytes, label: Any) -> Any:
        image = ps.image.decode_jpeg(ps.io.read_file(name), channels=3)
        return ps.image.resize(image, (SIZE, SIZE)) / np.float32(255), label

    ds = ps.Dataset.from_tensor_slices(data).map(load, num_parallel_calls=ps.AUTOTUNE if ahead else None)
    ds = ds.batch(batch_size)
    return (ds.prefetch(ps.AUTOTUNE) if ahead else ds).to_tf(memory="64MB")


def tf_array(data: Data, batch_size: int, ahead: bool) -> Iterable[Any]:
    import tensorflow as tf

    ds = tf.data.Dataset.from_tensor_slices(data).batch(batch_size)
    return ds.prefetch(tf.data.AUTOTUNE) if ahead else ds


def tf_files(data: Data, batch_size: int, ahead: bool) -> Iterable[Any]:
    import tensorflow as tf

    def load(name: Any, label: Any) -> Any:
        image = tf.io.decode_jpeg(tf.io.read_file(name), channels=3, dct_method="INTEGER_ACCURATE")
        return tf.image.resize(image, (SIZE, SIZE)) / 255, label

    ds = tf.data.Dataset.from_tensor_slices(data).map(load, tf.data.AUTOTUNE if ahead else None).batch(batch_size)
    return ds.prefetch(tf.data.AUTOTUNE) if ahead else ds


# --- the loop -------------------------------------------------------------------------------------------------------


def make_step() -> Callable[[Any, Any], Any]:
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 3)),
            layers.Conv2D(16, 3, strides=2, activation="relu"),
            layers.Conv2D(32, 3, strides=2, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10),
        ]
    )
    weights = model.trainable_variables

    @tf.function(reduce_retracing=True)
    def step(images: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(images, training=True))
            loss = tf.reduce_mean(losses)
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.01 * gradient)
        return loss

    return step


def train(batches: Iterable[Any], step: Callable[[Any, Any], Any], device_ms: float) -> tuple[int, float]:
    """How many rows there were, and how many seconds the loop waited for them."""
    rows, waited_s = 0, 0.0
    iterator = iter(batches)
    while True:
        start = time.perf_counter()
        batch = next(iterator, None)
        waited_s += time.perf_counter() - start
        if batch is None:
            return rows, waited_s
        step(*batch).numpy()  # the loss as a number: the step is done when it is here
        time.sleep(device_ms / 1000)
        rows += len(batch[1])


def measured(kind: str, make_data: Callable[[int, Path], Data], pipeline: Pipeline) -> Any:
    def contender(arguments: argparse.Namespace) -> dict[str, Any]:
        result: dict[str, Any] = {}
        with tempfile.TemporaryDirectory() as folder:
            count = arguments.rows if kind == "array" else arguments.images
            data = make_data(count, Path(folder))
            step = make_step()
            few = (data[0][: 2 * arguments.batch_size], data[1][: 2 * arguments.batch_size])
            for ahead in (False, True):  # traces the step, and starts what is started once
                train(pipeline(few, arguments.batch_size, ahead), step, 0)
            with Watch() as watch:
                for ahead in (False, True):
                    batches = pipeline(data, arguments.batch_size, ahead)
                    start = time.perf_counter()
                    rows, waited_s = train(batches, step, arguments.device_ms)
                    seconds = time.perf_counter() - start
                    assert rows == count
                    suffix = ", prefetch" if ahead else ""
                    result[f"rows/s{suffix}"] = rows / seconds
                    result[f"waits %{suffix}"] = 100 * waited_s / seconds
            digest = digest_of(pipeline(data, arguments.batch_size, True))
        return {**result, "peak MB": watch.growth_mb, "digest": digest}

    return contender


PIPELINES = {
    "array": (make_array, {"tf.data": tf_array, "penstock": penstock_array}),
    "files": (make_files, {"tf.data": tf_files, "penstock": penstock_files}),
}
CONTENDERS = {
    f"{kind}, {name}": measured(kind, make_data, pipeline)
    for kind, (make_data, pipelines) in PIPELINES.items()
    for name, pipeline in pipelines.items()
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="How long does a training step wait for its data?")
    parser.add_argument("--rows", type=int, default=6_400, help="of the array")
    parser.add_argument("--images", type=int, default=960, help="files")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--device-ms", type=float, default=20, help="what an accelerator would take for each step")
    sys.exit(compare(CONTENDERS, parser, kinds=True))
