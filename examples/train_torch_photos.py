"""PyTorch learns which photograph a patch was cut from; killed and started again, it ends with the same weights.

    python examples/train_torch_photos.py --checkpoint photos.pt --kill-after 60
    python examples/train_torch_photos.py --checkpoint photos.pt

The two photographs ship with scikit-learn. The test patches come from a strip of them that is not trained on.
"""

import argparse
import hashlib
import os
import resource
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_sample_images
from torch import nn

import penstock as ps

SIZE, BATCH, ACCURACY = 32, 64, 0.95
PHOTOS = np.stack(load_sample_images().images)


def corners(columns: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where patches are cut: photograph, row, column."""
    rows = range(0, PHOTOS.shape[1] - SIZE, 8)
    places = np.array([(photo, row, column) for photo in range(2) for row in rows for column in columns])
    return places[:, 0], places[:, 1], places[:, 2]


def cut(photo: int, row: int, column: int) -> tuple[np.ndarray, np.float32]:
    patch = PHOTOS[photo, row : row + SIZE, column : column + SIZE]
    return patch.transpose(2, 0, 1).astype(np.float32) / 255, np.float32(photo)


def dimmed(patch: np.ndarray, photo: np.float32, rng: np.random.Generator) -> tuple[np.ndarray, np.float32]:
    """Augmentation whose random numbers depend on epoch and element only, so that a resumed run draws the same."""
    return patch[:, :, :: rng.choice((-1, 1))] * np.float32(rng.uniform(0.6, 1)), photo


def save(path: Path, checkpoint: dict[str, Any]) -> None:
    """Replaces the file as a whole: a crash leaves the one before."""
    new = path.with_suffix(".new")
    torch.save(checkpoint, new)
    os.replace(new, path)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--checkpoint", type=Path, help="file to save to, and to go on from if it exists")
    arguments.add_argument("--epochs", type=int, default=2)
    arguments.add_argument("--kill-after", type=int, help="kill this process after so many steps")
    args = arguments.parse_args()
    torch.manual_seed(3)
    torch.set_num_threads(1)  # the model is small
    torch.use_deterministic_algorithms(True)

    places = ps.Dataset.from_tensor_slices(corners([*range(0, 241, 16), *range(336, 608, 16)]))
    # What is shuffled are places, three numbers each: patches are cut when their batch is made.
    train = places.map(cut).shuffle(seed=1).random_map(dimmed, seed=2).batch(BATCH).prefetch(ps.AUTOTUNE)
    test = ps.Dataset.from_tensor_slices(corners([272, 288, 304])).map(cut).batch(BATCH)

    model = nn.Sequential(
        nn.Conv2d(3, 8, 5, stride=2),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 3 * 3, 1),
    )
    optimizer = torch.optim.Adam(model.parameters(), 0.005)

    feed = train.to_torch(memory="32MB")
    batches, first_epoch = iter(feed), 0
    if args.checkpoint and args.checkpoint.exists():
        checkpoint = torch.load(args.checkpoint, weights_only=True)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        batches.load_state_dict(checkpoint["position"])
        first_epoch = checkpoint["epoch"]

    num_steps, began = 0, time.perf_counter()
    for epoch in range(first_epoch, args.epochs):
        for x, y in batches:
            loss = nn.functional.binary_cross_entropy_with_logits(model(x)[:, 0], y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            num_steps += 1
            if args.checkpoint and num_steps % 10 == 0:
                states = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                save(args.checkpoint, {**states, "position": batches.state_dict(), "epoch": epoch})
            if num_steps == args.kill_after:
                os.kill(os.getpid(), signal.SIGKILL)
        batches = iter(feed)
    seconds = time.perf_counter() - began

    with torch.no_grad():
        right = [((model(x)[:, 0] > 0) == (y > 0.5)).float().mean().item() for x, y in test.to_torch()]
    weights = b"".join(w.detach().numpy().tobytes() for w in model.state_dict().values())
    print(f"steps           {num_steps}, {num_steps / max(seconds, 1e-9):.0f} per second")
    print(f"patches         {num_steps * BATCH / max(seconds, 1e-9):.0f} per second")
    print(f"peak memory     {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB, PyTorch included")
    print(f"weights         {hashlib.sha256(weights).hexdigest()[:16]}")
    print(f"test accuracy   {np.mean(right):.3f}, expected {ACCURACY} after 2 epochs")


if __name__ == "__main__":
    main()
