"""Memory for NumPy's arrays: mapped from a size on, whoever frees it, and used only by who says so."""

import ctypes
import gc
import itertools
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy._core.multiarray import get_handler_name

from penstock import _native
from penstock.memory.pressure import anonymous_bytes

KB, MB = 1 << 10, 1 << 20
FROM = 64 * KB
COUNTED = 4 * MB


@contextmanager
def used(memory: object) -> Iterator[None]:
    before = _native.use_array_memory(memory)
    try:
        yield
    finally:
        _native.use_array_memory(before)


def is_mapped(array: np.ndarray) -> bool:
    """What stands before the bytes of an array of ours says so."""
    return get_handler_name(array) == "penstock_arrays" and mapped_bytes_of(array) > 0


def mapped_bytes_of(array: np.ndarray) -> int:
    return ctypes.c_size_t.from_address(array.ctypes.data - 16).value


@pytest.mark.parametrize("make", [np.empty, np.zeros, np.ones])
@pytest.mark.parametrize("nbytes", [0, 1, 100, FROM - 1, FROM, FROM + 1, MB, 5 * MB])
def test_arrays_of_all_sizes(make: type, nbytes: int) -> None:
    with used(_native.array_memory(FROM, COUNTED)):
        array = make(nbytes, np.uint8)
    assert is_mapped(array) == (nbytes >= FROM)
    assert array.ctypes.data % (64 if nbytes >= FROM else 16) == 0
    if make is not np.empty:
        assert (array == (make is np.ones)).all()
    array[...] = 7
    assert (array == 7).all()


@settings(derandomize=True, deadline=None, max_examples=150)
@given(st.lists(st.sampled_from([1, 1000, FROM - 1, FROM, 2 * FROM, MB, 3 * MB]) | st.integers(1, MB), min_size=2))
def test_resized_arrays_keep_what_is_in_them(sizes: list[int]) -> None:
    memory = _native.array_memory(FROM, COUNTED)
    with used(memory):
        array = np.arange(sizes[0]).astype(np.uint8)
        for before, after in itertools.pairwise(sizes):
            expected = np.append(array[:after], np.zeros(max(0, after - before), np.uint8))
            array.resize(after, refcheck=False)
            assert np.array_equal(array, expected)
            assert is_mapped(array) == (after >= FROM)
            array[...] = np.arange(after).astype(np.uint8)


def test_what_is_freed_leaves_the_process() -> None:
    memory = _native.array_memory(FROM, COUNTED)
    with used(memory):
        arrays = [np.ones(2 * MB, np.uint8) for _ in range(32)]
    held = anonymous_bytes()
    arrays.clear()
    assert held - anonymous_bytes() >= 60 * MB


def test_arrays_outlive_who_made_them() -> None:
    """They refer to what they lie in: neither the memory nor its thread need be there any more."""
    made: list[np.ndarray] = []

    def work() -> None:
        with used(_native.array_memory(FROM, COUNTED)):
            made.extend(np.full(n, 3, np.uint8) for n in (10, MB))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    gc.collect()
    assert all((array == 3).all() for array in made)
    made.clear()


def test_only_this_thread_uses_it_and_only_as_long_as_it_says() -> None:
    outside = _native.used_array_memory()
    seen: list[bool] = []
    with used(_native.array_memory(FROM, COUNTED)):
        thread = threading.Thread(target=lambda: seen.append(is_mapped(np.empty(MB, np.uint8))))
        thread.start()
        thread.join()
        assert is_mapped(np.empty(MB, np.uint8))
        with used(_native.array_memory(2 * MB, COUNTED)):
            assert not is_mapped(np.empty(MB, np.uint8))
        assert is_mapped(np.empty(MB, np.uint8))
    assert seen == [False]
    assert not is_mapped(np.empty(MB, np.uint8))
    assert _native.used_array_memory() is outside


@pytest.mark.parametrize("nbytes", [2**46, 2**62])
def test_more_than_there_is(nbytes: int) -> None:
    with used(_native.array_memory(FROM, COUNTED)), pytest.raises(MemoryError):
        np.empty(nbytes, np.uint8)


def test_what_is_kept_is_used_again() -> None:
    memory = _native.array_memory(FROM, COUNTED)
    _native.keep_arrays(memory, 4 * MB)
    with used(memory):
        first = np.full(MB, 7, np.uint8)
        place = first.ctypes.data
        del first
        assert np.empty(MB // 2, np.uint8).ctypes.data != place  # far too large for that
        again = np.zeros(MB - MB // 16, np.uint8)
        assert again.ctypes.data == place
        assert not again.any()
        assert mapped_bytes_of(again) == MB - MB // 16 + 4096  # what is behind it has gone
        total, largest = _native.mapped_so_far(memory)
        assert largest == MB + 4096
        del again
        np.ones(MB - MB // 16, np.uint8)
        assert _native.mapped_so_far(memory) == (total, largest)
        np.ones(2 * MB, np.uint8)
        counted = (total + 2 * MB + 4096, 2 * MB + 4096)
        assert _native.mapped_so_far(memory) == counted
        np.ones(COUNTED + 1, np.uint8)
        assert _native.mapped_so_far(memory) == counted


def test_no_more_is_kept_than_was_said() -> None:
    memory = _native.array_memory(FROM, COUNTED)
    _native.keep_arrays(memory, 8 * MB)
    with used(memory):
        arrays = [np.ones(size, np.uint8) for size in (MB, 3 * MB, 2 * MB, 9 * MB) * 8 + (FROM,) * 40]
        before = anonymous_bytes()
        whole = sum(array.nbytes for array in arrays)
        arrays.clear()
        assert before - anonymous_bytes() >= whole - 9 * MB
        before = anonymous_bytes()
        kept = [np.ones(FROM, np.uint8) for _ in range(16)]
        _native.keep_arrays(memory, 0)
        del kept
        assert anonymous_bytes() <= before


def test_what_is_kept_goes_with_the_memory() -> None:
    before = anonymous_bytes()
    memory = _native.array_memory(FROM, COUNTED)
    _native.keep_arrays(memory, 64 * MB)
    with used(memory):
        for array in [np.ones(4 * MB, np.uint8) for _ in range(16)]:
            del array
    del memory
    assert anonymous_bytes() < before + 8 * MB


def test_threads_that_take_and_give_back_at_a_time() -> None:
    """None gets what another has: each finds what it has written."""
    memory = _native.array_memory(FROM, COUNTED)
    _native.keep_arrays(memory, 2 * MB)
    wrong: list[int] = []

    def work(number: int) -> None:
        with used(memory):
            for i in range(300):
                array = np.full(FROM + 4096 * (i % 5), number, np.uint8)
                if i % 50 == 0:
                    _native.keep_arrays(memory, (number % 3) * MB)
                if not (array == number).all():
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_forked_child_has_arrays_of_its_own() -> None:
    memory = _native.array_memory(FROM, COUNTED)
    _native.keep_arrays(memory, 4 * MB)
    with used(memory):
        del [np.ones(MB, np.uint8)][0]
        child = os.fork()
        if child == 0:
            fine = bool((np.full(MB, 3, np.uint8) == 3).all())
            _native.keep_arrays(memory, 0)
            os._exit(0 if fine else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert not np.zeros(MB, np.uint8).any()


def test_hostile_arguments() -> None:
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        _native.array_memory(-1, COUNTED)
    with pytest.raises(ValueError, match="counted_to_bytes must not be negative, got -1"):
        _native.array_memory(FROM, -1)
    memory = _native.array_memory(FROM, COUNTED)
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        _native.keep_arrays(memory, -1)
    with pytest.raises(TypeError, match="expected what array_memory or use_array_memory returned"):
        _native.use_array_memory("memory")
    for not_ours in ("memory", _native.used_array_memory()):
        with pytest.raises(TypeError, match="expected what array_memory returned"):
            _native.keep_arrays(not_ours, 1)
