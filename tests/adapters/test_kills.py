"""Processes that are killed in the middle, and begun again, deliver what one does that nobody kills."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .position_children import EPOCHS, EVERY, NUM, dataset

PROGRAM = Path(__file__).with_name("position_children.py")
pytestmark = pytest.mark.timeout(400)


def run(kind: str, folder: Path, kill_after: int) -> int:
    command = [sys.executable, str(PROGRAM), kind, str(folder), str(kill_after)]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-4000:]
    return done.returncode


def expected() -> list[Any]:
    return [
        [epoch, ids.tolist(), numbers.tolist()]
        for epoch in range(EPOCHS)
        for ids, numbers in dataset().run(epoch=epoch)
    ]


@pytest.mark.parametrize("kind, num_kills", [("plain", 20), ("torch", 2)])
def test_killed_at_random_steps(kind: str, num_kills: int, tmp_path: Path) -> None:
    rng = random.Random(num_kills)
    # Now and then before the first checkpoint after a start: then nothing is gained, and nothing lost.
    kills = [rng.randrange(1, EVERY + 3) for _ in range(num_kills)]
    killed = 0
    for kill_after in kills:
        killed += run(kind, tmp_path, kill_after) != 0
    assert killed == num_kills
    assert run(kind, tmp_path, 0) == 0
    seen = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert seen == expected()
    assert sorted(n for epoch, ids, _ in seen if epoch == 1 for n in ids) == list(range(NUM))
