"""A function of each element that makes a large array for a moment: tf.map_fn and its like, and ps.map_fn.

    python examples/map_fn.py [--elements 1000] [--many 1000000] [--without-tensorflow]

The function repeats a number 10,000 times and adds all up: 80 kB that nobody needs a moment later. Each way runs in a
process of its own; printed are elements per second and how far that process grew, as the operating system sees it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import penstock as ps
from penstock.observe.process import PeakMemory

REPEATS = 10_000
MEMORY = "64MB"


def repeat_and_sum(x: Any) -> Any:
    return np.repeat(x, REPEATS).sum()


def tf_repeat_and_sum(x: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_sum(tf.repeat(x, REPEATS))


def with_tf_map_fn(elems: Any) -> Any:
    import tensorflow as tf

    return tf.function(lambda all_of_them: tf.map_fn(tf_repeat_and_sum, all_of_them))(elems).numpy()


def with_tf_vectorized_map(elems: Any) -> Any:
    import tensorflow as tf

    return tf.function(lambda all_of_them: tf.vectorized_map(tf_repeat_and_sum, all_of_them))(elems).numpy()


def with_tf_data(elems: Any) -> Any:
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices(elems).map(tf_repeat_and_sum, tf.data.AUTOTUNE)
    return np.array(list(dataset.as_numpy_iterator()))


def with_penstock(elems: Any) -> Any:
    return ps.map_fn(repeat_and_sum, elems, memory=MEMORY)


def with_penstock_jit(elems: Any) -> Any:
    return ps.map_fn(repeat_and_sum, elems, memory=MEMORY, jit=True)


WAYS: dict[str, Callable[[Any], Any]] = {
    "tf.map_fn": with_tf_map_fn,
    "tf.vectorized_map": with_tf_vectorized_map,
    "tf.data": with_tf_data,
    "ps.map_fn": with_penstock,
    "ps.map_fn, jit": with_penstock_jit,
}


def measure(way: str, num_elements: int) -> dict[str, Any]:
    """Runs one way in this process: first on a few elements, so that what is loaded once for all does not count."""
    function = WAYS[way]
    function(np.arange(8))
    elems = np.arange(num_elements)
    with PeakMemory() as watch:
        start = time.perf_counter()
        result = function(elems)
        seconds = time.perf_counter() - start
    right = bool((result == elems * REPEATS).all())
    return {"rate": num_elements / seconds, "growth": watch.growth_bytes, "right": right}


def in_a_process_of_its_own(way: str, num_elements: int) -> dict[str, Any]:
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(
        [sys.executable, os.path.abspath(__file__), "--one", way, "--elements", str(num_elements)],
        env={**os.environ, **quiet},
        capture_output=True,  # TensorFlow has much to say as it starts
        text=True,
    )
    if done.returncode:
        sys.exit(f"{way} failed:\n{done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> int:
    parser = argparse.ArgumentParser(description="tf.map_fn and its like, and ps.map_fn.")
    parser.add_argument("--elements", type=int, default=1_000, help="for all")
    parser.add_argument("--many", type=int, default=1_000_000, help="for penstock alone; 0 for none")
    parser.add_argument("--without-tensorflow", action="store_true")
    parser.add_argument("--one", choices=tuple(WAYS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.elements)))
        return 0
    of_all = [way for way in WAYS if way.startswith("ps") or not arguments.without_tensorflow]
    jobs = [(way, arguments.elements) for way in of_all]
    jobs += [(way, arguments.many) for way in WAYS if way.startswith("ps") and arguments.many]
    all_right = True
    print(f"{'':<20}{'elements':>12}{'elements/s':>14}{'peak memory':>14}")
    for way, num_elements in jobs:
        found = in_a_process_of_its_own(way, num_elements)
        all_right &= found["right"]
        print(f"{way:<20}{num_elements:>12,}{found['rate']:>14,.0f}{found['growth'] / 1e6:>11,.1f} MB")
    print("all results are equal" if all_right else "SOME RESULTS DIFFER")
    return 0 if all_right else 1


if __name__ == "__main__":
    sys.exit(main())
