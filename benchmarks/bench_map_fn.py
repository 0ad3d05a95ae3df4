"""What does a function of each element cost, when it makes a large array only to sum it up? `map_fn` and its peers.

The function repeats a number 10,000 times and adds all up: 80 kB that are gone a moment later. TensorFlow's functions
are traced once (`tf.function`), which suits them best: called as it is written, `tf.map_fn` is far slower.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Batch, Contender, Epoch, Target, Workload

ROWS, QUICK_ROWS = 1_000_000, 200_000
FEW_ROWS = 1_000
LOOP_ROWS = 50_000  # at the rates of a call for each element more would take too long
VECTORIZED_ROWS = 5_000  # whose arrays, all at a time, are 400 MB
REPEATS = 10_000
MEMORY = "64MB"
MB = 1_000_000


def repeat_and_sum(x: Any) -> Any:
    return np.repeat(x, REPEATS).sum()


def numbers(rows: int) -> Batch:
    return np.arange(rows)


def build_penstock(data: Batch) -> Epoch:
    import penstock as ps

    return lambda: [ps.map_fn(repeat_and_sum, data, memory=MEMORY)]


def build_penstock_jax(data: Batch) -> Epoch:
    import penstock as ps

    return lambda: [ps.map_fn(repeat_and_sum, data, memory=MEMORY, jit="jax")]


def build_penstock_numba(data: Batch) -> Epoch:
    import penstock as ps

    return lambda: [ps.map_fn(repeat_and_sum, data, memory=MEMORY, jit="numba")]


def tf_repeat_and_sum(x: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_sum(tf.repeat(x, REPEATS))


def build_tf_map_fn(data: Batch) -> Epoch:
    import tensorflow as tf

    traced = tf.function(lambda elems: tf.map_fn(tf_repeat_and_sum, elems))
    return lambda: [traced(data).numpy()]


def build_tf_vectorized_map(data: Batch) -> Epoch:
    import tensorflow as tf

    traced = tf.function(lambda elems: tf.vectorized_map(tf_repeat_and_sum, elems))
    return lambda: [traced(data).numpy()]


def build_tf_data(data: Batch) -> Epoch:
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices(data).map(tf_repeat_and_sum, tf.data.AUTOTUNE).batch(1024)
    return lambda: dataset.as_numpy_iterator()


def build_python_loop(data: Batch) -> Epoch:
    return lambda: [np.array([repeat_and_sum(x) for x in data])]


WORKLOADS = (
    Workload(
        "map-fn",
        "a function that repeats a number 10,000 times and adds up",
        (
            Contender("penstock, jit", "penstock", build_penstock_jax, ("penstock", "jax")),
            Contender("penstock, numba", "penstock", build_penstock_numba, ("penstock", "numba"), rows=LOOP_ROWS),
            Contender("penstock", "penstock", build_penstock, ("penstock",), rows=LOOP_ROWS),
            Contender("tf.map_fn", "tf.data", build_tf_map_fn, ("tensorflow",), rows=LOOP_ROWS),
            Contender("tf.vectorized_map", "tf.data", build_tf_vectorized_map, ("tensorflow",), rows=VECTORIZED_ROWS),
            Contender("tf.data", "tf.data", build_tf_data, ("tensorflow",), rows=LOOP_ROWS),
            Contender("hand: Python loop", "hand", build_python_loop, rows=LOOP_ROWS),
        ),
        (
            Target("penstock, jit", 10.0, over="tf.map_fn"),
            Target("penstock, jit", 1.0, over="tf.vectorized_map"),
            Target("penstock", 0.9, over="hand: Python loop"),
            Target("penstock", 40 * MB, of="extra_bytes"),  # a tenth of what tf.vectorized_map takes for 5,000
            Target("penstock, jit", 40 * MB, of="extra_bytes"),
        ),
        limit="hand: Python loop",
        make_data=numbers,
        rows=ROWS,
        quick_rows=QUICK_ROWS,
    ),
    Workload(
        "map-fn-few",
        "the same of 1,000 numbers, again and again",
        (
            Contender("penstock, jit", "penstock", build_penstock_jax, ("penstock", "jax")),
            Contender("penstock", "penstock", build_penstock, ("penstock",)),
            Contender("tf.map_fn", "tf.data", build_tf_map_fn, ("tensorflow",)),
            Contender("tf.vectorized_map", "tf.data", build_tf_vectorized_map, ("tensorflow",)),
            Contender("hand: Python loop", "hand", build_python_loop),
        ),
        (
            Target("penstock, jit", 10.0, over="tf.map_fn"),
            Target("penstock, jit", 1.0, over="tf.vectorized_map"),
        ),
        limit="hand: Python loop",
        make_data=numbers,
        rows=FEW_ROWS,
        quick_rows=FEW_ROWS,
    ),
)
