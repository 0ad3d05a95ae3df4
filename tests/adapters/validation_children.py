"""A program for test_keras.py: parts of one shuffled dataset, for training and validation, in fits that are killed.

Prints one line of JSON: for each case whether it went on as one that was not killed, and whether parts stayed apart.
"""

import json
import os
import sys
import tempfile
import warnings
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from keras_kills import Killed

import penstock as ps

D = ps.Dataset
NUM, NUM_VALIDATION, SIZE = 40, 8, 4
X = np.random.default_rng(0).normal(size=(NUM, 3)).astype(np.float32)
warnings.simplefilter("ignore", DeprecationWarning)  # NumPy, of Keras's variables


Kill = tuple[int, int | str | None]


class KillIn(keras.callbacks.Callback):
    """Ends a fit in an epoch: at a step, in its validation or at its end."""

    def __init__(self, epoch: int, step: int | str | None) -> None:
        super().__init__()
        self.epoch, self.step, self.now = epoch, step, 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.now = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if (self.now, batch) == (self.epoch, self.step):
            raise Killed

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        if (self.now, "validation") == (self.epoch, self.step):
            raise Killed

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if (epoch, None) == (self.epoch, self.step):
            raise Killed


class StopIn(keras.callbacks.Callback):
    """Has Keras stop within an epoch, after a validation."""

    def __init__(self, epoch: int) -> None:
        super().__init__()
        self.epoch, self.now = epoch, 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.now = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.model.stop_training = (self.now, batch) == (self.epoch, 4)


def fit(path: str, kills: list[Kill], shuffle: Any, length: str, fit_args: Any) -> Any:
    """The rows of each validation, and the last figures."""
    validated: list[list[int]] = []
    trained: list[int] = []
    apart = True

    def noted(seen: list[Any]) -> Any:
        def note(x: Any, n: Any) -> Any:
            seen.extend(n.tolist())
            return x, x[:, :1]

        return note

    for kill in [*kills, (-1, 0)]:
        shuffled = D.from_tensor_slices((X, np.arange(NUM))).shuffle(NUM, **shuffle)
        in_test: list[int] = []
        train = shuffled.skip(NUM_VALIDATION).batch(SIZE)
        if length == "endless":
            train = train.repeat()
        elif length == "unknown":
            train = train.filter(lambda x, n: True)
        feed = train.map(noted(trained), stateful=True).to_keras()
        test = shuffled.take(NUM_VALIDATION).batch(SIZE).map(noted(in_test), stateful=True).to_keras()

        class Validations(keras.callbacks.Callback):
            def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
                trained.clear()  # before it, Keras may have looked at a batch of another epoch

            def on_test_begin(self, logs: Any = None, in_test: Any = in_test) -> None:
                in_test.clear()

            def on_test_end(self, logs: Any = None, in_test: Any = in_test) -> None:
                nonlocal apart
                validated.append(list(in_test))
                apart &= length == "endless" or not set(in_test) & set(trained)

        keras.utils.set_random_seed(0)
        made = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        made.compile("adam", "mse")
        checkpoint = ps.keras_checkpoint(path, feed, every_steps=3)
        stops = kill[1] == "stop"
        callbacks = [Validations(), StopIn(kill[0] if stops else -1), checkpoint, KillIn(*kill)]
        try:
            history = made.fit(feed, validation_data=test, verbose=0, callbacks=callbacks, epochs=5, **fit_args)
        except Killed:
            continue
        if stops:
            validated.pop()  # of half an epoch; to come again at its end
        last = {name: values[-1] for name, values in history.history.items()}
    return validated, last, apart


def cases() -> dict[str, Any]:
    reshuffled = {"seed": 7}
    by_name: dict[str, Any] = {
        "reshuffled": ([(2, 4)], reshuffled, "known", {}),
        "in the first epoch": ([(0, 4)], reshuffled, "known", {}),
        "in validations": ([(0, "validation"), (1, "validation")], reshuffled, "known", {}),
        "at the end of an epoch": ([(1, None), (3, 6)], reshuffled, "known", {}),
        "of unknown length": ([(2, 7), (2, "validation")], reshuffled, "unknown", {}),  # at a checkpoint
        "stopped": ([(0, "stop"), (2, "stop")], reshuffled, "known", {}),
        "every other epoch": ([(2, 4)], reshuffled, "known", {"validation_freq": 2}),
        "once": ([(2, 4)], {"seed": 7, "reshuffle_each_iteration": False}, "known", {}),
        "endless": ([(1, 5), (3, 2)], reshuffled, "endless", {"steps_per_epoch": 6}),
    }
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (kills, shuffle, length, fit_args) in by_name.items():
            whole = fit(f"{folder}/{name} whole", [], shuffle, length, fit_args)
            killed = fit(f"{folder}/{name}", kills, shuffle, length, fit_args)
            found[name] = {
                "same rows": killed[0] == whole[0],
                "same figures": killed[1] == whole[1],
                "apart": [whole[2], killed[2]],
                "num sets": len({tuple(sorted(rows)) for rows in whole[0]}),
            }
    return found


if __name__ == "__main__":
    json.dump(cases(), sys.stdout)
