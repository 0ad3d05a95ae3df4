"""How many rows a second does a training loop take, fed by penstock and by what its framework brings along?

`train-cnn` is a real step, of a small convolutional network: the loop must not wait for its input. `train-cnn-fit` has
one with larger activations, megabytes that TensorFlow takes and frees in each step, under a budget of 64 MB: that must
not be felt there. In `train-input-tf` and `train-input-torch` the step is one sum, so that input is what takes the
time; in TensorFlow, where even such a step takes 0.3 ms, the images are bytes that the pipeline makes numbers of, as
users write it. `train-step-tf` has them as numbers already: there the step is most of the time. `train-tensors` has no
step at all, and batches of 16 rows that are views: what is left is what tensors cost, next to plain arrays (seconds for
each batch: 16 divided by the rate).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from benchmarks.workload import Batch, Contender, Epoch, Target, Workload

BATCH = 64
SMALL = 16
Data = tuple[Batch, Batch]


def make_images(rows: int) -> Data:
    rng = np.random.default_rng(0)
    return rng.random((rows, 32, 32, 3), np.float32), rng.integers(0, 10, rows, np.int32)


def make_photos(rows: int) -> Data:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (rows, 32, 32, 3), np.uint8), rng.integers(0, 10, rows, np.int32)


def count(batches: Iterable[Batch]) -> int:
    return sum(len(batch) for batch in batches)


def loop(feed: Iterable[Any], step: Callable[[Any, Any], Any], array_of: Callable[[Any], Batch]) -> Iterator[Batch]:
    """Trains, and gives the labels of each batch."""
    for x, y in feed:
        step(x, y)
        yield array_of(y)


def penstock_dataset(data: Data) -> Any:
    import penstock as ps

    return ps.Dataset.from_tensor_slices(data).shuffle(seed=1).batch(BATCH)


def penstock_to_tf(data: Data) -> Any:
    return penstock_dataset(data).to_tf()


def penstock_scaled_to_tf(data: Data) -> Any:
    import penstock as ps

    images = ps.Dataset.from_tensor_slices(data).shuffle(seed=1)
    return images.map(lambda x, y: (x.astype(np.float32) / 255, y)).batch(BATCH).to_tf()


def penstock_to_keras(data: Data) -> Any:
    return penstock_dataset(data).to_keras()


def penstock_in_64_mb(data: Data) -> Any:
    import penstock as ps

    return penstock_dataset(data).with_options(ps.Options(memory="64MB")).to_keras()


def tf_dataset(data: Data) -> Any:
    import tensorflow as tf

    return (
        tf.data.Dataset.from_tensor_slices(data).shuffle(len(data[0]), seed=1).batch(BATCH).prefetch(tf.data.AUTOTUNE)
    )


def tf_scaled_dataset(data: Data) -> Any:
    import tensorflow as tf

    def scaled(x: Any, y: Any) -> Any:
        return tf.cast(x, tf.float32) / 255, y

    images = tf.data.Dataset.from_tensor_slices(data).shuffle(len(data[0]), seed=1)
    return images.map(scaled, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH).prefetch(tf.data.AUTOTUNE)


# --- TensorFlow -----------------------------------------------------------------------------------------------------


def cnn_step() -> Callable[[Any, Any], Any]:
    import keras
    import tensorflow as tf

    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            layers.Conv2D(16, 3, strides=2, activation="relu"),
            layers.Conv2D(32, 3, strides=2, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10),
        ]
    )
    optimizer = keras.optimizers.SGD(0.01)
    optimizer.build(model.trainable_variables)

    @tf.function(reduce_retracing=True)
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x, training=True))
            loss = tf.reduce_mean(losses)
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return loss

    return step


def sum_step_tf() -> Callable[[Any, Any], Any]:
    import tensorflow as tf

    total = tf.Variable(0.0)

    @tf.function(reduce_retracing=True)
    def step(x: Any, y: Any) -> None:
        total.assign_add(tf.reduce_sum(x[:, 0, 0, 0]))

    return step


def in_tf(feed_of: Callable[[Data], Any], make_step: Callable[[], Any]) -> Callable[[Data], Epoch]:
    def build(data: Data) -> Epoch:
        feed, step = feed_of(data), make_step()
        return lambda: loop(feed, step, lambda y: y.numpy())

    return build


def in_fit(feed_of: Callable[[Data], Any], num_filters: tuple[int, ...] = ()) -> Callable[[Data], Epoch]:
    """`model.fit` itself, on a linear model or a convolutional one; all its rows are taken to be trained on."""

    def build(data: Data) -> Epoch:
        import keras

        layers = keras.layers
        convolutions = [layers.Conv2D(count, 3, activation="relu") for count in num_filters]
        model = keras.Sequential(
            [keras.Input((32, 32, 3)), *convolutions, layers.GlobalAveragePooling2D(), layers.Dense(10)]
        )
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        feed = feed_of(data)

        def epoch() -> Iterator[Batch]:
            model.fit(feed, epochs=1, verbose=0, shuffle=False)
            labels = data[1]
            return (labels[start : start + BATCH] for start in range(0, len(labels), BATCH))

        return epoch

    return build


# --- PyTorch --------------------------------------------------------------------------------------------------------


def sum_step_torch(x: Any, y: Any) -> Any:
    return x[:, 0, 0, 0].sum()


def build_penstock_torch(data: Data) -> Epoch:
    feed = penstock_dataset(data).to_torch()
    return lambda: loop(feed, sum_step_torch, lambda y: y.numpy())


def build_loader(data: Data, num_workers: int) -> Epoch:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    rows = TensorDataset(*map(torch.from_numpy, data))
    feed: Any = DataLoader(
        rows, batch_size=BATCH, shuffle=True, num_workers=num_workers, persistent_workers=num_workers > 0
    )
    return lambda: loop(feed, sum_step_torch, lambda y: y.numpy())


# --- what tensors cost ----------------------------------------------------------------------------------------------


def tensors(method: str | None) -> Callable[[Data], Epoch]:
    def build(data: Data) -> Epoch:
        import penstock as ps

        dataset = ps.Dataset.from_tensor_slices(data).batch(SMALL)
        feed = dataset if method is None else getattr(dataset, method)()
        labels = data[1][:SMALL]

        def epoch() -> Iterator[Batch]:
            for _ in feed:
                yield labels

        return epoch

    return build


TORCH_CONTENDERS = (
    Contender("penstock", "penstock", build_penstock_torch, ("penstock", "torch")),
    Contender("DataLoader", "torch", lambda data: build_loader(data, 0), ("torch",)),
    Contender("DataLoader, 2 workers", "torch", lambda data: build_loader(data, 2), ("torch",), has_workers=True),
)


def training(
    name: str,
    title: str,
    contenders: tuple[Contender, ...],
    targets: tuple[Target, ...],
    make_data: Callable[[int], Any] = make_images,
    rows: int = 12_800,
    batch: int = BATCH,
) -> Workload:
    """Epochs of which the labels are counted."""
    sizes = {"rows": rows, "quick_rows": rows // 5}
    return Workload(
        name, title, contenders, targets, make_data=make_data, batch=((batch,), "int32"), consume=count, **sizes
    )


def beside_tf(penstock: Any, tensorflow: Any) -> tuple[Contender, ...]:
    return (
        Contender("penstock", "penstock", penstock, ("tensorflow",)),
        Contender("tf.data", "tf.data", tensorflow, ("tensorflow",)),
    )


def at_least(ratio: float, *over: str) -> tuple[Target, ...]:
    return tuple(Target("penstock", ratio, over=peer) for peer in over)


WORKLOADS = (
    training(
        "train-cnn",
        "a small CNN in TensorFlow, 32x32x3 float32 images, shuffled, batch 64",
        beside_tf(in_tf(penstock_to_tf, cnn_step), in_tf(tf_dataset, cnn_step)),
        at_least(1.0, "tf.data"),
        rows=6400,
    ),
    training(
        "train-cnn-fit",
        "the images of train-cnn, a CNN of 32 and 64 filters, model.fit of Keras on TensorFlow, a budget of 64 MB",
        beside_tf(in_fit(penstock_in_64_mb, (32, 64)), in_fit(tf_dataset, (32, 64))),
        at_least(1.0, "tf.data"),
        rows=3200,
    ),
    training(
        "train-input-tf",
        "32x32x3 uint8 images, shuffled, scaled to 0..1, batch 64; a step that is one sum, in TensorFlow",
        beside_tf(in_tf(penstock_scaled_to_tf, sum_step_tf), in_tf(tf_scaled_dataset, sum_step_tf)),
        at_least(1.5, "tf.data"),
        make_data=make_photos,
    ),
    training(
        "train-step-tf",
        "the images of train-cnn, a step that is one sum, in TensorFlow",
        beside_tf(in_tf(penstock_to_tf, sum_step_tf), in_tf(tf_dataset, sum_step_tf)),
        at_least(1.0, "tf.data"),
    ),
    training(
        "train-input-fit",
        "the images of train-cnn, a linear model, model.fit of Keras on TensorFlow",
        beside_tf(in_fit(penstock_to_keras), in_fit(tf_dataset)),
        at_least(1.0, "tf.data"),
    ),
    training(
        "train-input-torch",
        "the images of train-cnn, a step that is one sum, in PyTorch",
        TORCH_CONTENDERS,
        at_least(3.0, "DataLoader", "DataLoader, 2 workers"),
    ),
    training(
        "train-tensors",
        "(x, y) of 16 rows, as arrays and as tensors: what an adapter costs",
        (
            Contender("arrays", "penstock", tensors(None), ("penstock",)),
            Contender("to_torch", "penstock", tensors("to_torch"), ("torch",)),
            Contender("to_jax", "penstock", tensors("to_jax"), ("jax",)),
            Contender("to_tf", "penstock", tensors("to_tf"), ("tensorflow",)),
        ),
        (),
        rows=16_000,
        batch=SMALL,
    ),
)
