"""Positions inside the checkpoints of others: JSON, pickle, torch.save, Orbax; under the names of Grain's iterators."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps

from .feeds import numbers_of, shuffled

FEEDS: dict[str, Callable[[ps.Dataset], Any]] = {
    "penstock": lambda dataset: dataset,
    "tensorflow": lambda dataset: dataset.to_tf(),
    "torch": lambda dataset: dataset.to_torch(),
    "jax": lambda dataset: dataset.to_jax(),
}


def through_json(state: Any, folder: Path) -> Any:
    return json.loads(json.dumps(state))


def through_pickle(state: Any, folder: Path) -> Any:
    return pickle.loads(pickle.dumps(state))


def through_torch(state: Any, folder: Path) -> Any:
    """Beside a model, and loaded as what cannot run code."""
    import torch

    file = io.BytesIO()
    torch.save({"model": torch.nn.Linear(2, 1).state_dict(), "position": state}, file)
    file.seek(0)
    return torch.load(file, weights_only=True)["position"]


def through_orbax(state: Any, folder: Path) -> Any:
    """Beside arrays, each under a name of its own."""
    import orbax.checkpoint as ocp

    items = ocp.args.Composite(weights=ocp.args.StandardSave({"w": np.ones(3)}), position=ocp.args.JsonSave(state))
    with ocp.CheckpointManager(folder / "orbax") as manager:
        manager.save(3, args=items)
        manager.wait_until_finished()
        wanted = ocp.args.Composite(position=ocp.args.JsonRestore())
        return manager.restore(3, args=wanted)["position"]


@pytest.mark.parametrize("kept", [through_json, through_pickle, through_torch, through_orbax])
def test_a_position_comes_back_as_it_was(kept: Callable[[Any, Path], Any], tmp_path: Path) -> None:
    with shuffled().prefetch(2).run(epoch=1) as run:
        for _ in range(3):
            next(run)
        state = run.state_dict()
        rest = [numbers_of(batch) for batch in run]
    back = kept(state, tmp_path)
    assert back == state
    with shuffled().prefetch(2).run() as resumed:
        resumed.load_state_dict(back)
        assert [numbers_of(batch) for batch in resumed] == rest


@pytest.mark.parametrize("feed_of", FEEDS.values(), ids=FEEDS)
def test_iterators_have_the_names_that_grain_gives(feed_of: Callable[[ps.Dataset], Any]) -> None:
    iterator = iter(feed_of(shuffled()))
    next(iterator)
    state = iterator.get_state()
    assert state == iterator.state_dict()
    rest = [numbers_of(batch) for batch in iterator]
    again = iter(feed_of(shuffled()))
    again.set_state(state)
    assert [numbers_of(batch) for batch in again] == rest
    assert len(rest) == 7
