"""`to_torch` with the real PyTorch."""

from __future__ import annotations

import copy
import json
import os
import pickle
import re
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import penstock as ps
from penstock.adapters.torch_workers import LoaderEpochs
from penstock.errors import BadArgument, BadType

from .feeds import CHECKS, DTYPES, D, Pair, Sample, check_reuse, numbers_of, pictures, shuffled


def feed_of(dataset: ps.Dataset) -> Any:
    return dataset.to_torch(memory="32MB")


@pytest.mark.parametrize("check", CHECKS)
def test_feeds(check: Callable[..., None]) -> None:
    check(feed_of)


def test_slots_are_used_again() -> None:
    check_reuse(feed_of, lambda tensor: int(tensor.data_ptr()))


def test_tensors_are_on_the_memory_of_their_batches() -> None:
    seen: list[int] = []

    def noted(x: np.ndarray, y: np.ndarray) -> Any:
        seen.append(x.ctypes.data)
        return x, y

    for (x, _), address in zip(shuffled().map(noted).to_torch(), seen, strict=False):
        assert x.data_ptr() == address
    assert len(seen) == 8


def test_views_of_your_arrays_are_not_copied_and_do_not_warn() -> None:
    data, _ = pictures()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (batch, *_) = D.from_tensor_slices(data).batch(16).to_torch()
    assert batch.data_ptr() == data.ctypes.data


def test_writable_tensors_are_not_your_arrays() -> None:
    data, _ = pictures()
    dataset = D.from_tensor_slices(data).batch(16)
    for batch in dataset.to_torch(writable=True):
        batch.zero_()
    assert data.sum() > 0


class Rows(torch.utils.data.Dataset[Any]):
    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Any:
        return self.rows[number]


@pytest.mark.parametrize("num_parallel_calls", [None, 2])
def test_writable_tensors_are_not_what_functions_returned_and_still_have(num_parallel_calls: int | None) -> None:
    data = np.arange(1, 41.0).reshape(10, 4)
    ragged = ps.Ragged(data[0], np.array([0, 1, 4]))
    sparse = ps.Sparse(np.array([[0], [2]]), data[1, :2], np.array([4]))
    numbers = D.range(5)
    for dataset in (
        numbers.map(lambda i: data[i], num_parallel_calls=num_parallel_calls),
        numbers.map(lambda i: {"rows": data[2 * i : 2 * i + 2], "all": (data, i)}, num_parallel_calls).prefetch(1),
        numbers.map(lambda i: ragged, num_parallel_calls),
        numbers.map(lambda i: sparse, num_parallel_calls),
        ps.from_torch(Rows(data)),
        ps.from_torch(Rows(torch.from_numpy(data))).shuffle(seed=1),
    ):
        for element in dataset.to_torch(writable=True):
            for tensor in torch.utils._pytree.tree_leaves(element):
                (tensor.values() if tensor.is_sparse or tensor.is_nested else tensor).mul_(0)
        np.testing.assert_array_equal(data, np.arange(1, 41.0).reshape(10, 4))


def test_writable_tensors_are_on_the_memory_of_batches_that_are_theirs() -> None:
    seen: list[int] = []

    def noted(x: np.ndarray, y: np.ndarray) -> Any:
        seen.append(x.ctypes.data)
        return x, y

    for (x, _), address in zip(shuffled().map(noted).to_torch(writable=True), seen, strict=False):
        assert x.data_ptr() == address
    assert len(seen) == 8


@pytest.mark.parametrize("memory", ["32MB", "100kB"])
def test_what_a_cache_keeps_cannot_be_written_to(memory: str) -> None:
    data = np.arange(1, 1001.0).reshape(100, 10)
    for cached in (
        D.from_tensor_slices(data).map(lambda x: x + 0).batch(10).cache(),
        D.from_tensor_slices(data).batch(10).cache().map(lambda x: x),
        D.from_tensor_slices(data).cache().batch(10),
    ):
        for _ in range(3):
            batches = []
            for batch in cached.to_torch(memory=memory):
                batches.append(batch.numpy().copy())
                batch.mul_(0)
            np.testing.assert_array_equal(np.concatenate(batches), np.arange(1, 1001.0).reshape(100, 10))


@pytest.mark.parametrize("nested", [
    lambda cached: D.range(1).flat_map(lambda _: cached),
    lambda cached: D.range(1).interleave(lambda _: cached, cycle_length=1),
    lambda cached: D.range(1).group_by_window(lambda _: 0, lambda key, window: cached, window_size=1),
])  # fmt: skip
def test_what_a_cache_out_of_sight_keeps_cannot_be_written_to(nested: Any) -> None:
    data = np.arange(1, 1001.0).reshape(100, 10)
    for cached in (
        D.from_tensor_slices(data).map(lambda x: x + 0).batch(10).cache(),
        D.from_tensor_slices(data).batch(10).cache(),
    ):
        dataset = nested(cached)
        for _ in range(3):
            batches = []
            for batch in dataset.to_torch():
                batches.append(batch.numpy().copy())
                batch.mul_(0)
            np.testing.assert_array_equal(np.concatenate(batches), np.arange(1, 1001.0).reshape(100, 10))


def test_arrays_of_a_cache_that_a_function_returns_are_not_written_to() -> None:
    cached = D.range(1, 9).map(lambda x: np.full(4, x)).cache()
    for _ in range(2):
        kept = list(cached)
    for row in D.range(8).map(kept.__getitem__).to_torch():
        row.mul_(0)
    assert [int(row[0]) for row in cached] == [*range(1, 9)]


def test_arrays_that_you_made_read_only_are_not_written_to() -> None:
    data = np.ones((4, 3))
    data.flags.writeable = False
    for batch in D.from_tensor_slices(data).batch(2).to_torch():
        batch.mul_(0)
    assert data.sum() == 12


def test_arguments_that_are_not_yes_or_no() -> None:
    for name in ("pin_memory", "writable"):
        with pytest.raises(ps.errors.BadArgument, match=f"{name}: expected True or False, got 'yes'"):
            D.range(2).to_torch(**{name: "yes"})


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype: str) -> None:
    data = np.arange(4).astype(dtype)
    (batch,) = D.from_tensor_slices(data).batch(4).to_torch()
    assert str(batch.dtype) == f"torch.{dtype}"
    np.testing.assert_array_equal(batch.numpy(), data)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_small_floats(dtype: str) -> None:
    data = np.arange(4).astype(getattr(ml_dtypes, dtype))
    (batch,) = D.from_tensor_slices(data).batch(4).to_torch()
    assert str(batch.dtype) == f"torch.{dtype}"
    assert batch.float().tolist() == [0, 1, 2, 3]
    (whole,) = D.from_tensors(data).to_torch()
    assert whole.data_ptr() == data.ctypes.data
    assert [float(one) for one in D.from_tensor_slices(data).to_torch()] == [0, 1, 2, 3]


def test_arrays_that_torch_cannot_alias_are_copied() -> None:
    data = np.arange(6, dtype=np.int32).reshape(2, 3)
    for odd in (data[:, ::-1], data.astype(">i4"), np.broadcast_to(data[0], (2, 3))):
        (batch,) = D.from_tensors(odd).to_torch()
        assert batch.tolist() == odd.tolist()


def test_what_torch_has_no_tensors_for() -> None:
    with pytest.raises(BadType, match=r"to_torch: expected .* datetime64"):
        next(iter(D.from_tensors(np.zeros(3, "datetime64[s]")).to_torch()))
    with pytest.raises(BadType, match=r"to_torch: .*Dataset"):
        next(iter(D.range(4).window(2).to_torch()))


def test_strings_stay_what_they_are() -> None:
    names = np.array([b"a", b"bc"], object)
    ((batch, single),) = D.from_tensors((names, b"x")).to_torch()
    assert batch.tolist() == [b"a", b"bc"]
    assert single == b"x"


def test_structures_and_scalars() -> None:
    (sample,) = D.from_tensors(Sample(np.ones(2), {"a": np.float32(3), "b": Pair(np.int64(1), None)})).to_torch()
    assert type(sample) is Sample
    assert sample.image.tolist() == [1, 1]
    assert sample.label["a"].dtype == torch.float32
    assert sample.label["a"].shape == ()
    assert sample.label["b"] == Pair(torch.tensor(1), None)


def test_ragged_batches_are_nested_tensors() -> None:
    dataset = D.range(1, 4).map(lambda n: np.arange(n, dtype=np.float32)).ragged_batch(3)
    (batch,) = dataset.to_torch()
    assert batch.layout is torch.jagged
    assert [row.tolist() for row in batch.unbind()] == [[0], [0, 1], [0, 1, 2]]
    twice = ps.Ragged(ps.Ragged(np.arange(2), np.array([0, 1, 2])), np.array([0, 2]))
    with pytest.raises(BadType, match="one ragged dimension"):
        next(iter(D.from_tensors(twice).to_torch()))
    words = ps.Ragged(np.array([b"a"], object), np.array([0, 1]))
    with pytest.raises(BadType, match="byte strings"):
        next(iter(D.from_tensors(words).to_torch()))


def test_sparse_batches_are_sparse_tensors() -> None:
    sparse = ps.Sparse(np.array([[0, 1], [1, 2]]), np.array([5.0, 6.0]), np.array([2, 3]))
    (batch,) = D.from_tensors(sparse).to_torch()
    assert batch.to_dense().tolist() == [[0, 5, 0], [0, 0, 6]]


def test_devices() -> None:
    ((x, _), *_) = shuffled().to_torch(device="meta", pin_memory=True)
    assert x.device.type == "meta"
    ((x, _), *_) = shuffled().to_torch(device=torch.device("cpu"))
    assert x.device.type == "cpu"


def test_a_feed_can_be_pickled() -> None:
    feed = shuffled().to_torch(memory="16MB")
    again = pickle.loads(pickle.dumps(feed))
    assert [numbers_of(batch) for batch in again] == [numbers_of(batch) for batch in feed]


def test_length_of_a_loader() -> None:
    assert len(torch.utils.data.DataLoader(shuffled().to_torch(), batch_size=None)) == 8
    with pytest.raises(TypeError, match="no length"):
        len(D.range(4).filter(lambda n: True).to_torch())


def test_workers_share_the_budget() -> None:
    feed = shuffled().to_torch(memory="32MB")
    with feed._open_share(0, 2, 1) as first, feed._open_share(1, 2, 1) as second:
        assert first.ledger.budget_bytes == second.ledger.budget_bytes == 16_000_000
        assert [first.epoch, second.epoch] == [0, 0]
        assert sorted(n for run in (first, second) for batch in run for n in numbers_of(batch)) == list(range(64))
    assert (
        feed.dataset.with_options(ps.Options(memory="8MB")).to_torch()._open_share(0, 4, 1).ledger.budget_bytes
        == 2_000_000
    )


def test_workers_agree_on_the_epoch_whoever_of_them_began(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = shuffled().to_torch()
    expected = [[numbers_of(batch) for batch in shuffled().run(epoch=epoch)] for epoch in range(7)]

    def workers(count: int) -> list[Any]:
        """The feed as processes have it that were forked: copies, which share a file."""
        made = [copy.copy(feed) for _ in range(count)]
        for worker in made:
            worker._epochs = LoaderEpochs(os.dup(feed._epochs._file))
        return made

    def begin(worker: Any, number: int, num_workers: int, seed: int) -> Any:
        info = SimpleNamespace(id=number, num_workers=num_workers, seed=seed + number)
        monkeypatch.setattr(torch.utils.data, "get_worker_info", lambda: info)
        return iter(worker)

    def read(processes: list[Any], seed: int) -> list[Any]:
        shares = [begin(worker, number, len(processes), seed) for number, worker in enumerate(processes)]
        parts = [[numbers_of(batch) for batch in share] for share in reversed(shares)][::-1]
        return [part[i] for i in range(len(parts[0])) for part in parts if i < len(part)]

    next(begin(workers(2)[0], 0, 2, seed=11))  # the other was ended before it began
    assert read(workers(2), seed=22) == expected[1]
    lasting = workers(3)
    assert read(lasting, seed=33) == expected[2]
    next(begin(lasting[1], 1, 3, seed=33))
    for number in (0, 2):
        begin(lasting[number], number, 3, seed=33)  # and was left before they gave anything
    assert read(lasting, seed=33) == expected[4]
    monkeypatch.setattr(torch.utils.data, "get_worker_info", lambda: None)
    assert [numbers_of(batch) for batch in feed] == expected[5]
    assert read(lasting, seed=33) == expected[6]
    monkeypatch.setattr(torch.utils.data, "get_worker_info", lambda: None)
    next(iter(feed))
    feed.dataset.run(epoch=1)
    assert [numbers_of(batch) for batch in feed] == expected[2]


LOADERS = """
import json, sys
import numpy as np
from torch.utils.data import DataLoader
import penstock as ps

data = np.repeat(np.arange(70, dtype=np.float32)[:, None], 256, axis=1), np.arange(70)

def dataset():
    return ps.Dataset.from_tensor_slices(data).shuffle(seed=5).batch(8)

def numbers(batches):
    return [batch[1].tolist() for batch in batches]

if __name__ == "__main__":
    feed = dataset().to_torch(memory="32MB")
    found = [numbers(DataLoader(feed, batch_size=None))]
    for _ in range(2):
        found.append(numbers(DataLoader(feed, batch_size=None, num_workers=2)))
    found.append(numbers(DataLoader(feed, batch_size=None, num_workers=2, multiprocessing_context="spawn")))
    lasting = DataLoader(feed, batch_size=None, num_workers=2, persistent_workers=True)
    for _ in range(2):
        found.append(numbers(lasting))
    found.append(numbers(feed))
    found.append(numbers(DataLoader(feed, batch_size=None, num_workers=3)))
    expected = [numbers(dataset().run(epoch=epoch)) for epoch in range(len(found))]
    print(json.dumps([found, expected]))
"""


def test_loaders_with_workers_give_each_batch_once_in_order_and_each_epoch_anew(tmp_path: Any) -> None:
    program = tmp_path / "loaders.py"
    program.write_text(textwrap.dedent(LOADERS))
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, done.stderr
    found, expected = json.loads(done.stdout)
    assert found == expected


def test_what_torch_has_no_tensors_for_says_where_it_came_from() -> None:
    times = D.from_tensor_slices(np.arange(4).astype("M8[s]")).batch(2)
    with pytest.raises(
        BadType, match=r"^to_torch: .* got datetime64\[s\] array .*; make others of them with map"
    ) as got:
        list(times.to_torch())
    assert re.fullmatch(r"of what batch at test_torch.py:\d+ gives", *got.value.__notes__)


@pytest.mark.parametrize("device", ["gpu", "cpu:x", 1.5])
def test_what_is_no_device_is_refused_at_once(device: Any) -> None:
    with pytest.raises(BadArgument, match=r"^to_torch at test_torch.py:\d+: device: expected one of torch's, got"):
        D.range(3).to_torch(device=device)


@pytest.mark.skipif(torch.backends.cuda.is_built(), reason="is about a torch without CUDA")
def test_a_torch_without_cuda_says_so_at_once() -> None:
    with pytest.raises(BadArgument, match="which is built without CUDA, got 'cuda:0'"):
        D.range(3).to_torch(device="cuda:0")
