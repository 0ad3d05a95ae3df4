"""`from_tf` with the real tf.data."""

from __future__ import annotations

import collections
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

import penstock as ps
from penstock.errors import BadType, StateError
from penstock.testing import check_op


def test_elements() -> None:
    x = np.arange(24, dtype=np.float32).reshape(8, 3)
    source = tf.data.Dataset.from_tensor_slices({"x": x, "name": [b"a", b"b"] * 4}).batch(4)
    dataset = ps.from_tf(source)
    assert len(dataset) == 2
    first, second = dataset
    assert second["x"].tolist() == x[4:].tolist()
    assert first["name"].tolist() == [b"a", b"b", b"a", b"b"]
    assert [int(n) for n in ps.from_tf(tf.data.Dataset.range(3))] == [0, 1, 2]


def test_tensors_are_not_copied() -> None:
    kept = []

    def element() -> tf.Tensor:
        kept.append(tf.ones((64, 64)))
        return kept[-1]

    run = ps.from_tf(Given(element)).run()
    array = next(run)
    assert array.ctypes.data == np.asarray(memoryview(kept[0])).ctypes.data
    del kept[:]
    assert array.sum() == 64 * 64


class Given(tf.data.Dataset):
    """A dataset of tensors that a function makes."""

    def __init__(self, make: Callable[[], object]) -> None:
        self._make = make
        self._range = tf.data.Dataset.range(3)
        super().__init__(self._range._variant_tensor)

    def _inputs(self) -> list[tf.data.Dataset]:
        return [self._range]

    @property
    def element_spec(self) -> object:
        return tf.TensorSpec((64, 64))

    def __iter__(self) -> object:
        return iter([self._make() for _ in range(3)])


def test_specs_are_those_of_tf_data() -> None:
    numbers = tf.data.Dataset.range(5)
    ragged = tf.ragged.constant([[1, 2], [3]])
    assert ps.from_tf(numbers.batch(2)).static_element_spec == ps.TensorSpec((None,), np.int64)
    assert ps.from_tf(numbers.take(0)).static_element_spec == ps.TensorSpec((), np.int64)
    assert ps.from_tf(tf.data.Dataset.from_tensors(ragged)).static_element_spec == ps.RaggedSpec((2, None), np.int32)
    rows = ps.from_tf(tf.data.Dataset.from_tensor_slices(ragged))
    assert rows.static_element_spec == ps.TensorSpec((None,), np.int32)
    assert [row.tolist() for row in rows] == [[1, 2], [3]]
    sparse = tf.data.Dataset.from_tensors(tf.sparse.from_dense([[0, 5]]))
    assert ps.from_tf(sparse).static_element_spec == ps.SparseSpec((1, 2), np.int32)
    none = numbers.filter(lambda n: n > 9)
    assert list(ps.from_tf(none).to_tf().map(lambda n: n + tf.constant(1, tf.int64))) == []


def test_structures_are_those_of_tf_data() -> None:
    pair = (collections.OrderedDict(b=1, a=b"x"), None)
    (found,) = ps.from_tf(tf.data.Dataset.from_tensors(pair))
    assert found == ({"b": 1, "a": b"x"}, None)


def test_lengths() -> None:
    numbers = tf.data.Dataset.range(10)
    assert ps.from_tf(numbers.repeat()).cardinality() == ps.INFINITE
    assert ps.from_tf(numbers.filter(lambda n: n > 3)).cardinality() == ps.UNKNOWN
    assert len(ps.from_tf(numbers.filter(lambda n: n > 3)).batch(2).run().state_dict()) > 0


def test_laws() -> None:
    check_op(ps.from_tf(tf.data.Dataset.range(30)).shuffle(8, seed=1).map(lambda n: n * 2).batch(4))


def test_ragged_sparse_and_bfloat16() -> None:
    ragged = tf.ragged.constant([[1, 2], [3]])
    (found,) = ps.from_tf(tf.data.Dataset.from_tensors(ragged))
    assert isinstance(found, ps.Ragged)
    assert found.to_list() == [[1, 2], [3]]
    sparse = tf.sparse.from_dense([[0, 5], [6, 0]])
    (found,) = ps.from_tf(tf.data.Dataset.from_tensors(sparse))
    assert found.to_dense().tolist() == [[0, 5], [6, 0]]
    (found,) = ps.from_tf(tf.data.Dataset.from_tensors(tf.ones(3, tf.bfloat16)))
    assert found.astype(np.float32).tolist() == [1, 1, 1]


def test_errors_of_tf_data_come_in_their_place() -> None:
    inverse = tf.data.Dataset.range(3).map(lambda n: 1.0 / tf.cast(n - 1, tf.float32))
    failing = inverse.map(lambda x: tf.debugging.check_numerics(x, "odd"))
    run = ps.from_tf(failing).run()
    assert float(next(run)) == -1
    with pytest.raises(tf.errors.InvalidArgumentError, match="odd"):
        next(run)
    assert list(run) == [1]


def test_a_pipeline_that_does_not_repeat_itself_cannot_be_resumed() -> None:
    def images(n: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"image": tf.fill((200, 200), n), "name": tf.strings.as_string(n)}

    numbers = tf.data.Dataset.range(100)
    for source in (numbers.shuffle(100, seed=1), numbers.map(images).shuffle(100, seed=1).batch(2)):
        dataset = ps.from_tf(source)
        run = dataset.run()
        for _ in range(10):
            next(run)
        with pytest.raises(StateError, match=r"gives other elements than before, .* reshuffle_each_iteration=False"):
            dataset.run().load_state_dict(run.state_dict())


def test_a_pipeline_that_repeats_itself_is_resumed() -> None:
    dataset = ps.from_tf(tf.data.Dataset.range(100).shuffle(100, seed=1, reshuffle_each_iteration=False))
    run = dataset.run()
    first = [int(next(run)) for _ in range(60)]
    again = dataset.run()
    again.load_state_dict(run.state_dict())
    assert sorted(first + [int(n) for n in again]) == list(range(100))


def test_what_is_no_dataset() -> None:
    with pytest.raises(BadType, match=r"from_tf at test_from_tf.py:\d+: dataset: expected a tf.data.Dataset, got list"):
        ps.from_tf([1, 2])


def test_errors_name_from_tf() -> None:
    with pytest.raises(ps.errors.BadType, match=r"from_tf at test_from_tf.py"):
        list(ps.from_tf(tf.data.Dataset.range(4).window(2)))


def test_string_tensors_of_functions_and_generators() -> None:
    """Asked for by DLPack, TensorFlow would end the process."""
    tensor = tf.constant(["a", "\u00e9"])
    of_generator = list(ps.Dataset.from_generator(lambda: iter([tensor, tensor[1]])))
    of_map = list(ps.Dataset.range(2).map(lambda i: tensor[int(i)]))
    assert [of_generator[0].tolist(), of_generator[1], *of_map] == [
        [b"a", b"\xc3\xa9"],
        b"\xc3\xa9",
        b"a",
        b"\xc3\xa9",
    ]
