"""keras_checkpoint: what it refuses, and a crash while it writes; test_keras.py kills real fits."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.adapters import keras, keras_checkpoint
from penstock.errors import BadArgument, BadType, StateError


def test_what_is_no_feed_of_keras_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadType, match="expected what to_keras"):
        ps.keras_checkpoint(tmp_path / "file", ps.Dataset.range(3))
    with pytest.raises(BadArgument, match="every_steps: expected at least 1, got 0"):
        ps.keras_checkpoint(tmp_path / "file", ps.Dataset.range(3).batch(2).to_keras(), every_steps=0)


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"something else")
    with pytest.raises(StateError, match="expected a checkpoint of keras_checkpoint"):
        keras_checkpoint._read(path)


def test_a_crash_while_a_checkpoint_is_written_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    progress = {"version": 2, "groups": {}, "epoch": 1}
    keras_checkpoint._write(path, progress, [])

    def crash(*paths: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(keras_checkpoint.os, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        keras_checkpoint._write(path, {**progress, "epoch": 2}, [])
    assert keras_checkpoint._read(path)[0]["epoch"] == 1


class OtherModel:
    """A model of a Keras that has other attributes."""

    optimizer = None
    variables: tuple[()] = ()
    metrics_variables: tuple[()] = ()
    stop_training = False


class BuiltModel(OtherModel):
    """A model with all that is needed."""

    def _symbolic_build(self, data_batch: Any) -> None:
        pass


def resumed(folder: Path, model: Any, epoch: int) -> Any:
    """The callback after it has restored a checkpoint of the end of an epoch."""
    path = folder / "file"
    feed = ps.Dataset.range(6).batch(2).to_keras()
    with feed.dataset.run(epoch=epoch) as run:
        next(run)
        groups = {"model": 0, "optimizer": 0, "metrics": 0}
        progress = {"version": 2, "epoch": epoch, "steps": 1, "total_steps": 1, "position": run.state_dict()}
    keras_checkpoint._write(path, {**progress, "groups": groups, "optimizers": []}, [])
    callback = ps.keras_checkpoint(path, feed)
    callback.set_model(model)
    callback.on_train_begin()
    return callback


def test_a_keras_that_cannot_build_a_model_beforehand_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"Keras 3\.\d+\.\d+ has none \(Model._symbolic_build\)"):
        resumed(tmp_path, OtherModel(), epoch=2)


def test_a_fit_that_begins_with_another_epoch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"goes on in epoch 2, and Keras .* begins with epoch 0; .*initial_epoch=2"):
        resumed(tmp_path, BuiltModel(), epoch=2).on_epoch_begin(0)
    callback = resumed(tmp_path, BuiltModel(), epoch=2)
    callback.on_epoch_begin(2)
    callback.on_epoch_begin(3)


def test_a_keras_that_counts_its_steps_elsewhere_is_refused_within_an_epoch() -> None:
    with pytest.raises(StateError, match="3 steps of this epoch are done, and what counts them has no steps_per_epoch"):
        keras._ShortEpoch(9, 3, 3).begin_epoch(None)
    keras._ShortEpoch(9, 0, 0).begin_epoch(None)


def test_a_keras_without_data_adapters_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keras.src.trainers.data_adapters.data_adapter", None)
    with pytest.raises(ImportError, match=r"to_keras: expected Keras 3.12 or later .* give fit to_tf\(\)"):
        keras._adapter_class.__wrapped__()
