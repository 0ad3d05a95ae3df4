"""keras_checkpoint: what it refuses, and a crash while it writes; test_keras.py kills real fits."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock.adapters import keras_checkpoint
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
    progress = {"version": 1, "groups": {}, "epoch": 1}
    keras_checkpoint._write(path, progress, [])

    def crash(*paths: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(keras_checkpoint.os, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        keras_checkpoint._write(path, {**progress, "epoch": 2}, [])
    assert keras_checkpoint._read(path)[0]["epoch"] == 1
