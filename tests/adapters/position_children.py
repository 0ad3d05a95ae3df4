"""Programs for test_kills.py: each appends what was delivered to a log, saves its position, and kills itself.

python position_children.py <plain | torch> <folder> <steps until the kill, or 0>
"""

import json
import os
import pickle
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps

NUM, EPOCHS, EVERY = 97, 2, 3


def jittered(n: Any, rng: np.random.Generator) -> Any:
    return n, rng.integers(1000)


def dataset() -> ps.Dataset:
    """Elements with ids, random numbers and threads that work ahead."""
    source = ps.Dataset.from_tensor_slices(np.arange(NUM)).shuffle(seed=4)
    return source.random_map(jittered, seed=5, num_parallel_calls=2).batch(4).prefetch(3)


def feed_of(kind: str) -> Any:
    if kind == "plain":
        return dataset()
    return dataset().to_torch(memory="16MB")


class Checkpoint:
    """The log's length and the position, replaced together."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.path = folder / "checkpoint"
        self.is_torch = kind == "torch"

    def save(self, value: dict[str, Any]) -> None:
        new = self.path.with_suffix(".new")
        if self.is_torch:
            import torch

            torch.save(value, new)
        else:
            new.write_bytes(pickle.dumps(value))
        os.replace(new, self.path)

    def load(self) -> dict[str, Any]:
        if self.is_torch:
            import torch

            loaded: dict[str, Any] = torch.load(self.path, weights_only=True)
            return loaded
        loaded = pickle.loads(self.path.read_bytes())
        return loaded


def main(kind: str, folder: Path, kill_after: int) -> None:
    feed, checkpoint, epoch = feed_of(kind), Checkpoint(folder, kind), 0
    log = open(folder / "log", "a")  # noqa: SIM115  # no one closes the files of a process that is killed
    batches, written = iter(feed), 0
    if checkpoint.path.exists():
        saved = checkpoint.load()
        batches.load_state_dict(saved["position"])
        epoch, written = saved["epoch"], saved["written"]
    log.truncate(written)  # what came after the checkpoint will come again
    num_steps = 0
    while epoch < EPOCHS:
        for ids, numbers in batches:
            log.write(json.dumps([epoch, ids.tolist(), numbers.tolist()]) + "\n")
            log.flush()
            num_steps += 1
            if num_steps % EVERY == 0:
                checkpoint.save({"position": batches.state_dict(), "epoch": epoch, "written": log.tell()})
            if num_steps == kill_after:
                os.kill(os.getpid(), signal.SIGKILL)
        epoch += 1
        batches = iter(feed)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
