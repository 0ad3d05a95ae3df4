"""`to_tf` with the real TensorFlow; in `model.fit`: see test_keras.py."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import penstock as ps
from penstock.adapters.tf_generated import _Failures
from penstock.errors import BadArgument, BadType, SpecMismatch

from .feeds import CHECKS, DTYPES, D, Pair, Sample, aligned, check_reuse, numbers_of, shuffled


def feed_of(dataset: ps.Dataset) -> Any:
    return dataset.to_tf(memory="32MB")


def address_of(tensor: Any) -> int:
    return int(np.asarray(memoryview(tensor)).ctypes.data)


@pytest.mark.parametrize("check", CHECKS)
def test_feeds(check: Callable[..., None]) -> None:
    check(feed_of)


def test_slots_are_used_again() -> None:
    check_reuse(feed_of, address_of)


def test_tensors_are_on_the_memory_of_their_batches() -> None:
    seen: list[int] = []

    def noted(x: np.ndarray, y: np.ndarray) -> Any:
        seen.append(x.ctypes.data)
        return x, y

    found = [address_of(x) for x, _ in shuffled().map(noted).to_tf()]
    assert found == seen


def test_views_of_your_arrays_are_copied() -> None:
    for data in (aligned((32, 256)), aligned((33, 255))[1:], aligned((32, 8))):
        for batch in D.from_tensor_slices(data).batch(16).to_tf():
            assert not np.may_share_memory(np.asarray(memoryview(batch)), data)


def test_operations_do_not_write_to_the_batch() -> None:
    data = aligned((32, 256))
    for batch in D.from_tensor_slices(data).batch(16).to_tf():
        for op in (tf.nn.relu, tf.negative, lambda x: x + 1.0, tf.function(lambda x: tf.exp(x + 1.0))):
            op(batch)
    assert not data.any()


def test_it_is_a_dataset_of_tensorflows() -> None:
    dataset = shuffled().to_tf()
    assert isinstance(dataset, tf.data.Dataset)
    assert dataset.element_spec == (tf.TensorSpec((None, 256), tf.float32), tf.TensorSpec((None,), tf.int32))
    assert int(dataset.cardinality()) == 8
    assert int(D.range(4).repeat().to_tf().cardinality()) == tf.data.INFINITE_CARDINALITY
    assert int(D.range(4).filter(lambda n: True).to_tf().cardinality()) == tf.data.UNKNOWN_CARDINALITY
    mapped = dataset.map(lambda x, y: y + 1).prefetch(2)
    epochs = [[n for batch in mapped for n in batch.numpy().tolist()] for _ in range(2)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(1, 65))
    assert epochs[0] != epochs[1]


def test_inside_a_function_of_tensorflows() -> None:
    @tf.function
    def total(dataset: Any) -> Any:
        result = tf.constant(0, tf.int64)
        for n in dataset:
            result += n
        return result

    assert int(total(D.range(5).to_tf())) == 10


def test_a_gradient_tape_loop() -> None:
    weights = tf.Variable(tf.zeros((256, 1)))
    for x, y in shuffled().to_tf():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ weights - tf.cast(y, tf.float32)[:, None]) ** 2)
        weights.assign_sub(1e-7 * tape.gradient(loss, weights))
    assert float(tf.reduce_sum(weights)) > 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype: str) -> None:
    data = np.arange(4).astype(dtype)
    (batch,) = D.from_tensor_slices(data).batch(4).to_tf()
    assert batch.dtype.name == dtype
    np.testing.assert_array_equal(batch.numpy(), data)


def test_strings_scalars_and_structures() -> None:
    element = Sample(np.array([b"a", b"bc"], object), {"n": np.float32(3), "pair": Pair(np.int64(1), b"x")})
    (sample,) = D.from_tensors(element).to_tf()
    assert type(sample) is Sample
    assert sample.image.numpy().tolist() == [b"a", b"bc"]
    assert sample.label["n"].dtype == tf.float32
    assert sample.label["pair"].second.numpy() == b"x"
    (plain,) = D.from_tensors(element).to_tf().map(lambda sample: sample)
    assert plain["label"]["pair"].first.numpy() == 1


def test_arrays_of_other_layouts() -> None:
    data = np.arange(6, dtype=np.int32).reshape(2, 3)
    for odd in (data[:, ::-1], data.T, np.broadcast_to(data[0], (2, 3)), np.zeros((0, 3)), data.astype(">i4")):
        (batch,) = D.from_tensors(odd).to_tf()
        assert batch.numpy().tolist() == odd.tolist()


def test_ragged_and_sparse() -> None:
    rows = D.from_generator(lambda: (np.arange(n) for n in (1, 2, 3)), ps.TensorSpec((None,), np.int64))
    ragged = rows.ragged_batch(3).to_tf()
    sparse = D.from_tensors(ps.Sparse(np.array([[0, 1], [1, 2]]), np.array([5.0, 6.0]), np.array([2, 3]))).to_tf()
    for dataset in (ragged, ragged.map(lambda x: x)):  # as it is, and by way of tf.data
        (batch,) = dataset
        assert isinstance(batch, tf.RaggedTensor)
        assert batch.to_list() == [[0], [0, 1], [0, 1, 2]]
    for dataset in (sparse, sparse.map(lambda x: x)):
        (batch,) = dataset
        assert tf.sparse.to_dense(batch).numpy().tolist() == [[0, 5, 0], [0, 0, 6]]


def test_ragged_batches_of_what_a_function_gives_are_ragged_where_tensorflow_reads_them() -> None:
    rows = D.range(1, 5).map(lambda n: np.full(n, n))
    ragged = rows.ragged_batch(2).to_tf()
    assert ragged.element_spec == tf.RaggedTensorSpec((None, None), tf.int64, 1)
    assert [batch.to_list() for batch in ragged.map(lambda x: x)] == [[[1], [2, 2]], [[3] * 3, [4] * 4]]
    (short,) = rows.ragged_batch(4, row_splits_dtype=np.int32).to_tf().map(lambda x: x)
    assert short.to_list() == [[n] * n for n in range(1, 5)]


def test_what_tensorflow_has_no_tensors_for() -> None:
    windows = D.range(4).window(2).to_tf()
    with pytest.raises(BadType, match=r"to_tf: .*Dataset"):
        next(iter(windows))
    with pytest.raises(BadType, match=r"expected arrays, got Dataset"):
        _ = windows.element_spec
    dates = D.from_tensors(np.zeros(3, "datetime64[s]")).to_tf()
    with pytest.raises(BadType, match="datetime64"):
        next(iter(dates))
    with pytest.raises(BadType, match="datetime64"):
        _ = dates.element_spec


def test_an_empty_dataset() -> None:
    assert list(D.range(0).map(lambda n: n).to_tf()) == []


def test_elements_that_never_come() -> None:
    none = D.range(5).filter(lambda n: n > 9).map(lambda n: (n, n))
    with pytest.raises(BadArgument, match=r"has no first one to tell; say it with to_tf\(output_signature=…\)"):
        none.to_tf().map(lambda x, y: x + y)
    assert list(none.to_tf()) == []
    assert "map" in repr(none.to_tf())
    number = tf.TensorSpec((), tf.int64)
    told = none.to_tf(output_signature=(number, number))
    assert told.element_spec == (number, number)
    assert list(told.map(lambda x, y: x + y)) == []


def test_elements_must_fit_the_signature() -> None:
    halves = D.range(3).map(lambda n: n * 0.5)
    as_numbers = halves.to_tf(output_signature=tf.TensorSpec((), tf.int64))
    with pytest.raises(SpecMismatch, match="expected int64, got float64 with a value"):
        list(as_numbers)
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected int64, got float64 with a value"):
        list(as_numbers.map(lambda n: n))
    short = halves.to_tf(output_signature=ps.TensorSpec((), np.float32))
    for dataset in (short, short.map(lambda x: x)):
        assert [(x.dtype, float(x)) for x in dataset] == [(tf.float32, n / 2) for n in range(3)]
    for odd in (3, (), tf.TensorSpec((), tf.variant)):
        with pytest.raises(BadType, match=r"to_tf at test_tensorflow.py:\d+: output_signature: expected"):
            halves.to_tf(output_signature=odd)


def test_a_strategy_deals_out_batches() -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    dealt = strategy.experimental_distribute_dataset(shuffled().to_tf())
    assert sorted(n for batch in dealt for n in numbers_of(batch)) == list(range(64))


def test_an_error_that_nobody_asked_for_yet_holds_no_batch() -> None:
    failures = _Failures(tf.TensorSpec((3,), tf.int64))

    def fail() -> None:
        batch = np.zeros(3)
        batches.append(weakref.ref(batch))
        raise ValueError("it fails")

    batches: list[Any] = []
    try:
        fail()
    except ValueError as error:
        failures.add(error)
    assert batches[0]() is None
