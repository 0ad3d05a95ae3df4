"""Programs for test_keras.py: they run on the backend that KERAS_BACKEND names, and print one line of JSON.

python keras_children.py <names>: see PROGRAMS at the end.
"""

import contextlib
import dataclasses
import gc
import json
import os
import sys
import tempfile
import warnings
from collections import namedtuple
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from keras_kills import KillAfter, Killed

import penstock as ps

D = ps.Dataset
NUM, SIZE = 70, 8
RNG = np.random.default_rng(0)
X = RNG.normal(size=(NUM, 200)).astype(np.float32)
Y = X[:, :1] - 0.5 * X[:, 1:2]
# Keras says this at the end of data whose length it was not told.
warnings.filterwarnings("ignore", "Your input ran out of data")
warnings.filterwarnings("ignore", "`shuffle=True` was passed")

Batch = namedtuple("Batch", ["x", "y"])


@dataclasses.dataclass
class Features:
    """Inputs of a model with two."""

    left: Any
    right: Any


def batches() -> ps.Dataset:
    return D.from_tensor_slices((X, Y, np.arange(NUM))).shuffle(seed=1).batch(SIZE)


def looped_over() -> list[Any]:
    """Two epochs in a loop that is not Keras's, and a position in the third."""
    model, feed = eager(), labelled().to_keras()
    found: list[Any] = []
    for _ in range(2):
        given = list(feed)
        losses = [model.train_on_batch(x, y) for x, y in given]
        found.append([len(losses), all(keras.ops.is_tensor(x) for x, y in given)])
    first, other = iter(feed), labelled().to_keras()
    next(first)
    other.load_state_dict(feed.state_dict())
    resumed = next(iter(other))[0]
    same = np.array_equal(keras.ops.convert_to_numpy(next(first)[0]), keras.ops.convert_to_numpy(resumed))
    return [*found, same]


def labelled() -> ps.Dataset:
    return batches().map(lambda x, y, n: (x, y))


def noting(dataset: ps.Dataset, seen: list[Any]) -> ps.Dataset:
    """The dataset, and in `seen` the first number of each batch that was made."""

    def noted(x: Any, y: Any, n: Any) -> Any:
        seen.append(int(n[0]))
        return x, y

    return dataset.map(noted, stateful=True)


class Steps(keras.callbacks.Callback):
    """Counts steps by epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.by_epoch: list[int] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.by_epoch.append(0)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.by_epoch[-1] += 1


def model(**compile_args: Any) -> Any:
    keras.utils.set_random_seed(0)
    made = keras.Sequential([keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)])
    made.compile(keras.optimizers.SGD(0.01), "mse", metrics=["mae"], **compile_args)
    return made


def fit() -> dict[str, Any]:
    """Each epoch is a run, the weights are those of the same batches given one by one, with the same dropout."""
    seen: list[int] = []
    trained, steps = with_dropout(), Steps()
    validation = labelled().take(3)
    history = trained.fit(
        noting(batches(), seen).to_keras(memory="16MB"),
        epochs=3,
        verbose=0,
        validation_data=validation.to_keras(),
        callbacks=[steps],
    )
    by_hand = with_dropout()
    expected = []
    for epoch in range(3):
        for x, y, n in batches().run(epoch=epoch):
            expected.append(int(n[0]))
            by_hand.train_on_batch(np.array(x), np.array(y))
    pairs = zip(trained.get_weights(), by_hand.get_weights(), strict=True)
    return {
        "epochs": seen[-27:],
        "looked at": seen[:-27] in ([], expected[:1]),  # Keras may read a batch before the first epoch, for its shapes
        "expected": expected,
        "steps": steps.by_epoch,
        "val_loss": len(history.history["val_loss"]),
        "weights_differ_by": float(max(np.abs(a - b).max() for a, b in pairs)),
    }


def eager() -> Any:
    """A model that is not compiled: quicker for a few steps."""
    return model(run_eagerly=True)


def two_inputs() -> Any:
    left, right = keras.Input((100,), name="left"), keras.Input((100,), name="right")
    made = keras.Model({"left": left, "right": right}, keras.layers.Dense(1)(left + right))
    made.compile("sgd", "mse", run_eagerly=True)
    return made


def trains(made: Any, dataset: ps.Dataset) -> bool:
    steps = Steps()
    made.fit(dataset.to_keras(), epochs=2, verbose=0, callbacks=[steps])
    return steps.by_epoch == [9, 9]


def kinds() -> dict[str, Any]:
    dicts = labelled().map(lambda x, y: ({"left": x[:, :100], "right": x[:, 100:]}, y))
    classes = labelled().map(lambda x, y: (Features(x[:, :100], x[:, 100:]), y))
    unweighted = eager()
    unweighted.fit(labelled().map(lambda x, y: (x, y, np.zeros(len(y)))).to_keras(), epochs=1, verbose=0)
    unknown, endless = Steps(), Steps()
    filtered = batches().filter(lambda x, y, n: True).map(lambda x, y, n: (x, y))
    eager().fit(filtered.to_keras(), epochs=2, verbose=0, callbacks=[unknown])
    eager().fit(labelled().repeat().to_keras(), epochs=2, steps_per_epoch=5, verbose=0, callbacks=[endless])
    return {
        "weights are used": all((a == b).all() for a, b in zip(unweighted.get_weights(), untrained(), strict=True)),
        "dicts": trains(two_inputs(), dicts),
        "namedtuple": trains(eager(), labelled().map(lambda x, y: Batch(x, y))),
        "dataclass": trains(two_inputs(), classes),
        "features alone": list(eager().predict(labelled().map(lambda x, y: x).to_keras(), verbose=0).shape),
        "looped over": looped_over(),
        "unknown length": unknown.by_epoch,
        "steps_per_epoch": sum(endless.by_epoch),
        "class weights": class_weights(),
        "one step at a time": in_parts(),
        "one batch of unknown length": one_batch(),
        "single steps": single_steps(),
        "resumed": resumed(),
        "begun twice": begun_twice(),
        "stopped early": stopped_early(),
        "runs": runs(),
    }


def class_weights() -> dict[str, Any]:
    """Class weights have the effect that they have on arrays; beside a validation on the same feed, and not after."""
    rows, labels = X[:, :20], (X[:, 0] > 0.3).astype(np.int32)
    feed = D.from_tensor_slices((rows, labels)).batch(SIZE).to_keras()

    def weights_of(*data: Any, made: Any = None, **fit_args: Any) -> list[np.ndarray]:
        if made is None:
            made = classifier()
        made.fit(*data, epochs=2, shuffle=False, verbose=0, **fit_args)
        return list(made.get_weights())

    def differ_by(a: list[np.ndarray], b: list[np.ndarray]) -> float:
        return max(float(np.abs(x - y).max()) for x, y in zip(a, b, strict=True))

    asked = {"class_weight": {0: 1.0, 1: 20.0}}
    with_weights = weights_of(rows, labels, batch_size=SIZE, **asked)
    without = weights_of(rows, labels, batch_size=SIZE)
    found: dict[str, Any] = {
        "matter": differ_by(with_weights, without) > 0.1,
        "as for arrays": differ_by(weights_of(feed, validation_data=feed, **asked), with_weights),
        "none, as for arrays": differ_by(weights_of(feed), without),
    }
    for name, arguments in {"y": {"y": labels}, "classes": {"class_weight": [1, 2]}}.items():
        try:
            found[name] = weights_of(feed, **arguments)
        except ps.errors.PenstockError as error:
            found[name] = str(error)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
            shared = classifier()
        found["under a strategy"] = differ_by(weights_of(feed, made=shared, **asked), with_weights)
    return found


def classifier() -> Any:
    keras.utils.set_random_seed(0)
    made = keras.Sequential([keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(3, activation="softmax")])
    made.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy", weighted_metrics=["accuracy"])
    return made


def untrained() -> list[np.ndarray]:
    made = eager()
    made.build((None, 200))
    return list(made.get_weights())


def in_parts() -> list[list[int]]:
    """A dataset of known length, cut into epochs of three steps: one run, read on and on."""
    seen: list[int] = []
    made = eager()
    made.build((None, 200))
    feed = noting(batches(), seen).to_keras()
    made.fit(feed, epochs=3, steps_per_epoch=3, verbose=0)
    order = [int(n[0]) for _, _, n in batches().run(epoch=0)]
    places = [order.index(n) for n in seen[-9:]]
    return [places[:3], places[3:6], places[6:]]


def one_batch() -> bool:
    """An epoch of one batch is an epoch, and no look at the shapes."""
    seen: list[int] = []
    whole = D.from_tensor_slices((X, Y, np.arange(NUM))).shuffle(seed=1).batch(NUM).filter(lambda x, y, n: True)
    made = eager()
    made.build((None, 200))
    made.fit(noting(whole, seen).to_keras(), epochs=3, verbose=0)
    return seen[-3:] == [int(n[0]) for epoch in range(3) for _, _, n in D(whole.node).run(epoch=epoch)]


def single_steps() -> dict[str, list[int]]:
    """Which epochs are read by fits and evaluations of one step each: none of them is a look at the shapes."""
    firsts = [next(int(n[0]) for _, _, n in batches().run(epoch=epoch)) for epoch in range(5)]

    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.model.stop_training = True

    def epochs_of(read: Callable[[Any, Any], Any], num_calls: int = 4) -> list[int]:
        seen: list[int] = []
        feed, made = noting(batches(), seen).to_keras(), eager()
        made.build((None, 200))
        for _ in range(num_calls):
            read(made, feed)
        found = [firsts.index(n) for n in seen]
        return found[found[:2] == [0, 0] :]  # Keras may look before the first epoch

    return {
        "fit": epochs_of(lambda made, feed: made.fit(feed, steps_per_epoch=1, verbose=0)),
        "stopped": epochs_of(lambda made, feed: made.fit(feed, callbacks=[Stop()], verbose=0)),
        "evaluate": epochs_of(lambda made, feed: made.evaluate(feed, steps=1, verbose=0)),
        "predict": epochs_of(lambda made, feed: made.predict(feed, steps=1, verbose=0)),
        "validation": epochs_of(
            lambda made, feed: made.fit(
                X[:8], Y[:8], epochs=4, validation_data=feed, validation_steps=1, batch_size=8, verbose=0
            ),
            num_calls=1,
        ),
    }


def resumed() -> bool:
    """A position that was saved within an epoch is where the next fit goes on."""
    states: list[Any] = []
    feed = noting(batches(), []).to_keras()

    class Save(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == 3:
                states.append(json.loads(json.dumps(feed.state_dict())))

    eager().fit(feed, epochs=2, verbose=0, callbacks=[Save()])
    seen: list[int] = []
    later = noting(batches(), seen).to_keras()
    later.load_state_dict(states[1])
    eager().fit(later, epochs=1, steps_per_epoch=5, verbose=0)
    return seen[-5:] == [int(n[0]) for _, _, n in batches().run(epoch=1)][4:]


def begun_twice() -> list[bool]:
    """Whether a fit begins where one began that failed before its first epoch: anew, and at a position."""

    class Fail(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            raise InterruptedError

    with noting(batches(), []).run(epoch=1) as run:
        next(run)
        state = run.state_dict()
    found = []
    for epoch, place in ((0, 0), (1, 1)):
        seen: list[int] = []
        made, feed = eager(), D(noting(batches(), seen).node).to_keras()
        if place:
            feed.load_state_dict(state)
        with contextlib.suppress(InterruptedError):
            made.fit(feed, verbose=0, callbacks=[Fail()])
        made.fit(feed, verbose=0)
        order = [int(n[0]) for _, _, n in batches().run(epoch=epoch)][place:]
        found.append(seen[-len(order) :] == order)
    return found


def stopped_early() -> int:
    """Bytes on the ledger of a run that Keras dropped."""
    feed = labelled().prefetch(2).to_keras()

    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.model.stop_training = batch == 2

    eager().fit(feed, epochs=1, verbose=0, callbacks=[Stop()])
    gc.collect()  # Keras's own iterator is part of a cycle
    return int(feed.last_run.ledger.charged_bytes)


def runs() -> list[Any]:
    """What a callback sees of the run that feeds each epoch."""
    feed, seen = labelled().to_keras(memory="16MB"), []

    def note(epoch: int, logs: Any) -> None:
        memory = feed.last_run.memory()
        seen.append([feed.last_run.epoch, memory["budget_bytes"], 0 < memory["peak_bytes"] <= 16_000_000])

    before = feed.last_run
    eager().fit(feed, epochs=2, verbose=0, callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=note)])
    return [before, *seen]


def steps_of(dataset: Any, made: Any = None, **fit_args: Any) -> list[int]:
    steps = Steps()
    (made or model()).fit(dataset, verbose=0, callbacks=[steps], **fit_args)
    return steps.by_epoch


def fit_to_tf() -> dict[str, Any]:
    import tensorflow as tf

    unknown = batches().filter(lambda x, y, n: True).map(lambda x, y, n: (x, y))
    classes = batches().map(lambda x, y, n: (x, n[:, None] % 2))
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        shared = model()
    found = {
        "known": steps_of(labelled().to_tf(), epochs=3),
        "unknown": steps_of(unknown.to_tf(), epochs=3),
        "endless": steps_of(labelled().repeat().to_tf(), epochs=3, steps_per_epoch=5),
        "class_weight": steps_of(classes.to_tf(), epochs=1, class_weight={0: 1.0, 1: 2.0}) == [9],
        "steps_per_execution": steps_of(labelled().to_keras(), model(steps_per_execution=3), epochs=2),
        "strategy": steps_of(shared_feed := labelled().to_keras(), shared, epochs=2),
    }
    found["run under a strategy"] = shared_feed.last_run.epoch > 0
    return found


def with_dropout(**compile_args: Any) -> Any:
    """A model with random numbers of its own, which is built by its first batch, and an optimizer that remembers."""
    keras.utils.set_random_seed(0)
    made = keras.Sequential([keras.layers.Dense(8, "tanh"), keras.layers.Dropout(0.3), keras.layers.Dense(1)])
    made.compile("adam", "mse", metrics=["mae"], **compile_args)
    return made


def fit_until_done(
    make: Callable[[], ps.Dataset], path: str, kills: list[int], fit_args: Any, per_execution: int = 1
) -> Any:
    """Weights and the last epoch's figures of a fit that is killed after so many steps, begun again, killed again."""
    for kill in [*kills, 1000]:
        made, feed = with_dropout(steps_per_execution=per_execution), make().to_keras(memory="16MB")
        checkpoint = ps.keras_checkpoint(path, feed, every_steps=2)
        try:
            history = made.fit(feed, verbose=0, callbacks=[checkpoint, KillAfter(kill)], **fit_args)
        except Killed:
            continue
        weights = [keras.ops.convert_to_numpy(variable).tolist() for variable in made.weights]
        return weights, {name: values[-1] for name, values in history.history.items()}


def checkpoints() -> dict[str, bool]:
    """Whether fits that were killed end as those that were not."""
    warnings.simplefilter("ignore", DeprecationWarning)  # NumPy, of Keras's variables
    unknown = batches().filter(lambda x, y, n: True).map(lambda x, y, n: (x, y))
    cases: dict[str, Any] = {
        "known": (labelled, [5, 3], {"epochs": 2, "validation_data": (X[:8], Y[:8]), "class_weight": {0: 3}}),
        "unknown": (lambda: unknown, [8, 1], {"epochs": 2}),
        "endless": (lambda: labelled().repeat(), [4, 6], {"epochs": 3, "steps_per_epoch": 5}),
        "one run in parts": (labelled, [5], {"epochs": 4, "steps_per_epoch": 3}),
    }
    if keras.backend.backend() != "tensorflow":
        cases = {"known": cases["known"], "unknown": cases["unknown"]}
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (make, kills, fit_args) in cases.items():
            whole = fit_until_done(fresh(make), f"{folder}/{name} whole", [], fit_args)
            found[name] = fit_until_done(fresh(make), f"{folder}/{name}", kills, fit_args) == whole
        if keras.backend.backend() == "tensorflow":
            name, fit_args = "steps at a time", {"epochs": 2}
            whole = fit_until_done(fresh(lambda: unknown), f"{folder}/{name} whole", [], fit_args, 4)
            found[name] = fit_until_done(fresh(lambda: unknown), f"{folder}/{name}", [2, 2], fit_args, 4) == whole
            cases[name] = ()
            found["under a strategy"] = refused_under_a_strategy(f"{folder}/strategy")
        found["another model"] = refused_by_another_model(f"{folder}/known")
        found["validation"] = refused_for_validation_too(f"{folder}/known whole")
        found["files"] = sorted(os.listdir(folder)) == sorted([*cases, *(f"{name} whole" for name in cases)])
        found["ends of epochs"] = goes_on_after_an_epoch(f"{folder}/made when/training begins")
    return found


def fresh(make: Callable[[], ps.Dataset]) -> Callable[[], ps.Dataset]:
    """The dataset as another process would make it: its epochs begin anew."""
    return lambda: D(make().node)


def refused_under_a_strategy(path: str) -> bool:
    """TensorFlow reads ahead there, by means of its own: a position could not be exact."""
    import tensorflow as tf

    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        made = model()
    feed = labelled().to_keras()
    try:
        made.fit(feed, verbose=0, callbacks=[ps.keras_checkpoint(path, feed)])
    except ps.errors.StateError as error:
        return "without a distribution strategy?" in str(error)
    return False


def goes_on_after_an_epoch(path: str) -> bool:
    """Whether four epochs are the same as two and, in another process, two more. Each is of one batch."""

    def fit_on(num_epochs: int, path: str) -> Any:
        rows = D.from_tensor_slices((X, Y, np.arange(NUM))).shuffle(seed=1).batch(NUM)
        seen: list[int] = []
        made, feed = with_dropout(), noting(rows, seen).to_keras()
        history = made.fit(feed, epochs=num_epochs, verbose=0, callbacks=[ps.keras_checkpoint(path, feed)])
        weights = [keras.ops.convert_to_numpy(variable).tolist() for variable in made.weights]
        return weights, history.epoch, seen[-2:]

    whole = fit_on(4, f"{path} whole")
    fit_on(2, path)
    weights, epochs, seen = fit_on(4, path)
    return epochs == [2, 3] and (weights, seen) == (whole[0], whole[2])


def refused_for_validation_too(path: str) -> str:
    """Even if it reads so few batches that the positions before them are still known."""
    made, feed = with_dropout(), labelled().to_keras()
    try:
        made.fit(
            feed,
            epochs=9,
            verbose=0,
            validation_data=feed,
            validation_steps=1,
            callbacks=[ps.keras_checkpoint(path, feed)],
        )
    except ps.errors.StateError as error:
        return str(error)
    return "not refused"


def refused_by_another_model(path: str) -> str:
    made = keras.Sequential([keras.Input((200,)), keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    feed = labelled().to_keras()
    try:
        made.fit(feed, verbose=0, callbacks=[ps.keras_checkpoint(path, feed)])
    except ps.errors.StateError as error:
        return str(error).partition(": ")[2]
    return "not refused"


PROGRAMS: dict[str, Callable[[], Any]] = {
    "fit": fit,
    "kinds": kinds,
    "fit_to_tf": fit_to_tf,
    "checkpoints": checkpoints,
}

if __name__ == "__main__":
    print(json.dumps({name: PROGRAMS[name]() for name in sys.argv[1:]}))
