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


def without_a_seed() -> ps.Dataset:
    """Each time another one, as another process would make it: its seeds are drawn."""
    numbers = ps.Dataset.range(64).shuffle(20).random_map(lambda n, rng: (rng.integers(100), n))
    return ps.Dataset.sample_from_datasets([numbers, numbers]).shuffle().batch(8)


@pytest.mark.parametrize("make", [shuffled, without_a_seed])
@pytest.mark.parametrize("feed_of", FEEDS.values(), ids=FEEDS)
def test_a_training_that_is_resumed_has_the_later_epochs_too(
    feed_of: Callable[[ps.Dataset], Any], make: Callable[[], ps.Dataset]
) -> None:
    def epoch_of(iterator: Any) -> list[Any]:
        return [[np.asarray(part).tolist() for part in batch] for batch in iterator]

    feed = feed_of(make())
    first = epoch_of(feed)
    iterator = iter(feed)
    next(iterator)
    state = through_json(iterator.state_dict(), Path())
    rest = [epoch_of(iterator), epoch_of(feed), epoch_of(feed)]
    resumed_feed = feed_of(make())
    resumed = iter(resumed_feed)
    resumed.load_state_dict(state)
    assert [epoch_of(resumed), epoch_of(resumed_feed), epoch_of(resumed_feed)] == rest
    assert len({json.dumps(epoch) for epoch in [first, *rest]}) == 4


def test_keras_is_given_the_later_epochs_too() -> None:
    def epoch_of(feed: Any) -> list[Any]:
        seen = [[part.tolist() for part in batch] for batch in feed.get_numpy_iterator()]
        feed.on_epoch_end()
        return seen

    feed = without_a_seed().to_keras()
    epoch_of(feed)
    iterator = iter(feed.get_numpy_iterator())
    for _ in range(3):
        next(iterator)
    state = feed.state_dict()
    rest = [[[part.tolist() for part in batch] for batch in iterator], epoch_of(feed), epoch_of(feed)]
    for is_over, position in [(False, state), (True, feed.state_dict())]:
        resumed = without_a_seed().to_keras()
        resumed.go_on(position, num_steps=3, is_over=is_over)
        expected = [epoch_of(feed), epoch_of(feed)] if is_over else rest
        assert [epoch_of(resumed) for _ in expected] == expected


def test_workers_go_on_with_the_seeds_of_a_position() -> None:
    import torch.utils.data

    feed = without_a_seed().to_torch()
    for _ in feed:
        pass
    state = feed.last_run.state_dict()
    expected = [batch[1].tolist() for batch in feed]
    resumed = without_a_seed().to_torch()
    iter(resumed).load_state_dict(state)
    loader = torch.utils.data.DataLoader(resumed, batch_size=None, num_workers=1)
    assert [batch[1].tolist() for batch in loader] == expected
