"""Datasets that all adapters are tested with, and what is true of every feed."""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps

D = ps.Dataset
DTYPES = ("bool", "uint8", "int8", "uint16", "uint32", "uint64", "int64", "float16", "complex64")
Pair = namedtuple("Pair", ["first", "second"])


@dataclasses.dataclass
class Sample:
    """An element that is a dataclass."""

    image: Any
    label: Any


def pictures(num: int = 64, size: int = 256) -> tuple[np.ndarray, np.ndarray]:
    """Rows that are told apart by any of their values, large enough for a batch of eight to be in a slot."""
    numbers = np.arange(num, dtype=np.float32)
    return np.repeat(numbers[:, None], size, axis=1), np.arange(num, dtype=np.int32)


def shuffled(num: int = 64) -> ps.Dataset:
    return D.from_tensor_slices(pictures(num)).shuffle(seed=5).batch(8)


def aligned(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """An array of zeros that begins at a multiple of 64 bytes."""
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + nbytes].view(dtype).reshape(shape)


def numbers_of(batch: Any) -> list[int]:
    """The labels of a batch of `shuffled()`."""
    return [int(n) for n in np.asarray(batch[1])]


def check_epochs(feed_of: Callable[[ps.Dataset], Any]) -> None:
    """Each iteration is the dataset's next run, those that nobody reads aside."""
    dataset, feed = shuffled(), None
    feed = feed_of(dataset)
    iter(feed)
    seen = [[numbers_of(batch) for batch in feed] for _ in range(3)]
    assert seen == [[numbers_of(batch) for batch in shuffled().run(epoch=epoch)] for epoch in range(3)]
    assert seen[0] != seen[1]
    assert len(feed) == 8


def check_kept_tensors(feed_of: Callable[[ps.Dataset], Any]) -> None:
    """A slot is not used again while a tensor looks at it, the array being gone."""
    expected = [np.array(batch[0]) for batch in shuffled(256).run(epoch=0)]
    kept = [batch[0] for batch in feed_of(shuffled(256))]
    assert len(kept) == 32
    for tensor, array in zip(kept, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(tensor), array)


def check_reuse(feed_of: Callable[[ps.Dataset], Any], address_of: Callable[[Any], int]) -> None:
    """A slot is used again once its tensor is dropped: a loop that keeps nothing needs a few slots."""
    assert len({address_of(batch[0]) for batch in feed_of(shuffled(512))}) <= 6


def check_state(feed_of: Callable[[ps.Dataset], Any]) -> None:
    """An iterator's position is that of the last element that it gave."""
    feed = feed_of(shuffled())
    for _ in feed:
        pass
    iterator = iter(feed)
    for _ in range(3):
        next(iterator)
    state = iterator.state_dict()
    rest = [numbers_of(batch) for batch in iterator]
    assert len(rest) == 5
    resumed = iter(feed_of(shuffled()))
    resumed.load_state_dict(state)
    assert [numbers_of(batch) for batch in resumed] == rest
    assert resumed.run.epoch == 1


def check_abandoned(feed_of: Callable[[ps.Dataset], Any]) -> None:
    """An iterator that is dropped closes its run, and gives its memory back."""
    iterator = iter(feed_of(shuffled().prefetch(2)))
    next(iterator)
    ledger = iterator.run.ledger
    assert ledger.charged_bytes > 0
    del iterator
    assert ledger.charged_bytes == 0


def check_last_run(feed_of: Callable[[ps.Dataset], Any]) -> None:
    """A feed gives access to the run that it reads, and to its figures when it is over."""
    feed = feed_of(shuffled())
    assert feed.last_run is None
    iterator = iter(feed)
    assert feed.last_run is None
    next(iterator)
    run = feed.last_run
    assert run is iterator.run
    assert run.memory()["held_bytes"] > 0
    for _ in iterator:
        pass
    assert feed.last_run is run
    assert run.memory()["held_bytes"] == 0
    assert 0 < run.memory()["peak_bytes"] <= run.memory()["budget_bytes"]
    next(iter(feed))
    assert feed.last_run.epoch == 1
    assert feed.last_run.memory()["held_bytes"] == 0  # closed with its iterator


def check_errors(feed_of: Callable[[ps.Dataset], Any]) -> None:
    """An element that fails raises in its place, and the next one follows."""

    def odd(n: Any) -> Any:
        if n == 2:
            raise ValueError("two")
        return n

    iterator, seen, notes = iter(feed_of(D.range(4).map(odd))), [], []
    while True:
        try:
            seen.append(int(next(iterator)))
        except ValueError as error:
            notes += error.__notes__
            seen.append(-1)
        except StopIteration:
            break
    assert seen == [0, 1, -1, 3]
    assert [note.endswith("element 2") for note in notes] == [True]


def check_interrupts(feed_of: Callable[[ps.Dataset], Any]) -> None:
    """An interrupt, as by Ctrl-C, loses no element, and the position is that of those that were given."""
    interrupts = [0, 3, 3, 4, 7]

    def stop(n: Any) -> Any:
        if interrupts and n == interrupts[0]:
            del interrupts[0]
            raise KeyboardInterrupt
        return n

    iterator, seen, num_interrupts = iter(feed_of(D.range(8).map(stop))), [], 0
    while True:
        try:
            seen.append(int(next(iterator)))
        except KeyboardInterrupt:
            num_interrupts += 1
            assert iterator.state_dict()["delivered"] == len(seen)
        except StopIteration:
            break
    assert seen == [*range(8)]
    assert num_interrupts == 5


def check_refused_positions(feed_of: Callable[[ps.Dataset], Any]) -> None:
    """A position that is refused leaves an iterator where it was."""
    iterator = iter(feed_of(shuffled()))
    seen = [numbers_of(next(iterator)) for _ in range(3)]
    with pytest.raises(ps.errors.StateError, match="another pipeline"):
        iterator.load_state_dict(D.range(3).run().state_dict())
    seen += [numbers_of(batch) for batch in iterator]
    assert seen == [numbers_of(batch) for batch in shuffled().run(epoch=0)]


CHECKS = (
    *(check_epochs, check_kept_tensors, check_state, check_abandoned, check_last_run, check_errors),
    *(check_interrupts, check_refused_positions),
)
