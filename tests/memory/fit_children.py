"""What a process occupies over the epochs of `model.fit`, by what feeds it. Prints one line of JSON.

KERAS_BACKEND=torch python fit_children.py
"""

import ctypes
import gc
import json
import os
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import keras
import numpy as np

import penstock as ps
from penstock.observe.process import resident_bytes

# What lies between arrays in the heap grows by some MB at first, and ever less.
NUM_SETTLING, NUM_EPOCHS = 12, 36
NUM_BATCHES, BATCH_SIZE, WIDTH = 4, 64, 4096
BATCH_BYTES = BATCH_SIZE * WIDTH * 4
ROWS = np.random.default_rng(0).integers(0, 256, (NUM_BATCHES * BATCH_SIZE, WIDTH), dtype=np.uint8)
LABELS = np.arange(len(ROWS)) % 10


def settled() -> int:
    """What is occupied without garbage, and without what malloc keeps for later."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return resident_bytes()


def augment(row: Any, label: Any, rng: np.random.Generator) -> Any:
    return row * np.float32(rng.random() / 255), label


def augmented() -> ps.Dataset:
    rows = ps.Dataset.from_tensor_slices((ROWS, LABELS)).shuffle(seed=1)
    return rows.random_map(augment, seed=2, num_parallel_calls=2).batch(BATCH_SIZE).prefetch(2)


def leaking(kept: list[Any]) -> ps.Dataset:
    """One batch of each epoch is kept."""

    def keep(number: Any, batch: Any) -> Any:
        if number == 0:
            kept.append(batch[0].copy())
        return batch

    return augmented().enumerate().map(keep)


def growth(*data: Any, **fit_args: Any) -> float:
    """By how many batches a process grows after the first epochs of a fit."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(10)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    after: list[int] = []
    note = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: after.append(settled()))
    model.fit(*data, epochs=NUM_EPOCHS, verbose=0, callbacks=[note], **fit_args)
    # How many batches are ready when an epoch ends is a matter of chance: no single epoch says much.
    early, late = np.median(after[NUM_SETTLING:][:5]), np.median(after[-5:])
    return float(late - early) / BATCH_BYTES


if __name__ == "__main__":
    gc.freeze()  # frameworks have a million objects: to look through them takes longer than an epoch
    first_epoch = [np.concatenate(parts) for parts in zip(*augmented(), strict=True)]
    found = {
        "arrays": growth(*first_epoch, batch_size=BATCH_SIZE),
        "penstock": growth(augmented().to_keras(memory="16MB")),
        "a leak": growth(leaking([]).to_keras(memory="16MB")),
    }
    print(json.dumps(found))
