"""Signatures in TensorFlow's specs, against tf.data's own `from_generator`, and what `to_tf` makes of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import penstock as ps
from penstock.errors import BadType, PenstockError, SpecMismatch

R = tf.RaggedTensorSpec


# Tensors are made by the tests that need them: the first one starts TensorFlow, and while tests are collected others
# still have to say with how many threads.
@cache
def ragged() -> Any:
    return tf.ragged.constant([[1], [2, 3]], tf.int32)


@cache
def pairs() -> Any:
    return tf.ragged.constant([[[1, 2]], [[3, 4], [5, 6]]], tf.int32, ragged_rank=1)


@cache
def deep() -> Any:
    return tf.ragged.constant([[[1]], [[2, 3], []]], tf.int32)


@cache
def texts() -> Any:
    return tf.ragged.constant([["a"], [], ["b", "c"]])


@cache
def sparse() -> Any:
    return tf.sparse.from_dense([[0, 7], [8, 0]])


NUMBER = tf.TensorSpec((), tf.int64)


def plain(leaf: Any) -> Any:
    if isinstance(leaf, (tf.RaggedTensor, ps.Ragged)):
        return "ragged", leaf.to_list(), tf.as_dtype(leaf.dtype)
    if isinstance(leaf, (tf.SparseTensor, ps.Sparse)):
        return "sparse", *(np.asarray(part).tolist() for part in (leaf.indices, leaf.values, leaf.dense_shape))
    return np.asarray(leaf).tolist()


def both(value: Any, signature: Any) -> list[Any]:
    """What tf.data and penstock make of a generator's value: a nest of plain values, or None where it is refused."""
    found: list[Any] = []
    for dataset in (tf.data.Dataset, ps.Dataset):
        try:
            (element,) = dataset.from_generator(lambda: iter([value]), output_signature=signature)
            found.append(tf.nest.map_structure(plain, element) if dataset is tf.data.Dataset else mapped(element))
        except (tf.errors.InvalidArgumentError, PenstockError):
            found.append(None)
    return found


def mapped(element: Any) -> Any:
    return {key: plain(part) for key, part in element.items()} if isinstance(element, dict) else plain(element)


@pytest.mark.parametrize("made, signature", [
    (ragged, R([None, None], tf.int32)),
    (ragged, R([2, None], tf.int32)),
    (ragged, R(None, tf.int32, ragged_rank=1)),
    (pairs, R([None, None, 2], tf.int32, ragged_rank=1)),
    (pairs, R([None, None, None], tf.int32, ragged_rank=1)),
    (deep, R([None, None, None], tf.int32)),
    (texts, R([3, None], tf.string)),
    (lambda: tf.compat.v1.ragged.RaggedTensorValue(np.array([1, 2], np.int32), np.array([0, 2])),
     R([1, None], tf.int32)),
    (sparse, tf.SparseTensorSpec([None, 2], tf.int32)),
    (lambda: tf.compat.v1.SparseTensorValue([[0, 1]], [5], [2, 2]), tf.SparseTensorSpec([2, 2], tf.int32)),
    (lambda: {"a": ragged(), "n": 3, "s": sparse()},
     {"n": NUMBER, "a": R([None, None], tf.int32), "s": tf.SparseTensorSpec([2, 2], tf.int32)}),
])  # fmt: skip
def test_values_that_fit(made: Callable[[], Any], signature: Any) -> None:
    value = made()
    theirs, ours = both(value, signature)
    assert theirs is not None
    assert ours == theirs


@pytest.mark.parametrize("made, signature", [
    (ragged, R([3, None], tf.int32)),
    (ragged, R([None, None, None], tf.int32, ragged_rank=1)),
    (ragged, R([None, None], tf.string)),
    (ragged, tf.TensorSpec([None, None], tf.int32)),
    (ragged, tf.SparseTensorSpec([None, None], tf.int32)),
    (lambda: np.zeros((2, 2), np.int32), R([None, None], tf.int32)),
    (lambda: [[1], [2, 3]], R([None, None], tf.int32)),
    (sparse, tf.SparseTensorSpec([2, 3], tf.int32)),
    (sparse, R([None, None], tf.int32)),
    (lambda: np.eye(2, dtype=np.int32), tf.SparseTensorSpec([2, 2], tf.int32)),
    (lambda: 3, R(None, tf.int64, ragged_rank=1)),
])  # fmt: skip
def test_values_that_do_not_fit(made: Callable[[], Any], signature: Any) -> None:
    assert both(made(), signature) == [None, None]


@pytest.mark.parametrize("made, signature", [
    (ragged, R([None, None], tf.int64)),
    (sparse, tf.SparseTensorSpec([2, 2], tf.int64)),
    (pairs, R([None, None, None], tf.int32, ragged_rank=2)),
    (deep, R([None, None, None], tf.int32, ragged_rank=1)),
    (ragged, R([None, None], tf.int32, row_splits_dtype=tf.int32)),
])  # fmt: skip
def test_values_that_tf_data_refuses(made: Callable[[], Any], signature: Any) -> None:
    value = made()
    theirs, ours = both(value, signature)
    assert theirs is None
    assert ours[1] == plain(value)[1]
    if isinstance(value, tf.RaggedTensor):
        assert ours[2] == signature.dtype


def test_lengths_that_tf_data_does_not_look_at() -> None:
    theirs, ours = both(ragged(), R([2, 3], tf.int32, ragged_rank=1))
    assert theirs == plain(ragged())
    assert ours is None


def test_the_spec_is_the_signature() -> None:
    signature = (R([None, None], tf.int32), {"s": tf.SparseTensorSpec([2, 2], tf.string)}, tf.TensorSpec(None, tf.int8))
    made = ps.Dataset.from_generator(lambda: iter(()), output_signature=signature)
    assert made.element_spec == (
        ps.RaggedSpec((None, None), np.int32), {"s": ps.SparseSpec((2, 2), bytes)}, ps.TensorSpec(None, np.int8)
    )  # fmt: skip
    rows = ps.Dataset.from_generator(lambda: iter(()), output_signature=R([None], tf.int32, ragged_rank=0))
    assert rows.element_spec == ps.TensorSpec((None,), np.int32)
    for odd in (tf.TensorSpec((), tf.variant), tf.TensorSpec((), tf.qint8), tf.data.DatasetSpec(NUMBER), tf.int32):
        with pytest.raises(BadType, match=r"from_generator at test_tf_specs.py:\d+: output_signature: expected"):
            ps.Dataset.from_generator(lambda: iter(()), output_signature=odd)


def test_ordered_dicts() -> None:
    signature = OrderedDict(b=NUMBER, a=NUMBER)
    values = [OrderedDict(b=1, a=2)]
    (theirs,) = tf.data.Dataset.from_generator(lambda: iter(values), output_signature=signature)
    (ours,) = ps.Dataset.from_generator(lambda: iter(values), output_signature=signature)
    assert type(ours) is type(theirs) is OrderedDict
    (again,) = ps.from_tf(tf.data.Dataset.from_tensors(OrderedDict(b=1, a=2)))
    assert type(again) is OrderedDict
    (tensors,) = ps.Dataset.from_tensors(OrderedDict(a=np.int64(1), b=np.int64(2))).to_tf(output_signature=signature)
    assert list(tensors) == ["b", "a"]


# --- to_tf ---


def signed(value: Any, signature: Any) -> Any:
    return ps.Dataset.from_generator(lambda: iter([value])).to_tf(output_signature=signature)


FLAT = ps.Ragged(np.arange(6, dtype=np.int32), np.array([0, 3, 6]))
ROWS = ps.Ragged(np.arange(12, dtype=np.int32).reshape(6, 2), np.array([0, 3, 6]))
CUBES = ps.Ragged(np.zeros((3, 2, 1), np.int32), np.array([0, 1, 3]))
NESTED = ps.Ragged(ps.Ragged(np.arange(3, dtype=np.int32), np.array([0, 1, 3])), np.array([0, 1, 2]))


@pytest.mark.parametrize("value, spec", [
    (FLAT, R([2, 3], tf.int32, ragged_rank=1)),
    (FLAT, R([None, None], tf.int32)),
    (FLAT, R([None, None], tf.int64)),
    (FLAT, R([None, None], tf.int32, row_splits_dtype=tf.int32)),
    (ROWS, R([None, None, None], tf.int32, ragged_rank=1)),
    (ROWS, R([None, None, None], tf.int32, ragged_rank=2)),
    (ROWS, R([2, None, 2], tf.int32, ragged_rank=2, row_splits_dtype=tf.int32)),
    (ROWS, R(None, tf.int32, ragged_rank=1)),
    (CUBES, R([None, None, None, 1], tf.int32, ragged_rank=2)),
    (CUBES, R([None, None, None, None], tf.int32, ragged_rank=3)),
    (NESTED, R([None, None, None], tf.int32, ragged_rank=2)),
])  # fmt: skip
def test_ragged_tensors_are_as_stated(value: ps.Ragged, spec: Any) -> None:
    dataset = signed({"x": value}, {"x": spec})
    assert dataset.element_spec == {"x": spec}
    iterator = iter(dataset)
    in_a_graph = tf.function(lambda: next(iterator))
    for element in (*dataset, *dataset.map(lambda element: element), in_a_graph()):
        tensor = element["x"]
        assert tensor.to_list() == value.to_list()
        assert (tensor.dtype, tensor.ragged_rank) == (spec.dtype, spec.ragged_rank)
        assert tensor.row_splits.dtype == spec.row_splits_dtype
        assert spec.is_compatible_with(tensor)


@pytest.mark.parametrize("value, spec, text", [
    (NESTED, R([None, None, None], tf.int32, ragged_rank=1),
     r"expected tensors of ragged rank 1, got one of rank 2 and of shape \(2, None, None\); say so with output_sig"),
    (FLAT, R(None, tf.int32, ragged_rank=2), "expected tensors of ragged rank 2, got one of rank 1"),
    (FLAT, R([2, 2], tf.int32, ragged_rank=1), r"expected ragged 2×2 int32, got ragged 2×\? int32"),
    (FLAT, R([3, None], tf.int32), r"expected ragged 3×\? int32, got ragged 2×\? int32"),
])  # fmt: skip
def test_ragged_elements_that_are_not_as_stated(value: ps.Ragged, spec: Any, text: str) -> None:
    dataset = signed(value, spec)
    with pytest.raises(SpecMismatch, match=text):
        list(dataset)
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        list(dataset.map(lambda x: x))


def test_ragged_elements_of_which_only_the_shape_is_known() -> None:
    """Our specs do not tell how many dimensions have row splits."""
    told = ps.Dataset.from_generator(
        lambda: iter([ROWS, NESTED]), output_signature=ps.RaggedSpec((None, None, None), np.int32)
    ).to_tf()
    assert told.element_spec == R([None, None, None], tf.int32)
    assert [x.to_list() for x in told.map(lambda x: x)] == [ROWS.to_list(), NESTED.to_list()]
    assert [x.ragged_rank for x in told] == [1, 2]  # as they are
    round_trip = ps.from_tf(tf.data.Dataset.from_tensors(pairs())).to_tf().map(lambda x: x)
    assert [x.to_list() for x in round_trip] == [pairs().to_list()]
    all_sizes = ps.Dataset.from_generator(lambda: iter([FLAT]), output_signature=ps.RaggedSpec((2, 3), np.int32))
    assert all_sizes.to_tf().element_spec == R([2, 3], tf.int32, ragged_rank=1)
