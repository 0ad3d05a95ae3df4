"""`window_shuffle` against a plain-Python twin: the buffer of tf.data, however it is fed."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock._native import window_shuffle

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix64(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def twin(indices, size, key):
    """The whole sequence at once, as tf.data describes its buffer."""
    stream = mix64(key + GOLDEN & MASK)
    buffer, rest = list(indices[:size]), list(indices[size:])[::-1]
    out = []
    while buffer:
        j = mix64(stream + GOLDEN * len(out) & MASK) * len(buffer) >> 64
        out.append(buffer[j])
        if rest:
            buffer[j] = rest.pop()
        else:
            buffer[j] = buffer[-1]
            buffer.pop()
    return out


def shuffled(indices, size, key, in_cuts=(), out_sizes=(1000,)):
    """Runs the kernel to the end, with `indices` cut at `in_cuts` calls taking turns in `out_sizes`."""
    indices = np.asarray(indices, np.int64)
    chunks = np.split(indices, sorted(in_cuts))
    slots = np.full(size, -1, np.int64)
    filled = step = 0
    result = []
    room = itertools.cycle(out_sizes)
    for i, chunk in enumerate(chunks):
        draining = i == len(chunks) - 1
        idle = 0
        while len(chunk) or (draining and filled):
            out = np.full(next(room), -1, np.int64)
            before = (len(chunk), filled)
            consumed, produced, filled = window_shuffle(slots, filled, chunk, draining, key, step, out)
            assert (out[produced:] == -1).all()
            result += out[:produced].tolist()
            step += produced
            chunk = chunk[consumed:]
            idle = idle + 1 if (len(chunk), filled) == before else 0
            assert idle <= len(out_sizes), "no progress"
    return result


@settings(derandomize=True, deadline=None)
@given(n=st.integers(0, 200), size=st.integers(1, 60), key=st.integers(0, MASK), data=st.data())
def test_equals_the_twin_however_it_is_cut(n, size, key, data):
    in_cuts = data.draw(st.lists(st.integers(0, n), max_size=8))
    out_sizes = data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=6).filter(any))
    indices = np.arange(n) * 7 + 3
    assert shuffled(indices, size, key, in_cuts, out_sizes) == twin(indices.tolist(), size, key)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 999, 1000, 1001, 5000])
def test_keeps_every_index_and_the_law_of_the_window(size):
    n = 1000
    out = np.array(shuffled(range(n), size, key=9))
    np.testing.assert_array_equal(np.sort(out), np.arange(n))
    # An index leaves at most size - 1 places early: place t can only hold what came in the first t + size.
    assert (out - np.arange(n) <= size - 1).all()


def test_window_of_one_is_the_identity():
    assert shuffled(range(100), 1, key=123) == list(range(100))


def test_state_between_calls_is_what_the_caller_holds():
    """At any step, slots, filled, step and position are all there is: the kernel remembers nothing."""
    whole = twin(list(range(50)), 8, 77)
    slots, out, incoming = np.empty(8, np.int64), np.empty(1, np.int64), np.arange(50)
    filled = position = 0
    for t in range(50):
        copy = slots.copy()
        consumed, produced, filled = window_shuffle(copy, filled, incoming[position:], True, 77, t, out)
        assert (produced, out[0]) == (1, whole[t])
        slots, position = copy, position + consumed
    assert filled == 0


def test_a_step_waits_for_its_replacement():
    slots, out = np.empty(3, np.int64), np.empty(10, np.int64)
    assert window_shuffle(slots, 0, np.arange(2), False, 0, 0, out) == (2, 0, 2)
    assert window_shuffle(slots, 2, np.arange(2, 3), False, 0, 0, out) == (1, 0, 3)
    assert window_shuffle(slots, 3, np.arange(0), False, 0, 0, out) == (0, 0, 3)
    assert window_shuffle(slots, 3, np.arange(3, 5), False, 0, 0, out) == (2, 2, 3)
    assert window_shuffle(slots, 3, np.arange(0), True, 0, 2, out) == (0, 3, 0)
    assert window_shuffle(slots, 0, np.arange(0), True, 0, 5, out) == (0, 0, 0)


def test_fills_even_when_there_is_no_room_to_emit():
    slots = np.empty(3, np.int64)
    assert window_shuffle(slots, 0, np.arange(5), True, 0, 0, np.empty(0, np.int64)) == (3, 0, 3)
    assert slots.tolist() == [0, 1, 2]


def test_known_values():
    """A saved state holds a key and a step: these values may never change."""
    assert shuffled(range(12), 4, key=42) == [2, 1, 3, 5, 0, 4, 8, 10, 9, 11, 7, 6]


def chi_square_excess(counts):
    """How many standard deviations chi-square lies above its mean, for equally likely cells."""
    counts = np.asarray(counts, float)
    expected = counts.mean()
    freedom = len(counts) - 1
    return (((counts - expected) ** 2 / expected).sum() - freedom) / math.sqrt(2 * freedom)


def test_a_window_over_everything_makes_all_permutations_equally_likely():
    seen = Counter(tuple(shuffled(range(4), 4, key)) for key in range(20_000))
    assert chi_square_excess([seen[p] for p in itertools.permutations(range(4))]) < 4


def test_an_index_waits_as_long_as_the_window_is_wide():
    n, size = 200_000, 100
    slots, out = np.arange(size), np.empty(n, np.int64)
    # What comes in is numbered by arrival; the wait of an index in the buffer is geometric with mean `size`.
    window_shuffle(slots, size, np.arange(size, size + n), False, 5, 0, out)
    wait = np.arange(n) - (out - size)
    assert abs(wait[n // 2 :].mean() - size) < 3


def test_draws_are_uniform_over_slots():
    size, drawn = 50, []
    slots, out = np.arange(size), np.empty(1, np.int64)
    for t in range(20_000):
        # The slot that changed is the one that was drawn; -1 marks it, and is then put right.
        window_shuffle(slots, size, np.array([-1]), False, 5, t, out)
        drawn.append(int(out[0]))
        slots[out[0]] = out[0]
    assert chi_square_excess(np.bincount(drawn, minlength=size)) < 4
    pairs = np.array(drawn[::2]) // 5 * 10 + np.array(drawn[1::2]) // 5
    assert chi_square_excess(np.bincount(pairs, minlength=100)) < 4


def call(slots=None, filled=0, incoming=None, draining=False, key=0, step=0, out=None):
    return window_shuffle(
        np.zeros(4, np.int64) if slots is None else slots,
        filled,
        np.arange(10) if incoming is None else incoming,
        draining,
        key,
        step,
        np.zeros(10, np.int64) if out is None else out,
    )


@pytest.mark.parametrize("arguments, error, text", [
    ({"slots": np.zeros(0, np.int64)}, ValueError, "at least 1"),
    ({"filled": 5}, ValueError, "filled is 5, but there are only 4 slots"),
    ({"filled": -1}, ValueError, "filled must not be negative, got -1"),
    ({"filled": 2**63}, ValueError, "filled must be within"),
    ({"key": -1}, ValueError, "key must be within .* got -1"),
    ({"key": 2**64}, ValueError, "key must be within"),
    ({"step": -3}, ValueError, "step must not be negative, got -3"),
    ({"step": 2**63}, ValueError, "step must be within"),
    ({"step": 1.5}, TypeError, "float"),
    ({"draining": "yes"}, TypeError, None),
    ({"slots": np.zeros(4, np.int32)}, TypeError, None),
    ({"slots": np.zeros((2, 2), np.int64)}, TypeError, None),
    ({"incoming": np.zeros(4, np.float64)}, TypeError, None),
    ({"incoming": np.zeros(8, np.int64)[::2]}, TypeError, None),
    ({"incoming": [1, 2, 3]}, TypeError, None),
    ({"out": np.zeros(4, np.uint64)}, TypeError, None),
    ({"out": np.zeros(4, np.int64)[::-1]}, TypeError, None),
])  # fmt: skip
def test_refuses_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        call(**arguments)


def test_refuses_shared_memory():
    buffer = np.zeros(10, np.int64)
    for names in itertools.combinations(["slots", "incoming", "out"], 2):
        with pytest.raises(ValueError, match="must not share memory"):
            call(**dict(zip(names, [buffer[:6], buffer[5:]], strict=True)))
    assert call(slots=buffer[:4], incoming=buffer[4:8], out=buffer[8:]) == (4, 0, 4)
    assert call(slots=buffer[:4], incoming=buffer[2:2]) == (0, 0, 0)


def test_reads_read_only_incoming():
    incoming = np.arange(4)
    incoming.flags.writeable = False
    assert call(incoming=incoming) == (4, 0, 4)
