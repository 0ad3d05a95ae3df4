"""TensorFlow's ragged and sparse tensors, in sources and from functions: as tf.data takes them."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import penstock as ps


def ragged() -> Any:
    return tf.ragged.constant([[1, 2], [], [3]])


def words() -> Any:
    return tf.ragged.constant([["a", "bc"], [], ["d"]])


def nested() -> Any:
    return tf.ragged.constant([[[1], [2, 3]], [], [[4]]])


def plain(element: Any) -> Any:
    if isinstance(element, (tf.RaggedTensor, ps.Ragged)):
        return element.to_list()
    if isinstance(element, tf.SparseTensor):
        return tf.sparse.to_dense(element).numpy().tolist()
    if isinstance(element, ps.Sparse):
        return element.to_dense().tolist()
    return np.asarray(element).tolist()


@pytest.mark.parametrize("make", [ragged, words, nested])
@pytest.mark.parametrize("source", ["from_tensor_slices", "from_tensors"])
def test_ragged_tensors_are_sources(make: Any, source: str) -> None:
    theirs, ours = (getattr(dataset, source)(make()) for dataset in (tf.data.Dataset, ps.Dataset))
    assert [plain(element) for element in ours] == [plain(element) for element in theirs]
    assert len(ours) == len(theirs)


def test_sparse_tensors_are_elements_and_no_columns() -> None:
    sparse = tf.sparse.from_dense([[0, 7], [8, 0]])
    assert plain(ps.Dataset.from_tensors(sparse).get_single_element()) == [[0, 7], [8, 0]]
    with pytest.raises(TypeError, match=r"got a Sparse; slice its to_dense\(\)"):
        ps.Dataset.from_tensor_slices(sparse)


@pytest.mark.parametrize("num_parallel_calls", [None, 2])
def test_functions_may_return_them(num_parallel_calls: int | None) -> None:
    def split(text: Any) -> Any:
        return tf.strings.split([text]), tf.sparse.from_dense([[len(text), 0]])

    ours = ps.Dataset.from_tensor_slices(["a b", "c"]).map(split, num_parallel_calls=num_parallel_calls)
    found = [(plain(parts), plain(sizes)) for parts, sizes in ours]
    assert found == [([[b"a", b"b"]], [[3, 0]]), ([[b"c"]], [[1, 0]])]


def test_none_is_no_column_and_no_element() -> None:
    with pytest.raises(TypeError, match="expected arrays, got None; leave it out"):
        ps.Dataset.from_tensor_slices((np.arange(3), None))
    with pytest.raises(TypeError, match="expected at least one array"):
        ps.Dataset.from_tensors(None)
    (pair,) = ps.Dataset.from_tensors((1, None))
    assert pair == (1, None)
