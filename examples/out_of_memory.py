"""Images prepared once, kept as TFRecord files, cached, shuffled and batched: what does it take to stay alive?

    python examples/out_of_memory.py [--images 10000] [--memory 64MB] [--epochs 2]

The images lie in one .npy file that is mapped, not loaded. Each contender first prepares them (resize, float16) into
four TFRecord files, then reads these for some epochs: parse, cache, shuffle, batch. Printed are the rate and the peak
memory of both halves. "tf.data" is the program as it is often written, with float32 from the parser on.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from _measure import Watch, compare, digest_of

RAW = (96, 96, 3)
SIZE = (64, 64)
NUM_FILES = 4
BUFFER = 10_000
BATCH = 64

Batches = Iterable[tuple[np.ndarray, np.ndarray]]


def make_images(folder: Path, count: int) -> np.ndarray:
    """A file of images, written piece by piece so that it is never in memory as a whole."""
    images = np.lib.format.open_memmap(folder / "raw.npy", mode="w+", dtype=np.uint8, shape=(count, *RAW))
    for start in range(0, count, 256):
        piece = images[start : start + 256]
        piece[:] = np.random.default_rng(start).integers(0, 256, piece.shape, dtype=np.uint8)
    images.flush()
    return np.load(folder / "raw.npy", mmap_mode="r")


# --- penstock -------------------------------------------------------------------------------------------------------


def penstock_prepare(images: np.ndarray, folder: Path, memory: str) -> list[str]:
    import penstock as ps

    def prepared(number: Any, image: np.ndarray) -> dict[str, Any]:
        small = ps.image.resize(image, SIZE) / np.float32(255)
        return {"image": small.astype(np.float16).tobytes(), "number": number}

    ds = ps.Dataset.from_tensor_slices((np.arange(len(images)), images)).map(prepared, num_parallel_calls=ps.AUTOTUNE)
    return ds.with_options(ps.Options(memory=memory)).to_tfrecord(folder / "train", num_shards=NUM_FILES)


def penstock_read(files: list[str], memory: str, cached: bool = True) -> Callable[[], Batches]:
    import penstock as ps

    features = {"image": ps.io.FixedLenFeature([], ps.string), "number": ps.io.FixedLenFeature([], "int64")}

    def parsed(record: bytes) -> tuple[np.ndarray, Any]:
        found = ps.io.parse_single_example(record, features)
        return np.frombuffer(found["image"], np.float16).reshape(*SIZE, 3), found["number"]

    ds = ps.TFRecordDataset(files).map(parsed)
    ds = (ds.cache() if cached else ds).shuffle(BUFFER, seed=1).batch(BATCH).prefetch(ps.AUTOTUNE)
    return lambda: ds.run(memory=memory)


def penstock_read_again(files: list[str], memory: str) -> Callable[[], Batches]:
    """Without a cache the shuffle is one of record numbers, and each epoch reads the files again."""
    return penstock_read(files, memory, cached=False)


# --- tf.data --------------------------------------------------------------------------------------------------------


def tf_prepare(images: np.ndarray, folder: Path, memory: str) -> list[str]:
    import tensorflow as tf

    def prepared(number: Any, image: Any) -> Any:
        return number, tf.io.serialize_tensor(tf.cast(tf.image.resize(image, SIZE) / 255, tf.float16))

    ds = tf.data.Dataset.from_tensor_slices((np.arange(len(images)), images)).map(prepared, tf.data.AUTOTUNE)
    files = [f"{folder}/train-{i}" for i in range(NUM_FILES)]
    writers = [tf.io.TFRecordWriter(file) for file in files]
    for number, image in ds.as_numpy_iterator():
        feature = {
            "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
            "number": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
        }
        example = tf.train.Example(features=tf.train.Features(feature=feature))
        writers[number % NUM_FILES].write(example.SerializeToString())
    for writer in writers:
        writer.close()
    return files


def tf_read(files: list[str], dtype: str) -> Callable[[], Batches]:
    import tensorflow as tf

    features = {"image": tf.io.FixedLenFeature([], tf.string), "number": tf.io.FixedLenFeature([], tf.int64)}

    def parsed(record: Any) -> Any:
        found = tf.io.parse_single_example(record, features)
        image = tf.ensure_shape(tf.io.parse_tensor(found["image"], tf.float16), (*SIZE, 3))
        return tf.cast(image, dtype), found["number"]

    ds = tf.data.TFRecordDataset(files).map(parsed, tf.data.AUTOTUNE).cache().shuffle(BUFFER, seed=1).batch(BATCH)
    return ds.prefetch(tf.data.AUTOTUNE).as_numpy_iterator


# --- both -----------------------------------------------------------------------------------------------------------


def by_number(batches: Batches, count: int) -> str:
    """Which data came, in whatever order."""
    sums = np.zeros((count, 2))
    for images, numbers in batches:
        flat = images.reshape(len(images), -1).astype(np.float64)
        sums[numbers, 0] += flat.sum(axis=1)
        sums[numbers, 1] += flat @ np.arange(flat.shape[1])
    return digest_of([sums])


def measured(prepare: Callable[..., list[str]], read: Callable[[list[str], str], Callable[[], Batches]]) -> Any:
    def contender(arguments: argparse.Namespace) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as name:
            warm, folder = Path(name, "warm"), Path(name, "full")
            warm.mkdir()
            folder.mkdir()
            for _ in read(prepare(make_images(warm, 8), warm, arguments.memory), arguments.memory)():
                pass  # what is loaded once is none of the images' cost
            images = make_images(folder, arguments.images)
            with Watch() as writing:
                files = prepare(images, folder, arguments.memory)
            with Watch() as reading:
                epoch = read(files, arguments.memory)
                for _ in range(arguments.epochs):
                    assert sum(len(numbers) for _, numbers in epoch()) == arguments.images
            return {
                "prepared/s": arguments.images / writing.seconds,
                "peak MB": writing.growth_mb,
                "read/s": arguments.epochs * arguments.images / reading.seconds,
                "peak MB, reading": reading.growth_mb,
                "digest": by_number(epoch(), arguments.images),
            }

    return contender


CONTENDERS = {
    "tf.data": measured(tf_prepare, lambda files, memory: tf_read(files, "float32")),
    "tf.data, float16": measured(tf_prepare, lambda files, memory: tf_read(files, "float16")),
    "penstock": measured(penstock_prepare, penstock_read),
    "penstock, no cache": measured(penstock_prepare, penstock_read_again),
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="One budget for preparing, caching, shuffling and batching.")
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--memory", default="64MB", help="penstock's budget")
    parser.add_argument("--epochs", type=int, default=2)
    sys.exit(compare(CONTENDERS, parser))
