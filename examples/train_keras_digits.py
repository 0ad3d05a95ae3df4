"""Keras learns handwritten digits; killed at any step and started again, it ends with the same weights.

    python examples/train_keras_digits.py --checkpoint digits.ckpt --kill-after 200
    python examples/train_keras_digits.py --checkpoint digits.ckpt

The data ship with scikit-learn. Works on all backends of Keras: KERAS_BACKEND=tensorflow, torch or jax.
"""

import argparse
import hashlib
import os
import resource
import signal
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from sklearn.datasets import load_digits

import penstock as ps

BATCH, ACCURACY = 32, 0.95


class KillAfter(keras.callbacks.Callback):
    """Ends the process as a machine does that fails: at once."""

    def __init__(self, num_steps: int) -> None:
        super().__init__()
        self.left = num_steps

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def noisy(image: np.ndarray, label: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """Augmentation whose random numbers depend on epoch and element only, so that a resumed run draws the same."""
    return (image / 16 + rng.normal(0, 0.05, image.shape)).astype(np.float32), label


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--checkpoint", help="file to save to, and to go on from if it exists")
    arguments.add_argument("--epochs", type=int, default=12)
    arguments.add_argument("--kill-after", type=int, help="kill this process after so many steps")
    args = arguments.parse_args()

    images, labels = load_digits(return_X_y=True)
    is_test = np.arange(len(images)) % 6 == 0
    test_images, test_labels = (images[is_test] / 16).astype(np.float32), labels[is_test]
    train = (
        ps.Dataset.from_tensor_slices((images[~is_test], labels[~is_test]))
        .shuffle(seed=1)
        .random_map(noisy, seed=2)
        .batch(BATCH)
        .prefetch(ps.AUTOTUNE)
    )

    keras.utils.set_random_seed(3)
    model = keras.Sequential([
        keras.Input((64,)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(10),
    ])  # fmt: skip
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.003), loss, metrics=["accuracy"])

    feed = train.to_keras(memory="32MB")
    callbacks: list[keras.callbacks.Callback] = []
    if args.checkpoint:
        callbacks.append(ps.keras_checkpoint(args.checkpoint, feed, every_steps=20))
    if args.kill_after:
        callbacks.append(KillAfter(args.kill_after))
    before = int(np.asarray(model.optimizer.iterations.value))
    began = time.perf_counter()
    model.fit(feed, epochs=args.epochs, verbose=0, callbacks=callbacks)
    seconds = time.perf_counter() - began

    steps = int(np.asarray(model.optimizer.iterations.value)) - before
    logits = np.asarray(model.predict(test_images, verbose=0))
    accuracy = float(np.mean(logits.argmax(1) == test_labels))
    weights = b"".join(np.ascontiguousarray(keras.ops.convert_to_numpy(w)).tobytes() for w in model.weights)
    print(f"steps           {steps}, with those before a kill; {seconds:.1f} s this time")
    print(f"peak memory     {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB, Keras included")
    print(f"weights         {hashlib.sha256(weights).hexdigest()[:16]}")
    print(f"test accuracy   {accuracy:.3f}, expected {ACCURACY} after 12 epochs")


if __name__ == "__main__":
    main()
