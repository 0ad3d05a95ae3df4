"""A NumPy array of 400 MB, sliced, batched and consumed: how much memory does that take, and how long?

    python examples/from_tensor_slices.py [--rows 100000] [--columns 500] [--batch-size 1000]

tf.data three times: the array given to `from_tensor_slices`, the same with a shuffle of all rows, and the array used
inside a function (`map(lambda i: tf.gather(data, i))`), where it becomes a part of the graph: that takes minutes and 18
times the array, 7 GB, so give fewer rows where these are not free. Each contender reads its pipeline once under watch
and adds up every batch, and most of them once more to tell which data came.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from _measure import Watch, compare, digest_of


def in_order(data: np.ndarray, batch_size: int) -> Iterable[np.ndarray]:
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices(data).batch(batch_size)
    return dataset.as_numpy_iterator()


def shuffled(data: np.ndarray, batch_size: int) -> Iterable[np.ndarray]:
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices(data).shuffle(len(data), seed=1).batch(batch_size)
    return dataset.as_numpy_iterator()


def in_a_function(data: np.ndarray, batch_size: int) -> Iterable[np.ndarray]:
    import tensorflow as tf

    dataset = tf.data.Dataset.range(len(data)).map(lambda i: tf.gather(data, i)).batch(batch_size)
    return dataset.as_numpy_iterator()


def penstock_in_order(data: np.ndarray, batch_size: int) -> Iterable[np.ndarray]:
    import penstock as ps

    return ps.Dataset.from_tensor_slices(data).batch(batch_size).run(memory="16MB")


def penstock_shuffled(data: np.ndarray, batch_size: int) -> Iterable[np.ndarray]:
    import penstock as ps

    return ps.Dataset.from_tensor_slices(data).shuffle(seed=1).batch(batch_size).run(memory="16MB")


def penstock_in_a_function(data: np.ndarray, batch_size: int) -> Iterable[np.ndarray]:
    import penstock as ps

    return ps.Dataset.range(len(data)).map(lambda i: data[i]).batch(batch_size).run(memory="16MB")


def measured(pipeline: Callable[[np.ndarray, int], Iterable[np.ndarray]], compared: bool = True) -> Any:
    def contender(arguments: argparse.Namespace) -> dict[str, Any]:
        rows, columns, batch_size = arguments.rows, arguments.columns, arguments.batch_size
        for _ in pipeline(np.zeros((10, columns)), 5):  # what is loaded once is none of the array's cost
            pass
        data = np.random.default_rng(0).random((rows, columns))
        with Watch() as watch:
            total = sum(batch.sum() for batch in pipeline(data, batch_size))
        assert np.isclose(total, data.sum())
        digest = {"digest": digest_of(pipeline(data, batch_size))} if compared else {}
        copies = watch.growth_bytes / data.nbytes
        return {"rows/s": rows / watch.seconds, "peak MB": watch.growth_mb, "arrays": copies, **digest}

    return contender


CONTENDERS = {
    "tf.data": measured(in_order),
    "tf.data, shuffled": measured(shuffled, compared=False),
    "tf.data, in a function": measured(in_a_function, compared=False),
    "penstock": measured(penstock_in_order),
    "penstock, shuffled": measured(penstock_shuffled, compared=False),
    "penstock, in a function": measured(penstock_in_a_function),
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="How much memory does slicing an array take?")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=500)
    parser.add_argument("--batch-size", type=int, default=1_000)
    sys.exit(compare(CONTENDERS, parser))
