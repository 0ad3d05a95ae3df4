"""Random augmentation in `model.fit`, for many epochs: does memory grow?

    python examples/memory_in_fit.py [--images 1024] [--epochs 12] [--batch-size 32]

What the process occupies is noted at the end of each epoch, and what the pipeline itself held at most. "made anew"
builds its tf.data pipeline in the loop over epochs, as programs do that change it from one to the next; "a leak" is
penstock with a function that keeps what it made. Augmentation draws other numbers in each framework: compared are the
labels that came with the images.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from _measure import Watch, compare, digest_of

from penstock.observe.process import resident_bytes

SIZE = 96
CROP = 80
MB = 1e6


def tf_augment(image: Any, label: Any) -> Any:
    import tensorflow as tf

    image = tf.image.random_crop(tf.cast(image, tf.float32) / 255, (CROP, CROP, 3))
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, 0.2)
    image = tf.image.random_contrast(image, 0.7, 1.3)
    return image + tf.random.normal((CROP, CROP, 3), stddev=0.02), label


def augment(image: Any, label: Any, rng: np.random.Generator) -> Any:
    import penstock as ps

    image = ps.image.random_crop(image, (CROP, CROP, 3), rng).astype(np.float32) / np.float32(255)
    image = ps.image.random_flip_left_right(image, rng)
    image = ps.image.random_brightness(image, 0.2, rng)
    image = ps.image.random_contrast(image, 0.7, 1.3, rng)
    return image + np.float32(0.02) * rng.standard_normal(image.shape, np.float32), label


KEPT: list[Any] = []


def leaking_augment(image: Any, label: Any, rng: np.random.Generator) -> Any:
    result = augment(image, label, rng)
    KEPT.append(result)
    return result


def tf_dataset(data: Any, batch_size: int) -> Any:
    import tensorflow as tf

    ds = tf.data.Dataset.from_tensor_slices(data).map(tf_augment, tf.data.AUTOTUNE).batch(batch_size)
    return ds.prefetch(tf.data.AUTOTUNE)


def penstock_dataset(data: Any, batch_size: int, function: Callable[..., Any] = augment) -> Any:
    import penstock as ps

    ds = ps.Dataset.from_tensor_slices(data).random_map(function, seed=1, num_parallel_calls=2).batch(batch_size)
    return ds.prefetch(4).to_keras(memory="64MB")


def leaking_dataset(data: Any, batch_size: int) -> Any:
    return penstock_dataset(data, batch_size, leaking_augment)


def labels_of(feed: Any) -> list[np.ndarray]:
    """The labels of one epoch: of a tf.data pipeline, or of what penstock gives to Keras."""
    dataset = getattr(feed, "dataset", feed)
    return [np.asarray(labels) for _, labels in dataset]


def measured(make_dataset: Callable[[Any, int], Any], anew: bool = False) -> Any:
    def contender(arguments: argparse.Namespace) -> dict[str, Any]:
        import keras

        rng = np.random.default_rng(0)
        data = rng.integers(0, 256, (arguments.images, SIZE, SIZE, 3), dtype=np.uint8), np.arange(arguments.images) % 10
        model = keras.Sequential(
            [
                keras.Input((CROP, CROP, 3)),
                keras.layers.Conv2D(8, 5, strides=4, activation="relu"),
                keras.layers.GlobalAveragePooling2D(),
                keras.layers.Dense(10),
            ]
        )
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        few = make_dataset((data[0][:64], data[1][:64]), arguments.batch_size)
        model.fit(few, epochs=2, verbose=0)  # what is loaded once is none of an epoch's cost
        KEPT.clear()

        before, after, held = resident_bytes(), [], []

        def note(epoch: int, logs: Any) -> None:
            after.append(resident_bytes())
            run = getattr(feed, "last_run", None)  # tf.data has nothing like it
            if run is not None:
                held.append(run.memory()["peak_bytes"])

        callbacks = [keras.callbacks.LambdaCallback(on_epoch_end=note)]
        with Watch() as watch:
            if anew:
                for _ in range(arguments.epochs):
                    feed = make_dataset(data, arguments.batch_size)
                    model.fit(feed, epochs=1, verbose=0, callbacks=callbacks)
            else:
                feed = make_dataset(data, arguments.batch_size)
                model.fit(feed, epochs=arguments.epochs, verbose=0, callbacks=callbacks)
        early = after[len(after) // 3]
        return {
            "images/s": arguments.images * arguments.epochs / watch.seconds,
            "peak MB": watch.growth_mb,
            "MB, a third through": (early - before) / MB,
            "MB, at the end": (after[-1] - before) / MB,
            "pipeline MB": max(held) / MB if held else None,
            "digest": digest_of(labels_of(make_dataset(data, arguments.batch_size))),
        }

    return contender


CONTENDERS = {
    "tf.data": measured(tf_dataset),
    "tf.data, made anew": measured(tf_dataset, anew=True),
    "penstock": measured(penstock_dataset),
    "penstock, a leak": measured(leaking_dataset),
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What a process occupies from epoch to epoch.")
    parser.add_argument("--images", type=int, default=1_024)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=32)
    sys.exit(compare(CONTENDERS, parser))
