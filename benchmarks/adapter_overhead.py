"""What does a batch cost as tensors rather than arrays? `python -m benchmarks.adapter_overhead [torch|jax|tf ...]`

In microseconds a batch, over the same batches as arrays. Beside each: what the framework's own function for arrays
takes beyond arrays, called by hand for each of the batch. Passes take turns and the quickest of each counts, so that
another process that gets some of the machine is left out as far as that goes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import penstock as ps

BATCH, BATCHES, TURNS = 32, 300, 12
BATCH_BYTES = (2_000, 65_000, 200_000, 800_000)


def pair(row_bytes: int, num_rows: int) -> Any:
    return np.zeros((num_rows, row_bytes // 4), np.float32), np.zeros(num_rows, np.int32)


def five(row_bytes: int, num_rows: int) -> Any:
    return {f"feature_{i}": np.zeros((num_rows, max(1, row_bytes // 20)), np.float32) for i in range(5)}


STRUCTURES: dict[str, Callable[[int, int], Any]] = {"(x, y)": pair, "a dict of five": five}


def torch_function() -> Callable[[np.ndarray], Any]:
    import torch

    return torch.from_numpy


def jax_function() -> Callable[[np.ndarray], Any]:
    import jax

    return lambda array: jax.device_put(array).block_until_ready()


def tf_function() -> Callable[[np.ndarray], Any]:
    import tensorflow as tf

    return tf.convert_to_tensor


BY_HAND = {"torch": torch_function, "jax": jax_function, "tf": tf_function}


def by_hand(dataset: ps.Dataset, convert: Callable[[np.ndarray], Any]) -> Iterable[Any]:
    for batch in dataset:
        arrays = batch.values() if isinstance(batch, dict) else batch
        yield [convert(array) for array in arrays]


def quickest(feeds: list[Callable[[], Iterable[Any]]]) -> list[float]:
    """Seconds of the quickest pass over each."""
    best = [float("inf")] * len(feeds)
    for _ in range(TURNS):
        for i, feed in enumerate(feeds):
            start = time.perf_counter()
            for _batch in feed():
                pass
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def measure(framework: str, make: Callable[[int, int], Any], batch_bytes: int, shuffled: bool) -> tuple[float, float]:
    """Microseconds a batch over arrays: of the adapter, and by hand."""
    num_batches = min(BATCHES, 60_000_000 // batch_bytes)
    dataset = ps.Dataset.from_tensor_slices(make(batch_bytes // BATCH, BATCH * num_batches))
    if shuffled:
        dataset = dataset.shuffle(seed=1)
    dataset = dataset.batch(BATCH).with_options(ps.Options(memory="64MB"))
    feed, convert = getattr(dataset, f"to_{framework}")(), BY_HAND[framework]()
    arrays, tensors, hand = quickest([lambda: dataset, lambda: feed, lambda: by_hand(dataset, convert)])
    return (tensors - arrays) / num_batches * 1e6, (hand - arrays) / num_batches * 1e6


def main() -> None:
    for framework in sys.argv[1:] or BY_HAND:
        for name, make in STRUCTURES.items():
            for batch_bytes in BATCH_BYTES:
                for shuffled in (True, False):
                    ours, hand = measure(framework, make, batch_bytes, shuffled)
                    order = "shuffled" if shuffled else "in order"
                    print(
                        f"to_{framework:5} {name:14} {batch_bytes:8,} B {order}: {ours:6.1f} us, by hand {hand:6.1f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
