"""Checkpoints of `model.fit`: the model, its optimizer and the position in the data, in one file."""

from __future__ import annotations

import functools
import json
import os
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..element import Structure
from ..errors import BadArgument, BadType, StateError

__all__ = ["keras_checkpoint"]

_VERSION = 2
_PROGRESS = "progress"
# What dropout draws from under PyTorch: no variable of the model.
_TORCH_RANDOM = "torch_random"


def keras_checkpoint(path: str | os.PathLike[str], feed: Any, every_steps: int | None = None) -> Any:
    """A callback for `model.fit` that saves training as it goes, and goes on where a killed one was.

    It saves the model's variables (weights, random seeds, metrics), those of its optimizers, and the position in the
    data, at the end of each epoch and every so many steps. When `fit` is called and the file exists, it restores
    them: the first step is the one after the last that was saved, on the very next batch. If `validation_data` is a
    `to_keras()`, it goes on with the epoch that it would have had, too: parts of one shuffled dataset stay apart.

    The file is replaced as a whole: a crash leaves the last one. To begin anew, remove it. It stays when training ends,
    so that `fit` with more epochs goes on. Give it last in the list of callbacks, so that what others do at the end of
    an epoch is saved too; what they count for themselves (as `EarlyStopping` does) is not.

    Args:
        path: The file. Its directory is made when training begins.
        feed: What `fit` is given: `dataset.to_keras()`. Validation needs a `to_keras()` of its own.
        every_steps: Steps from one checkpoint within an epoch to the next. None: at the ends of epochs only.

    >>> import penstock as ps
    >>> feed = ps.Dataset.range(10).batch(2).to_keras()
    >>> checkpoint = ps.keras_checkpoint("training.ckpt", feed, every_steps=100)
    """
    if not hasattr(feed, "next_batch_at"):
        raise BadType(f"keras_checkpoint: feed: expected what to_keras() gives, got {type(feed).__name__}")
    if every_steps is not None and every_steps < 1:
        raise BadArgument(f"keras_checkpoint: every_steps: expected at least 1, got {every_steps}")
    return _callback_class()(Path(path), feed, every_steps)


@functools.cache
def _callback_class() -> Any:
    import keras

    class KerasCheckpoint(keras.callbacks.Callback):  # type: ignore[misc]  # Keras comes without types here
        """Saves model, optimizer and position together; see `keras_checkpoint`."""

        def __init__(self, path: Path, feed: Any, every_steps: int | None) -> None:
            super().__init__()
            self._path = path
            self._feed = feed
            self._every_steps = every_steps
            self._metrics: list[np.ndarray] | None = None
            self._resumes_in: int | None = None
            self._validation_feed: Any = None
            self._next_validation: int | None = None  # which epoch of its dataset is validated on next
            self._this_validation: int | None = None  # and which in this epoch of training

        def set_model(self, model: Any) -> None:
            super().set_model(model)
            self._unsynced = model  # under JAX self.model fetches all variables, at each step

        def on_train_begin(self, logs: Any = None) -> None:
            self._num_trained = 0  # batches, since here
            self._num_before = 0  # steps, of all epochs, before here
            self._first_step = 0  # where the first epoch begins
            self._feed.count_batches()
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._path.exists():
                self._restore()

        def _restore(self) -> None:
            progress, arrays = _read(self._path)
            state, epoch, num_steps = progress["position"], progress["epoch"], progress["steps"]
            batch = self._feed.next_batch_at(state)
            model = self.model
            is_over = batch is None
            if is_over and num_steps:  # it went on there, and the data have become fewer
                epoch, num_steps = epoch + 1, 0
            _build(self._path, model, self._feed.next_batch_at(None) if is_over else batch, progress["optimizers"])
            groups = _variables(model)
            _check(self._path, progress["groups"], groups, arrays)
            if _TORCH_RANDOM in progress["groups"]:
                _set_torch_random(arrays.pop())
            values = iter(arrays)
            for name, variables in groups.items():
                found = [next(values) for _ in variables]
                if name == "metrics":  # Keras resets them when the epoch begins
                    self._metrics = found if num_steps else None
                else:
                    _assign(variables, found)
            self._feed.go_on(state, num_steps, is_over)
            self._next_validation, self._validation_feed = progress.get("next_validation"), None
            self._num_before, self._first_step = progress["total_steps"], num_steps
            model._initial_epoch = epoch  # as Keras's own BackupAndRestore does
            self._resumes_in = epoch

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            resumes_in, self._resumes_in = self._resumes_in, None
            if resumes_in is not None and resumes_in != epoch:
                raise StateError(
                    f"{self._path}: the checkpoint goes on in epoch {resumes_in}, and Keras {keras.__version__} begins "
                    f"with epoch {epoch}; call fit(initial_epoch={resumes_in})"
                )
            self._epoch = epoch
            self._num_steps, self._first_step = self._first_step, 0  # in this epoch
            self._is_stopped, self._this_validation = False, None
            if self._metrics is not None:
                _assign(_variables(self.model)["metrics"], self._metrics)
                self._metrics = None

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self._begin_step = batch

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            num_trained, steps, every = batch + 1 - self._begin_step, self.params.get("steps"), self._every_steps
            # The last of several steps at a time may be fewer; under a strategy nothing is read here.
            num_trained = min(num_trained, (self._feed.num_read or sys.maxsize) - self._num_trained)
            before = self._num_before + self._num_trained
            self._num_trained += num_trained
            self._num_steps += num_trained
            is_due = every is not None and (before + num_trained) // every > before // every
            stops = getattr(self._unsynced, "stop_training", False)
            # The end of an epoch is saved when Keras says that it has ended: what is to come then is part of it.
            is_within = (is_due or stops) and self._is_within_epoch(steps)
            self._is_stopped = is_within and stops
            if is_within and is_due:
                self._save(self._epoch, self._num_steps)

        def _is_within_epoch(self, steps: int | None) -> bool:
            """Whether another step of this epoch is to come; data may end before as many as Keras waits for."""
            return (steps is None or self._num_steps < steps) and self._feed.goes_on_after(self._num_trained)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if self._is_stopped:
                self._save(epoch, self._num_steps)
            elif self._num_trained:
                self._save(epoch + 1, 0)

        def on_test_begin(self, logs: Any = None) -> None:
            self._num_read_before_test = self._feed.num_read
            feed = getattr(getattr(self._unsynced, "_eval_epoch_iterator", None), "data_adapter", None)
            if feed is None or not hasattr(feed, "go_on_with_epoch"):
                return
            if feed is not self._validation_feed:
                self._validation_feed = feed
                if self._next_validation is not None:
                    feed.go_on_with_epoch(self._next_validation)
            self._this_validation = feed.dataset.next_epoch

        def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
            if self._feed.num_read != self._num_read_before_test:
                raise StateError(
                    "keras_checkpoint: expected a feed that only training reads, and it is validation_data too: its "
                    "position would be that of the validation; give validation_data=dataset.to_keras() of its own"
                )

        def on_train_end(self, logs: Any = None) -> None:
            self.model._initial_epoch = None

        def _save(self, epoch: int, num_steps: int) -> None:
            model = self.model
            groups = _variables(model)
            progress: dict[str, Any] = {
                "version": _VERSION,
                "epoch": epoch,
                "steps": num_steps,
                "total_steps": self._num_before + self._num_trained,
                "position": self._feed.state_after(self._num_trained),
                "groups": {name: len(variables) for name, variables in groups.items()},
                "optimizers": [_built_on(optimizer, model) for optimizer in _optimizers(model)],
            }
            if self._validation_feed is not None:
                # An epoch that Keras stopped within was validated on, and will be at its end.
                is_to_come_again = self._is_stopped and self._this_validation is not None
                next_epoch = self._validation_feed.dataset.next_epoch
                self._next_validation = self._this_validation if is_to_come_again else next_epoch
            if self._next_validation is not None:
                progress["next_validation"] = self._next_validation
            arrays = _arrays_of([variable for variables in groups.values() for variable in variables])
            if keras.backend.backend() == "torch":
                progress["groups"][_TORCH_RANDOM] = 1
                arrays.append(_torch_random())
            _write(self._path, progress, arrays)

    return KerasCheckpoint


def _build(path: Path, model: Any, batch: Any, optimizers_built_on: list[list[int] | None]) -> None:
    """Makes all variables, as Keras does for JAX and PyTorch; TensorFlow would make some of them in the first step.

    There is no public way that serves all models: to call one, its loss and its metrics is up to its `train_step`.
    """
    import keras

    build = getattr(model, "_symbolic_build", None)
    if build is None:
        raise StateError(
            f"expected a way to make the variables of optimizer and metrics before the first step, and Keras "
            f"{keras.__version__} has none (Model._symbolic_build); go on with the Keras that the checkpoint is of"
        )
    optimizers = _optimizers(model)
    if len(optimizers) != len(optimizers_built_on):
        raise StateError(
            f"{path}: the checkpoint is of another model: it has {len(optimizers_built_on)} optimizers, and this one "
            f"has {len(optimizers)}"
        )
    unbuilt = [optimizer for optimizer in optimizers if not optimizer.built]
    for optimizer in unbuilt:
        optimizer.built = True  # or Keras would build the model's own on all variables
    try:
        build(data_batch=_shapes_of(batch))
    finally:
        for optimizer in unbuilt:
            optimizer.built = False
    variables = model.variables
    for optimizer, places in zip(optimizers, optimizers_built_on, strict=True):
        # Where there are fewer variables it is another model, which is for `_check` to say.
        if places is not None and not optimizer.built and max(places, default=0) < len(variables):
            optimizer.build([variables[place] for place in places])


def _optimizers(model: Any) -> list[Any]:
    """The model's optimizer, and those that a training step of its own uses besides, in the order of their names."""
    import keras

    found = [] if model.optimizer is None else [model.optimizer]
    for _, value in sorted(vars(model).items()):
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else (value,)
        for part in parts:
            if isinstance(part, keras.optimizers.Optimizer) and all(part is not other for other in found):
                found.append(part)
    return found


def _built_on(optimizer: Any, model: Any) -> list[int] | None:
    """Which of the model's variables an optimizer has been made for; None if it has not been used yet."""
    if not optimizer.built:
        return None
    places = {id(variable): place for place, variable in enumerate(model.variables)}
    found = [places.get(id(variable)) for variable in optimizer._trainable_variables]
    if None in found:
        raise StateError(
            f"keras_checkpoint: expected optimizers of the model's own variables, and {optimizer.name} is of others "
            "too: make what they belong to a layer of the model"
        )
    return [place for place in found if place is not None]


def _variables(model: Any) -> dict[str, list[Any]]:
    """All variables of a model in training, its random seeds among them."""
    of_optimizers = [variable for optimizer in _optimizers(model) for variable in optimizer.variables]
    return {"model": model.variables, "optimizer": of_optimizers, "metrics": model.metrics_variables}


def _shapes_of(batch: Any) -> Any:
    """A batch as Keras's symbolic inputs are made of: shapes, and dtypes by their names."""

    def shape_of(leaf: Any) -> Any:
        dtype = "string" if leaf.dtype.kind == "O" else leaf.dtype
        return SimpleNamespace(shape=leaf.shape, dtype=dtype)

    return Structure.of(batch).map(shape_of, batch)


def _check(path: Path, counts: dict[str, int], groups: dict[str, list[Any]], arrays: list[np.ndarray]) -> None:
    values = iter(arrays)
    for name, variables in groups.items():
        if counts.get(name) != len(variables):
            raise StateError(
                f"{path}: the checkpoint is of another model: it has {counts.get(name)} variables of the {name}, "
                f"and this one has {len(variables)}"
            )
        for variable, array in zip(variables, values, strict=False):
            if tuple(variable.shape) != array.shape:
                raise StateError(
                    f"{path}: the checkpoint is of another model: {variable.path} was of shape {array.shape} "
                    f"and is of shape {tuple(variable.shape)}"
                )


def _arrays_of(variables: list[Any]) -> list[np.ndarray]:
    import keras

    with warnings.catch_warnings():
        # NumPy has one for how Keras's variables become arrays, which is for Keras to change.
        warnings.simplefilter("ignore", DeprecationWarning)
        return [keras.ops.convert_to_numpy(variable) for variable in variables]


def _torch_random() -> np.ndarray:
    import torch

    array: np.ndarray = torch.get_rng_state().numpy()
    return array


def _set_torch_random(array: np.ndarray) -> None:
    import torch

    torch.set_rng_state(torch.from_numpy(array))


def _assign(variables: list[Any], arrays: list[np.ndarray]) -> None:
    for variable, array in zip(variables, arrays, strict=True):
        variable.assign(array)


def _write(path: Path, progress: dict[str, Any], arrays: list[np.ndarray]) -> None:
    """Replaces the file as a whole: what has its name is complete, and on disk."""
    text = np.frombuffer(json.dumps(progress).encode(), np.uint8)
    new = path.with_name(path.name + ".new")
    with open(new, "wb") as file:
        entries: dict[str, Any] = {_PROGRESS: text, **{str(i): array for i, array in enumerate(arrays)}}
        np.savez(file, **entries)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _read(path: Path) -> tuple[dict[str, Any], list[np.ndarray]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            progress = json.loads(file[_PROGRESS].tobytes())
            if progress["version"] != _VERSION:
                raise StateError(f"{path}: expected a checkpoint of version {_VERSION}, got {progress['version']}")
            return progress, [file[str(i)] for i in range(sum(progress["groups"].values()))]
    except StateError:
        raise
    except Exception as error:  # whatever the bytes make zipfile, NumPy or JSON say
        raise StateError(f"{path}: expected a checkpoint of keras_checkpoint: {error}") from error
