"""How fast do folders of photographs become batches, as users write it, and how much memory does it take?

JPEG files of 500 x 375 are read, decoded, resized to 224 x 224, scaled to 0..1 and batched, on two threads; then the
same with a shuffle after the decoding, where it must not hold decoded images.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.workload import Batch, Contender, Epoch, Target, Workload

FILES, DISTINCT, BATCH, SIDE, THREADS = 2_000, 50, 32, 224, 2


class Folder:
    """A folder of JPEG files that goes with this object. Few are distinct: the others are links to them."""

    def __init__(self, num_files: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-bench-")
        self.names = [str(Path(self._folder.name, f"{number:05}.jpg")) for number in range(num_files)]
        for number, name in enumerate(self.names):
            if number < DISTINCT:
                Path(name).write_bytes(photograph(number))
            else:
                os.link(self.names[number % DISTINCT], name)


def photograph(seed: int) -> bytes:
    """A JPEG with shapes of all sizes and some grain: about 70 kB, as photographs of this size have."""
    import cv2

    rng = np.random.default_rng(seed)
    pixels = rng.normal(128, 4, (375, 500, 3)).astype(np.float32)
    for side in (4, 8, 16, 32, 64, 128):
        shapes = rng.normal(0, 120 / side**0.5, (side * 3 // 2, side * 2, 3)).astype(np.float32)
        pixels += cv2.resize(shapes, (500, 375), interpolation=cv2.INTER_CUBIC)
    _, encoded = cv2.imencode(".jpg", np.clip(pixels, 0, 255).astype(np.uint8), [cv2.IMWRITE_JPEG_QUALITY, 90])
    contents: bytes = encoded.tobytes()
    return contents


def load(name: Any) -> Batch:
    import penstock as ps

    image = ps.image.decode_jpeg(ps.io.read_file(name), channels=3)
    return ps.image.resize(image, (SIDE, SIDE)) / np.float32(255)


def build_penstock(folder: Folder) -> Epoch:
    import penstock as ps

    dataset = ps.Dataset.from_tensor_slices(folder.names).map(load, num_parallel_calls=THREADS).batch(BATCH)
    return lambda: iter(dataset)


def build_penstock_shuffle(folder: Folder) -> Epoch:
    import penstock as ps

    loaded = ps.Dataset.from_tensor_slices(folder.names).map(load, num_parallel_calls=THREADS)
    dataset = loaded.shuffle(1000, seed=1).batch(BATCH)
    return lambda: iter(dataset)


def loaded_by_tf(folder: Folder) -> Any:
    import tensorflow as tf

    def load_by_tf(name: Any) -> Any:
        return tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(name), channels=3), (SIDE, SIDE)) / 255

    return tf.data.Dataset.from_tensor_slices(folder.names).map(load_by_tf, num_parallel_calls=THREADS)


def build_tf_data(folder: Folder) -> Epoch:
    dataset = loaded_by_tf(folder).batch(BATCH)
    return lambda: dataset.as_numpy_iterator()


def build_tf_data_shuffle(folder: Folder) -> Epoch:
    dataset = loaded_by_tf(folder).shuffle(1000).batch(BATCH)
    return lambda: dataset.as_numpy_iterator()


def build_threads(folder: Folder) -> Epoch:
    """What an expert would write: two threads that decode into a new batch, OpenCV's own threads off."""
    import cv2
    import simplejpeg

    cv2.setNumThreads(0)

    def fill(slot: Batch, name: str) -> None:
        pixels = simplejpeg.decode_jpeg(Path(name).read_bytes())
        np.divide(cv2.resize(pixels, (SIDE, SIDE)), np.float32(255), out=slot, dtype=np.float32)

    def epoch() -> Iterator[Batch]:
        with ThreadPoolExecutor(THREADS) as threads:
            for start in range(0, len(folder.names), BATCH):
                names = folder.names[start : start + BATCH]
                batch = np.empty((len(names), SIDE, SIDE, 3), np.float32)
                list(threads.map(fill, batch, names))
                yield batch

    return epoch


LIBRARIES = ("cv2", "simplejpeg")
SHAPE = ((BATCH, SIDE, SIDE, 3), "float32")

WORKLOADS = (
    Workload(
        "jpeg",
        "2,000 JPEG files of 500 x 375, decode, resize to 224, / 255, batch 32, two threads",
        (
            Contender("penstock", "penstock", build_penstock, ("penstock", "penstock.image", *LIBRARIES)),
            Contender("tf.data", "tf.data", build_tf_data, ("tensorflow", *LIBRARIES)),
            Contender("hand: two threads", "hand", build_threads, LIBRARIES),
        ),
        (Target("penstock", 1.15, over="tf.data"), Target("penstock", 0.9, over="hand: two threads")),
        limit="hand: two threads",
        make_data=Folder,
        rows=FILES,
        quick_rows=FILES // 5,
        batch=SHAPE,
    ),
    Workload(
        "jpeg-shuffle",
        "the same, shuffle(1000) after the decoding",
        (
            Contender("penstock", "penstock", build_penstock_shuffle, ("penstock", "penstock.image", *LIBRARIES)),
            Contender("tf.data", "tf.data", build_tf_data_shuffle, ("tensorflow", *LIBRARIES), in_quick=False),
        ),
        (Target("penstock", 60e6, of="extra_bytes"),),
        make_data=Folder,
        rows=FILES,
        quick_rows=FILES // 5,
        batch=SHAPE,
    ),
)
