"""`to_jax` with the real JAX, on CPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import penstock as ps
from penstock.adapters import jax as adapter
from penstock.errors import BadArgument, BadType

from .feeds import CHECKS, D, Pair, Sample, aligned, check_reuse, numbers_of, shuffled


def feed_of(dataset: ps.Dataset) -> Any:
    return dataset.to_jax(memory="32MB")


def ahead_of(dataset: ps.Dataset) -> Any:
    """A feed that puts the next element on the device while one is used."""
    device = jax.local_devices()[0]
    return dataset.to_jax(sharding=jax.sharding.SingleDeviceSharding(device), memory="32MB")


def address_of(array: Any) -> int:
    return int(array.unsafe_buffer_pointer())


@pytest.mark.parametrize("feed", [feed_of, ahead_of])
@pytest.mark.parametrize("check", CHECKS)
def test_feeds(check: Callable[..., None], feed: Any) -> None:
    check(feed)


def test_slots_are_used_again() -> None:
    check_reuse(feed_of, address_of)


@pytest.mark.parametrize("quick", [True, False])
def test_arrays_are_on_the_memory_of_their_batches(quick: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not quick:
        monkeypatch.setattr(adapter, "_batched_device_put", lambda: None)
    seen: list[int] = []

    def noted(x: np.ndarray, y: np.ndarray) -> Any:
        seen.append(x.ctypes.data)
        return x, y

    for (x, _), address in zip(shuffled().map(noted).to_jax(), seen, strict=False):
        assert address_of(x) == address
    assert len(seen) == 8


def test_the_quick_way_is_there() -> None:
    assert adapter._batched_device_put() is not None


def test_aligned_views_of_your_arrays_are_not_copied() -> None:
    data = aligned((32, 256))
    found = [address_of(batch) - data.ctypes.data for batch in D.from_tensor_slices(data).batch(16).to_jax()]
    assert found == [0, 16384]


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("order", ["C", "F"])
def test_what_is_not_aligned_is_copied_to_slots(quick: bool, order: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies that JAX makes by itself are on no account, and in no hurry: a quick consumer would have all in memory."""
    if not quick:
        monkeypatch.setattr(adapter, "_batched_device_put", lambda: None)
    data = aligned((321, 2049))[1:, 1:]  # batches of 131 kB
    data[:] = np.arange(320)[:, None]
    data = np.asfortranarray(data) if order == "F" else data
    feed = D.from_tensor_slices(data).batch(16).to_jax(memory="16MB")
    kept, addresses = [], set()
    iterator = iter(feed)
    for number, batch in enumerate(iterator):
        assert np.asarray(batch)[:, 5].tolist() == list(range(16 * number, 16 * number + 16))
        if number < 3:
            kept.append(batch)
            held = iterator.run.memory()["held_by_caller_bytes"]
            assert held >= 16 * 2048 * 4 * len(kept)
        addresses.add(address_of(batch))
    assert len(addresses) <= len(kept) + 3
    assert [int(batch[0, 0]) for batch in kept] == [0, 16, 32]


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("nbytes", [1_000, 50_000, 100 * 1024 - 64])
def test_small_arrays_are_copied_by_jax_before_they_can_change(
    quick: bool, order: Any, nbytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So they need no slot: no copies of the caller's are on their way in nobody's account."""
    if not quick:
        monkeypatch.setattr(adapter, "_batched_device_put", lambda: None)
    data = aligned((nbytes // 4 + 1,))[1:].reshape((-1, 2), order=order)
    for batch in D.from_tensor_slices(data).batch(len(data)).repeat(50).to_jax(memory="16MB"):
        data[:] = 1
        assert not batch.any()
        data[:] = 0


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
@pytest.mark.parametrize("rows", [16, 1024])
def test_steps_that_are_given_batches_for_good_do_not_write_to_your_arrays(rows: int) -> None:
    data = aligned((8 * rows, 64))
    data[:] = np.arange(len(data))[:, None]
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    in_order = D.from_tensor_slices(data).batch(rows)
    for dataset in (in_order, in_order.cache(), D.from_tensor_slices(data).shuffle(seed=1).batch(rows).cache()):
        for _ in range(2):
            results = [step(batch) for batch in dataset.to_jax(memory="32MB")]
            numbers = sorted(np.concatenate(results)[:, 0].tolist())
            assert numbers == list(range(1, len(data) + 1))
    assert (data == np.arange(len(data))[:, None]).all()


def test_the_next_element_is_made_before_this_one_is_used() -> None:
    made: list[int] = []

    def noted(n: Any) -> Any:
        made.append(int(n))
        return n

    iterator = iter(ahead_of(D.range(4).map(noted, stateful=True)))
    assert int(next(iterator)) == 0
    assert made[:2] == [0, 1]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "uint16", "uint32", "int32", "float16", "complex64"])
def test_dtypes(dtype: str) -> None:
    data = np.arange(4).astype(dtype)
    (batch,) = D.from_tensor_slices(data).batch(4).to_jax()
    assert batch.dtype == dtype
    np.testing.assert_array_equal(np.asarray(batch), data)


def test_64_bits_become_32_as_everywhere_in_jax() -> None:
    ((x, n),) = D.from_tensors((np.ones(3), np.int64(7))).to_jax()
    assert (x.dtype, n.dtype) == (np.float32, np.int32)
    assert int(n) == 7


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("count", [100, 60_000])
@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64", "complex128"])
def test_64_bits_are_made_32_in_slots_as_jax_makes_them(
    dtype: str, count: int, quick: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not quick:
        monkeypatch.setattr(adapter, "_batched_device_put", lambda: None)
    data = (np.arange(8 * count) * 1_234_567_891).astype(dtype)
    feed = D.from_tensor_slices(data).batch(count).to_jax(memory="16MB")
    iterator, addresses = iter(feed), set()
    for number, batch in enumerate(iterator):
        expected = jax.device_put(data[number * count : (number + 1) * count])
        assert batch.dtype == expected.dtype
        assert batch.tolist() == expected.tolist()
        addresses.add(address_of(batch))
        if count > 100:
            assert iterator.run.memory()["held_by_caller_bytes"] >= batch.nbytes
            assert len(addresses) <= 3


def test_the_setting_of_64_bits_may_change_between_epochs() -> None:
    feed = D.from_tensor_slices(np.arange(4)).batch(4).to_jax()
    (before,) = feed
    with jax.enable_x64(True):
        (wide,) = feed
    (after,) = feed
    assert [before.dtype, wide.dtype, after.dtype] == ["int32", "int64", "int32"]


def test_arrays_of_other_layouts() -> None:
    data = np.arange(6, dtype=np.int32).reshape(2, 3)
    for odd in (data[:, ::-1], data.T, np.broadcast_to(data[0], (2, 3)), np.zeros((0, 3)), data.astype(">i4")):
        (batch,) = D.from_tensors(odd).to_jax()
        assert batch.tolist() == odd.tolist()


def test_kinds_of_arrays_that_numpy_has_beside_its_own(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(6, dtype=np.int32).reshape(2, 3))
    with D.range(1).run() as run:
        convert = adapter.converter()
        for _ in range(2):  # first of a shape that is new to it
            assert convert(np.load(tmp_path / "a.npy", mmap_mode="r"), run).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_structures() -> None:
    (sample,) = D.from_tensors(Sample(np.ones(2, np.float32), {"pair": Pair(np.int32(1), None)})).to_jax()
    assert type(sample) is Sample
    assert isinstance(sample.image, jax.Array)
    assert sample.label["pair"].second is None


def test_sparse() -> None:
    sparse = ps.Sparse(np.array([[0, 1], [1, 2]]), np.array([5.0, 6.0], np.float32), np.array([2, 3]))
    (batch,) = D.from_tensors(sparse).to_jax()
    assert batch.todense().tolist() == [[0, 5, 0], [0, 0, 6]]


def test_what_jax_has_no_arrays_for() -> None:
    ragged = ps.Ragged(np.arange(3), np.array([0, 1, 3]))
    longest = [np.zeros(3, np.longdouble), np.longdouble(1), np.zeros(3, np.clongdouble)]
    sparse = ps.Sparse(np.array([[0]]), np.zeros(1, np.longdouble), np.array([2]))
    for odd in (b"text", np.array([b"a"], object), ragged, np.zeros(3, "datetime64[s]"), *longest, sparse):
        with pytest.raises(BadType, match=r"to_jax: expected elements"):
            next(iter(D.from_tensors(odd).to_jax()))


def test_a_device() -> None:
    device = jax.local_devices()[0]
    ((x, _), *_) = shuffled().to_jax(device=device)
    assert x.committed
    assert x.devices() == {device}
    ((x, _), *_) = shuffled().to_jax()
    assert not x.committed
    with pytest.raises(BadArgument, match="either this or device"):
        shuffled().to_jax(device, jax.sharding.SingleDeviceSharding(device))


SHARDED = """
import json
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec
import penstock as ps

mesh = jax.make_mesh((2,), ("data",))
split, whole = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
data = np.arange(32, dtype=np.float32).reshape(16, 2), np.arange(16, dtype=np.int32)
dataset = ps.Dataset.from_tensor_slices(data).batch(8)
found = []
for sharding in (split, (split, whole)):
    for x, y in dataset.to_jax(sharding=sharding):
        found.append([[s.data.shape[0] for s in a.addressable_shards] for a in (x, y)] + [y.tolist()])
second = jax.devices()[1]
on_second = all(x.devices() == {second} for x, y in dataset.to_jax(device=second))
print(json.dumps([found, on_second]))
"""


def test_batches_are_laid_out_over_devices() -> None:
    env = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", SHARDED], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found, on_second = json.loads(done.stdout)
    first, second = list(range(8)), list(range(8, 16))
    halves = [4, 4]
    assert found[:2] == [[halves, halves, first], [halves, halves, second]]
    assert found[2:] == [[halves, [8, 8], first], [halves, [8, 8], second]]
    assert on_second


UNEVEN = """
import json
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec
import penstock as ps

mesh = jax.make_mesh((8,), ("data",))
split, whole = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
two_axes = NamedSharding(jax.make_mesh((4, 2), ("data", "model")), PartitionSpec("data", "model"))
data = np.arange(40, dtype=np.float32).reshape(20, 2), np.arange(20, dtype=np.int32)
dataset = ps.Dataset.from_tensor_slices(data)

def pulled(dataset, sharding):
    run, found = iter(dataset.to_jax(sharding=sharding)), []
    while True:
        try:
            x, y = next(run)
            found.append([len(x.addressable_shards), y.tolist()])
        except StopIteration:
            return found
        except ValueError as error:
            found.append(f"{type(error).__name__}: {error}")

print(json.dumps({
    "split": pulled(dataset.batch(8), split),
    "nest": pulled(dataset.batch(8), (split, whole)),
    "dropped": pulled(dataset.batch(8, drop_remainder=True), split),
    "replicated": pulled(dataset.batch(8), whole),
    "two axes": pulled(dataset.batch(8, drop_remainder=True), (two_axes, split)),
    "too many axes": pulled(dataset.batch(8, drop_remainder=True), two_axes),
}))
"""


def test_arrays_that_a_sharding_cannot_divide_are_named() -> None:
    env = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", UNEVEN], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    rows = [[8, list(range(8))], [8, list(range(8, 16))]]
    for name, shapes in (("split", "an array of shape (4, 2)"), ("nest", "arrays of shapes (4, 2), (4,)")):
        assert found[name][:2] == rows
        assert found[name][2].startswith(f"BadArgument: to_jax: sharding: expected one that divides {shapes}; JAX says")
        assert "batch(…, drop_remainder=True)" in found[name][2]
    assert found["dropped"] == found["two axes"] == rows
    assert found["replicated"] == [*rows, [8, list(range(16, 20))]]
    assert ["divides an array of shape (8,)" in text for text in found["too many axes"]] == [True, True]


def test_a_training_step_sees_the_batches_that_were_given() -> None:
    """Steps run while the next batches are made: none may be made where one is still read."""
    step = jax.jit(lambda total, x: total + (x @ x.T).sum())
    total, expected = jax.numpy.float32(0), 0.0
    for x, _ in shuffled(512).to_jax():
        total = step(total, x / 512)
    for x, _ in shuffled(512).run(epoch=0):
        expected += float(((x / 512) @ (x / 512).T).sum(dtype=np.float64))
    assert float(total) == pytest.approx(expected, rel=1e-4)
    assert len(numbers_of(next(iter(shuffled().to_jax())))) == 8


def test_a_device_by_the_name_of_its_platform() -> None:
    (batch,) = D.range(2).batch(2).to_jax(device="cpu")
    assert batch.devices() == {jax.local_devices(backend="cpu")[0]}
    for wrong, why in (("abacus", "or the name of a platform, got 'abacus'"), (3, "a jax.Device, got int 3")):
        with pytest.raises(ps.errors.BadArgument, match=f"device: expected .*{why}"):
            D.range(2).to_jax(device=wrong)


@pytest.mark.parametrize("wrong", ["batch", jax.sharding.PartitionSpec("batch"), jax.local_devices()[0]])
def test_what_is_no_sharding_is_refused_at_once(wrong: Any) -> None:
    for given in (wrong, (wrong, wrong)):
        with pytest.raises(BadArgument, match=r"to_jax at test_jax.py:\d+: sharding: expected a jax.sharding.Sharding"):
            D.zip((D.range(2), D.range(2))).batch(2).to_jax(sharding=given)
