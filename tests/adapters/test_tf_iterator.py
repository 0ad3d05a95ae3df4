"""Iterators of `to_tf()` in graphs, with the real tf.data's for an oracle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import penstock as ps
from penstock.errors import StateError

D = ps.Dataset


def total(batch: Any) -> Any:
    return tf.reduce_sum(batch)


@tf.function
def step(iterator: Any) -> Any:
    return tf.reduce_sum(next(iterator))


def given(dataset: Any) -> Any:
    iterator = iter(dataset)
    return [int(step(iterator)) for _ in range(4)]


def captured(dataset: Any) -> Any:
    iterator = iter(dataset)
    read = tf.function(lambda: tf.reduce_sum(next(iterator)))
    return [int(read()) for _ in range(4)]


def captured_and_dropped(dataset: Any) -> Any:
    def traced(iterator: Any) -> Any:
        return tf.function(lambda: tf.reduce_sum(next(iterator))).get_concrete_function()

    read = traced(iter(dataset))
    return [int(read()) for _ in range(4)]


def without_autograph(dataset: Any) -> Any:
    iterator = iter(dataset)
    read = tf.function(lambda batches: tf.reduce_sum(batches.get_next()), autograph=False)
    return [int(read(iterator)) for _ in range(4)]


def in_a_loop_of_a_graph(dataset: Any) -> Any:
    @tf.function
    def read(iterator: Any) -> Any:
        result = tf.constant(0, tf.int64)
        for _ in tf.range(4):
            result += tf.reduce_sum(next(iterator))
        return result

    return int(read(iter(dataset)))


def in_a_while_loop(dataset: Any) -> Any:
    @tf.function
    def read(iterator: Any) -> Any:
        def body(i: Any, result: Any) -> Any:
            return i + 1, result + tf.reduce_sum(iterator.get_next())

        return tf.while_loop(lambda i, result: i < 4, body, (0, tf.constant(0, tf.int64)))[1]

    return int(read(iter(dataset)))


def looped_over_twice(dataset: Any) -> Any:
    @tf.function
    def read(iterator: Any) -> Any:
        result = tf.constant(0, tf.int64)
        for batch in iterator:
            result += tf.reduce_sum(batch)
        return result

    iterator = iter(dataset)
    return int(read(iterator)), int(read(iterator))


def past_the_end(dataset: Any) -> Any:
    iterator = iter(dataset)
    for _ in range(4):
        step(iterator)
    found = []
    for read in (step, lambda batches: batches.get_next(), next):
        with pytest.raises((StopIteration, tf.errors.OutOfRangeError)) as caught:
            read(iterator)
        found.append(caught.type)
    return found


def optionals(dataset: Any) -> Any:
    iterator = iter(dataset)
    found = [iterator.get_next_as_optional() for _ in range(5)]
    return [bool(each.has_value()) and int(total(each.get_value())) for each in found]


def what_it_is(dataset: Any) -> Any:
    iterator = iter(dataset)
    return isinstance(iterator, tf.data.Iterator), iterator.element_spec, tf.data.IteratorSpec.from_value(iterator)


def dealt_out_by_a_strategy(dataset: Any) -> Any:
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])

    @tf.function
    def read(iterator: Any) -> Any:
        return strategy.run(total, args=(next(iterator),))

    dealt = iter(strategy.experimental_distribute_dataset(dataset))
    return [int(read(dealt)) for _ in range(4)]


def given_to_replicas(dataset: Any) -> Any:
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    iterator = iter(dataset)
    read = tf.function(lambda: strategy.run(lambda batches: tf.reduce_sum(next(batches)), args=(iterator,)))
    return [int(read()) for _ in range(4)]


FORMS = (
    *(given, captured, captured_and_dropped, without_autograph, in_a_loop_of_a_graph, in_a_while_loop),
    *(looped_over_twice, past_the_end, optionals, what_it_is, dealt_out_by_a_strategy),
    given_to_replicas,
)


@pytest.mark.parametrize("read", FORMS)
def test_batches_are_those_of_tf_data(read: Callable[[Any], Any]) -> None:
    assert read(D.range(12).batch(3).to_tf()) == read(tf.data.Dataset.range(12).batch(3))


def test_eager_code_and_graphs_read_in_turn() -> None:
    iterator = iter(D.range(600).batch(3).to_tf())
    readers: list[Callable[[Any], Any]] = [step, lambda batches: total(next(batches)), lambda b: total(b.get_next())]
    found = [int(readers[i % 3](iterator)) for i in range(200)]
    assert found == [9 * i + 3 for i in range(200)]
    assert next(iterator, None) is None


def test_a_function_is_traced_once_for_all_epochs() -> None:
    num_traces = 0

    @tf.function
    def read(iterator: Any) -> Any:
        nonlocal num_traces
        num_traces += 1
        return next(iterator)

    dataset = D.range(12).shuffle(seed=1).batch(12).to_tf()
    orders = [read(iter(dataset)).numpy().tolist() for _ in range(3)]
    assert num_traces == 1
    assert len({tuple(order) for order in orders}) == 3


def test_what_graphs_read_is_given_back_when_dropped() -> None:
    iterator = iter(D.range(100).batch(3).prefetch(2).to_tf(memory="32MB"))
    step(iterator)
    next(iterator)
    ledger = iterator.run.ledger
    assert ledger.charged_bytes > 0
    del iterator
    assert ledger.charged_bytes == 0


def test_positions_are_those_of_both() -> None:
    iterator = iter(D.range(12).batch(3).to_tf())
    assert [int(step(iterator)), int(total(next(iterator)))] == [3, 12]
    state = iterator.state_dict()
    assert [int(step(iterator)) for _ in range(2)] == [21, 30]
    with pytest.raises(tf.errors.OutOfRangeError):
        step(iterator)
    iterator.load_state_dict(state)  # after its end, too
    assert [int(step(iterator)) for _ in range(2)] == [21, 30]


def test_checkpoints_of_tensorflows_have_the_position(tmp_path: Path) -> None:
    dataset = D.range(12).shuffle(seed=1).batch(3).to_tf()
    iterator = iter(dataset)
    step(iterator)
    path = tf.train.Checkpoint(batches=iterator).save(str(tmp_path / "saved"))
    rest = [int(total(batch)) for batch in iterator]
    assert len(rest) == 3
    tf.train.Checkpoint(batches=iterator).restore(path)
    assert [int(step(iterator)) for _ in range(3)] == rest
    resumed = iter(dataset)
    tf.train.Checkpoint(batches=resumed).restore(path)
    assert [int(total(batch)) for batch in resumed] == rest
    with pytest.raises(StateError, match="another pipeline"):
        tf.train.Checkpoint(batches=iter(D.range(12).to_tf())).restore(path)


def test_after_an_error_the_next_element_follows_in_graphs() -> None:
    def odd(n: Any) -> Any:
        if n == 2:
            raise ValueError("two")
        return n

    dataset = D.range(4).map(odd).to_tf()
    for iterator in (iter(dataset), iter(dataset.map(lambda n: n))):
        assert [int(step(iterator)) for _ in range(2)] == [0, 1]
        with pytest.raises(tf.errors.InvalidArgumentError, match="two"):
            step(iterator)
        assert int(step(iterator)) == 3


def by_nests(n: Any) -> Any:
    if n % 2:
        raise ValueError("odd")
    ragged = ps.Ragged(ps.Ragged(np.arange(3.0), np.array([0, 1, 3])), np.array([0, 0, 2]))
    sparse = ps.Sparse(np.array([[0, 1]]), np.array([b"a"], object), np.array([2, 3]))
    return {"ragged": ragged, "sparse": sparse, "rest": (b"x", np.ones((2, 3), np.float16), n > 0)}


@pytest.mark.timeout(60)
def test_elements_that_fail_count_where_tf_data_counts() -> None:
    """The length is right, and the end is an end: for `ignore_errors` it was none."""
    dataset = D.range(6).map(by_nests).to_tf()
    assert int(dataset.map(lambda nest: nest).cardinality()) == 6
    assert [int(nest["ragged"].nrows()) for nest in dataset.ignore_errors()] == [2, 2, 2]
    batches, seen = iter(dataset.map(lambda nest: nest["rest"][2])), []
    for _ in range(8):
        try:
            seen.append(bool(next(batches)))
        except (tf.errors.InvalidArgumentError, StopIteration) as error:
            seen.append(type(error))
    failed, end = tf.errors.InvalidArgumentError, StopIteration
    assert seen == [False, failed, True, failed, True, failed, end, end]


@pytest.mark.timeout(60)
def test_so_do_elements_that_are_unlike_the_first() -> None:
    dataset = D.range(4).map(lambda n: np.ones((2, int(n) % 2 + 1))).to_tf()
    assert len(list(dataset.ignore_errors())) == 2
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"TensorSpec.*\(None, 1\).* to_tf\(output_signature=…\)"):
        list(dataset.map(lambda x: x))


def test_a_training_function_of_the_users_that_keras_calls() -> None:
    import keras

    class Model(keras.Model):
        seen: list[float]

        def make_train_function(self, force: bool = False) -> None:
            read = tf.function(lambda iterator: tf.reduce_sum(next(iterator)))

            def train(iterator: Any) -> dict[str, float]:
                self.seen.append(float(read(iterator)))
                return {"loss": 0.0}

            self.train_function = train

        def call(self, x: Any) -> Any:
            return x

    dataset = D.range(12).batch(3)
    for feed in (dataset.to_tf(), dataset.to_keras()):
        model = Model()
        model.seen = []
        model.compile(loss="mse")
        model.built = True
        model.fit(feed, epochs=2, verbose=0)
        assert model.seen == [3, 12, 21, 30] * 2
