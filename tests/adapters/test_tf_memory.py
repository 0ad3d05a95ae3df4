"""TensorFlow computes in place in memory that it takes for its own: it is given none that anybody else reads."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import penstock as ps

from .feeds import D, Pair, Sample, aligned

CHILDREN = Path(__file__).with_name("strategy_children.py")
NUM, SIZE = 128, 32


@pytest.mark.timeout(400)
@pytest.mark.parametrize("num_devices", [1, 2, 3])
def test_training_changes_nothing_that_it_reads(num_devices: int, loaded_python: str) -> None:
    env = os.environ | {"OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1"}
    command = [loaded_python, str(CHILDREN), str(num_devices)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=390)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == [{"changed": 0, "same": True}] * len(found)
    assert len(found) > 1


def halved(x: Any) -> Any:
    """Two slices, of which each is computed with in place if that is possible."""
    return tf.stack([x[:16] * 2.0 + 1.0, x[16:] * 2.0 + 1.0])


def by_map(dataset: Any) -> list[Any]:
    return list(dataset.map(halved))


def by_maps_at_once(dataset: Any) -> list[Any]:
    return list(dataset.prefetch(2).map(halved, num_parallel_calls=2))


def by_rebatch(dataset: Any) -> list[Any]:
    pairs = dataset.rebatch(16).map(lambda x: x * 2.0 + 1.0).batch(2)
    return list(pairs)


def by_a_graph_that_reads(dataset: Any) -> list[Any]:
    batches = iter(dataset)
    read = tf.function(lambda: halved(next(batches)))
    return [read() for _ in range(NUM // SIZE)]


def by_a_graph_that_is_given(dataset: Any) -> list[Any]:
    compute = tf.function(halved)
    return [compute(batch) for batch in dataset]


def by_a_compiled_graph(dataset: Any) -> list[Any]:
    compute = tf.function(halved, jit_compile=True)
    return [compute(batch) for batch in dataset]


def by_eager_code(dataset: Any) -> list[Any]:
    found, batches = [], iter(dataset)
    for batch in batches:
        parts = [batch[:16], batch[16:]]
        del batch
        found.append(tf.stack([parts.pop(0) * 2.0 + 1.0 for _ in range(2)]))
    return found


def by_new_variables(dataset: Any) -> list[Any]:
    found = []
    for batch in dataset:
        parts = [tf.Variable(batch[:16]), tf.Variable(batch[16:])]
        del batch
        found.append(tf.stack([part.assign_add(part + 1.0) for part in parts]))
    return found


def by_one_variable(dataset: Any) -> list[Any]:
    part, found = tf.Variable(tf.zeros((16, 64))), []
    for batch in dataset:
        part.assign(batch[:16])
        last = batch[16:] + 0.0
        del batch
        part.assign_add(part + 1.0)
        found.append(tf.stack([part, last * 2.0 + 1.0]))
    return found


def by_a_queue(dataset: Any) -> list[Any]:
    queue = tf.queue.FIFOQueue(NUM, [tf.float32], [(SIZE, 64)])
    for batch in dataset:
        queue.enqueue(batch)
        del batch
    read = tf.function(lambda: halved(queue.dequeue()))
    return [read() for _ in range(NUM // SIZE)]


def by_a_function_of_pythons(dataset: Any) -> list[Any]:
    batches = iter(dataset)

    @tf.function
    def read() -> Any:
        return halved(tf.ensure_shape(tf.py_function(lambda: next(batches), [], tf.float32), (SIZE, 64)))

    return [read() for _ in range(NUM // SIZE)]


def by_a_generator(dataset: Any) -> list[Any]:
    signature = tf.TensorSpec((SIZE, 64), tf.float32)
    return by_map(tf.data.Dataset.from_generator(lambda: dataset, output_signature=signature))


WRITERS = (
    *(by_map, by_maps_at_once, by_rebatch, by_a_graph_that_reads, by_a_graph_that_is_given, by_a_compiled_graph),
    *(by_eager_code, by_new_variables, by_one_variable, by_a_queue, by_a_function_of_pythons, by_a_generator),
)


def kept_by_a_function(data: ps.Dataset) -> ps.Dataset:
    known: dict[int, Any] = {}

    def of(number: int, x: np.ndarray) -> Any:
        return known.setdefault(int(number), {"x": (like(x),)})  # and not the array itself

    return data.enumerate().map(of).map(lambda nest: nest["x"][0])


def kept_by_a_scan(data: ps.Dataset) -> ps.Dataset:
    """What is given is the state, which is read once more after that."""

    def add(total: np.ndarray, x: np.ndarray) -> Any:
        total = like(total + x)
        return total, total

    return data.scan(np.zeros((SIZE, 64), np.float32), add)


# Batches that are read once more: in a second epoch, or by the pipeline itself.
KINDS: dict[str, Callable[[ps.Dataset], ps.Dataset]] = {
    "views": lambda data: data,
    "views in another order": lambda data: data.shuffle(seed=1, reshuffle_each_iteration=False),
    "cached": lambda data: data.map(like).cache(),
    "cached and made ready": lambda data: data.map(like).cache().prefetch(2),
    "kept by a function": kept_by_a_function,
    "kept by a scan": kept_by_a_scan,
}


def like(x: np.ndarray) -> np.ndarray:
    copy = aligned(x.shape)
    copy[...] = x
    return copy


def values() -> np.ndarray:
    return np.arange(NUM * 64, dtype=np.float32).reshape(NUM, 64)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("write", WRITERS)
def test_nobody_reads_what_tensorflow_has_computed_in_place(write: Callable[[Any], list[Any]], kind: str) -> None:
    data = like(values())
    dataset = KINDS[kind](D.from_tensor_slices(data).batch(SIZE))
    expected = [batch * 2.0 + 1.0 for batch in dataset.run(epoch=0)]
    for _ in range(2):
        found = write(dataset.to_tf(memory="32MB"))
        np.testing.assert_array_equal([np.reshape(batch, (SIZE, 64)) for batch in found], expected)
    assert np.array_equal(data, values())


NESTS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "array": (lambda x: x, lambda batch: batch),
    "tuple": (lambda x: (x, 1), lambda batch: batch[0]),
    "tuples": (lambda x: ((1, (x,)), 1), lambda batch: batch[0][1][0]),
    "dict": (lambda x: {"x": x, "n": 1}, lambda batch: batch["x"]),
    "namedtuple": (lambda x: Pair(x, 1), lambda batch: batch.first),
    "dataclass": (lambda x: Sample(x, {"n": 1}), lambda batch: batch.image),
    "ragged": (lambda x: (ps.Ragged(x, np.arange(SIZE + 1)), 1), lambda batch: batch[0].values),
}


def address_of(tensor: Any) -> int:
    return int(np.asarray(memoryview(tensor)).ctypes.data)


def addresses(nest: Callable[[Any], Any], get: Callable[[Any], Any], read: Any = None) -> tuple[list[int], list[int]]:
    """Where batches were made, and where their tensors are."""
    seen: list[int] = []

    def noted(x: np.ndarray) -> Any:
        seen.append(x.ctypes.data)
        return nest(x)

    dataset = D.from_tensor_slices(values()).shuffle(seed=1).batch(SIZE).map(noted)
    found = [address_of(get(batch)) for batch in (read or ps.Dataset.to_tf)(dataset)]
    return seen[-len(found) :], found


@pytest.mark.parametrize("name", NESTS)
def test_tensors_are_on_batches_that_nobody_else_has(name: str) -> None:
    seen, found = addresses(*NESTS[name])
    assert seen == found


@pytest.mark.parametrize("name", ["array", "tuple"])
def test_so_they_are_where_elements_are_prepared(name: str) -> None:
    nest, get = NESTS[name]
    spec = tf.TensorSpec((SIZE, 64), tf.float32)
    signature = spec if name == "array" else (spec, tf.TensorSpec((), tf.int64))
    for read in (lambda dataset: dataset.to_tf(output_signature=signature), ps.Dataset.to_keras):
        seen, found = addresses(nest, get, read)
        assert seen == found


@pytest.mark.parametrize("name", NESTS)
def test_what_a_function_still_has_is_copied(name: str) -> None:
    nest, get = NESTS[name]
    kept: list[Any] = []

    def keeps(x: Any) -> Any:
        kept.append(nest(x))
        return kept[-1]

    seen, found = addresses(keeps, get)
    assert all(where != was for where, was in zip(found, seen, strict=True))


PARTS = {"rows": lambda x: x[3:4], "buffer": memoryview, "other shape": lambda x: x.reshape(-1), "list": lambda x: [x]}


@pytest.mark.parametrize("has", PARTS.values(), ids=PARTS)
def test_what_somebody_has_in_part_is_copied(has: Callable[[Any], Any]) -> None:
    kept: list[Any] = []

    def keeps(x: Any) -> Any:
        kept.append(has(x))
        return x

    seen, found = addresses(keeps, lambda batch: batch)
    assert all(where != was for where, was in zip(found, seen, strict=True))


def test_an_array_in_two_places_is_copied_for_each() -> None:
    (batch,) = D.from_tensor_slices(values()).shuffle(seed=1).batch(NUM).map(lambda x: (x, x, x[1:])).to_tf()
    assert len({address_of(tensor) // 64 for tensor in batch}) == 3


@pytest.mark.parametrize("start", [0, 1], ids=["aligned", "not aligned"])
def test_copies_are_the_callers_and_use_their_memory_again(start: int) -> None:
    """Copies that TensorFlow makes of what is not aligned are in new memory, whose pages take longer than they do."""
    data = aligned((8 * NUM * 64 + start,))[start:].reshape(-1, 64)
    dataset = D.from_tensor_slices(data).batch(SIZE).to_tf(memory="32MB")
    batches = iter(dataset)
    found = {address_of(batch) for batch in batches}
    assert len(found) < 8
    batches = iter(dataset)
    first = next(batches)
    run = dataset.last_run
    assert run is not None
    assert run.memory()["held_by_caller_bytes"] >= SIZE * 64 * 4
    del first, batches
    assert run.memory()["held_bytes"] == 0


def test_copies_take_no_room_from_stages() -> None:
    """What works without copies works with them: where there is no room to spare, their memory is new."""
    rows = D.from_tensor_slices(like(values())).batch(SIZE).map(lambda x: x + 0)
    kept: list[Any] = []

    def keeps(x: Any) -> Any:
        kept.append(x)
        return x

    budget = 5 * SIZE * 64 * 4
    expected = [batch.tolist() for batch in rows.run(budget)]
    dataset = rows.map(keeps).to_tf(memory=budget)
    assert [batch.numpy().tolist() for batch in dataset] == expected
    assert dataset.last_run.memory()["peak_bytes"] <= budget
