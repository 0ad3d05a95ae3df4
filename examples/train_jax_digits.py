"""JAX learns handwritten digits; killed at any step and started again, it ends with the same weights.

    python examples/train_jax_digits.py --checkpoint digits.pickle --kill-after 200
    python examples/train_jax_digits.py --checkpoint digits.pickle

The data ship with scikit-learn.
"""

import argparse
import hashlib
import os
import pickle
import resource
import signal
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

import penstock as ps

BATCH, RATE, ACCURACY = 32, 0.2, 0.95


def noisy(image: np.ndarray, label: int, rng: np.random.Generator) -> tuple[np.ndarray, np.int32]:
    """Augmentation whose random numbers depend on epoch and element only, so that a resumed run draws the same."""
    return (image / 16 + rng.normal(0, 0.05, image.shape)).astype(np.float32), np.int32(label)


def first_weights() -> dict[str, Any]:
    one, two = jax.random.split(jax.random.key(3))
    return {
        "hidden": jax.random.normal(one, (64, 64)) / 8,
        "hidden_bias": jnp.zeros(64),
        "out": jax.random.normal(two, (64, 10)) / 8,
        "out_bias": jnp.zeros(10),
    }


def logits_of(weights: dict[str, Any], x: Any) -> Any:
    return jax.nn.relu(x @ weights["hidden"] + weights["hidden_bias"]) @ weights["out"] + weights["out_bias"]


@jax.jit
def step(weights: dict[str, Any], x: Any, y: Any) -> dict[str, Any]:
    def loss(weights: dict[str, Any]) -> Any:
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits_of(weights, x)), y[:, None], 1)
        return -jnp.mean(picked)

    return jax.tree.map(lambda weight, slope: weight - RATE * slope, weights, jax.grad(loss)(weights))


def save(path: Path, checkpoint: dict[str, Any]) -> None:
    """Replaces the file as a whole: a crash leaves the one before."""
    new = path.with_suffix(".new")
    new.write_bytes(pickle.dumps(checkpoint))
    os.replace(new, path)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--checkpoint", type=Path, help="file to save to, and to go on from if it exists")
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
        .batch(BATCH, drop_remainder=True)
        .prefetch(ps.AUTOTUNE)
    )

    weights = first_weights()
    feed = train.to_jax(memory="32MB")
    batches, first_epoch = iter(feed), 0
    if args.checkpoint and args.checkpoint.exists():
        checkpoint = pickle.loads(args.checkpoint.read_bytes())
        weights, first_epoch = checkpoint["weights"], checkpoint["epoch"]
        batches.set_state(checkpoint["position"])

    num_steps, began = 0, time.perf_counter()
    for epoch in range(first_epoch, args.epochs):
        for x, y in batches:
            weights = step(weights, x, y)
            num_steps += 1
            if args.checkpoint and num_steps % 20 == 0:
                arrays = jax.tree.map(np.asarray, weights)
                save(args.checkpoint, {"weights": arrays, "epoch": epoch, "position": batches.get_state()})
            if num_steps == args.kill_after:
                os.kill(os.getpid(), signal.SIGKILL)
        batches = iter(feed)
    jax.block_until_ready(weights)
    seconds = time.perf_counter() - began

    accuracy = float(np.mean(np.asarray(logits_of(weights, test_images)).argmax(1) == test_labels))
    raw = b"".join(np.asarray(weights[name]).tobytes() for name in sorted(weights))
    print(f"steps           {num_steps}, {num_steps / max(seconds, 1e-9):.0f} per second")
    print(f"peak memory     {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB, JAX included")
    print(f"weights         {hashlib.sha256(raw).hexdigest()[:16]}")
    print(f"test accuracy   {accuracy:.3f}, expected {ACCURACY} after 12 epochs")


if __name__ == "__main__":
    main()
