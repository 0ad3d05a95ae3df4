"""`permute` and `permute_at` against a plain-Python twin, and as bijections that look random."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock._native import permute, permute_at

MASK = 2**64 - 1
LARGEST = 2**63 - 1
KEYS = [0, 1, 2**63, MASK]

# Primes, squares (no walking), one past a square (the longest walk), powers of two and their neighbours.
SMALL = [*range(1, 70), 97, 101, 121, 122, 127, 128, 129, 251, 255, 256, 257, 1000, 1009]
SMALL += [4095, 4096, 4097, 65535, 65536, 65537]
HUGE = [
    2**31 - 1,
    2**32,
    2**32 + 1,
    10**12 + 39,
    2**53 + 1,
    (2**31 + 1) ** 2,
    2**62,
    3037000499**2 + 1,
    LARGEST,
]


def mix64(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def twin(n, key, x):
    """The contract of `permute`, written down once more without an eye on speed."""
    rows = math.isqrt(n - 1) + 1
    columns = -(-n // rows)
    num_rounds = 32 if n < 64 else 8
    keys = [mix64(key + 0x9E3779B97F4A7C15 * (i + 1) & MASK) for i in range(num_rounds)]

    def draw(other, round_key, size):
        h = (other ^ round_key) * 0xBF58476D1CE4E5B9 & MASK
        h = (h ^ (h >> 32)) * 0x94D049BB133111EB & MASK
        return h * size >> 64

    while True:
        row, column = divmod(x, columns)
        for first, second in zip(keys[::2], keys[1::2], strict=True):
            row = (row + draw(column, first, rows)) % rows
            column = (column + draw(row, second, columns)) % columns
        x = row * columns + column
        if x < n:
            return x


def permuted(n, key, start=0, count=None):
    out = np.full(n - start if count is None else count, -1, np.int64)
    permute(n, key, start, out)
    return out


def permuted_at(n, key, index):
    out = np.full(len(index), -1, np.int64)
    permute_at(n, key, np.asarray(index, np.int64), out)
    return out


@pytest.mark.parametrize("key", KEYS)
def test_is_a_bijection(key):
    for n in SMALL:
        np.testing.assert_array_equal(np.sort(permuted(n, key)), np.arange(n), err_msg=f"n={n}")


def test_is_a_bijection_of_a_million():
    np.testing.assert_array_equal(np.sort(permuted(1_000_003, 7)), np.arange(1_000_003))


@settings(derandomize=True, deadline=None)
@given(n=st.integers(1, 5000), key=st.integers(0, MASK))
def test_is_a_bijection_for_any_size_and_key(n, key):
    np.testing.assert_array_equal(np.sort(permuted(n, key)), np.arange(n))


@pytest.mark.parametrize("n", HUGE)
def test_huge_domains_stay_inside_and_do_not_repeat(n):
    rng = np.random.default_rng(n % 1000)
    index = np.unique(np.concatenate([np.arange(1000), n - 1 - np.arange(1000), rng.integers(0, n, 20_000)]))
    out = permuted_at(n, 3, index)
    assert out.min() >= 0
    assert out.max() < n
    assert len(np.unique(out)) == len(index)
    # Spread over the whole domain, not over a corner of it.
    assert abs(out.astype(float).mean() / n - 0.5) < 0.01


@settings(derandomize=True, deadline=None)
@given(n=st.integers(1, LARGEST) | st.integers(1, 100), key=st.integers(0, MASK), data=st.data())
def test_equals_the_twin(n, key, data):
    index = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=5))
    assert permuted_at(n, key, index).tolist() == [twin(n, key, x) for x in index]


@settings(derandomize=True, deadline=None)
@given(n=st.integers(1, LARGEST), key=st.integers(0, MASK), data=st.data())
def test_a_slice_equals_its_positions(n, key, data):
    count = data.draw(st.integers(0, min(n, 300)))
    start = data.draw(st.integers(0, n - count))
    index = start + np.arange(count)
    np.testing.assert_array_equal(permuted(n, key, start, count), permuted_at(n, key, index))


def test_can_permute_in_place():
    index = np.arange(1000)[::-1].copy()
    expected = permuted_at(1000, 5, index)
    permute_at(1000, 5, index, index)
    np.testing.assert_array_equal(index, expected)


def test_reads_read_only_indices():
    index = np.arange(10)
    index.flags.writeable = False
    assert sorted(permuted_at(10, 5, index)) == list(range(10))


def test_takes_numpy_integers():
    out = np.empty(10, np.int64)
    permute(np.int64(10), np.uint64(5), np.int32(0), out)
    np.testing.assert_array_equal(out, permuted(10, 5))


def test_known_values():
    """A saved state holds a key and a position: these values may never change."""
    assert permuted(10, 42).tolist() == [9, 3, 7, 1, 2, 4, 6, 8, 5, 0]
    assert permuted(1_000_000, 42, 0, 5).tolist() == [864072, 984449, 621793, 522342, 345611]
    assert permuted(LARGEST, 42, 0, 3).tolist() == [
        147828517969948312,
        255471788229378204,
        1157063349722139108,
    ]


def chi_square_excess(counts):
    """How many standard deviations chi-square lies above its mean, for equally likely cells."""
    counts = np.asarray(counts, float)
    expected = counts.mean()
    freedom = len(counts) - 1
    return (((counts - expected) ** 2 / expected).sum() - freedom) / math.sqrt(2 * freedom)


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_all_permutations_are_equally_likely(n):
    seen = Counter(tuple(permuted(n, key)) for key in range(20_000))
    assert chi_square_excess([seen[p] for p in itertools.permutations(range(n))]) < 4


@pytest.mark.parametrize("n", [7, 9, 16, 64, 100])
def test_all_places_are_equally_likely(n):
    results = np.array([permuted(n, key) for key in range(10_000)])
    for position in (0, 1, n // 2, n - 1):
        assert chi_square_excess(np.bincount(results[:, position], minlength=n)) < 4.5
    # Neighbours do not stay neighbours: each ordered pair of results is as likely as any other.
    pairs = np.bincount(results[:, 0] * n + results[:, 1], minlength=n * n).reshape(n, n)
    assert chi_square_excess(pairs[~np.eye(n, dtype=bool)]) < 4.5


def test_one_permutation_is_well_mixed():
    n = 100_000
    out = permuted(n, 1)
    # Where the first, second, … tenth of the input went, in 100 equal parts of the output.
    cells = np.bincount(np.arange(n) * 10 // n * 100 + out * 100 // n, minlength=1000)
    assert abs(chi_square_excess(cells)) < 4.5
    for lag in (1, 2, 316, 317):
        assert abs(np.corrcoef(out[:-lag], out[lag:])[0, 1]) < 0.015
    assert (out == np.arange(n)).sum() < 10


def test_keys_give_unrelated_permutations():
    n = 10_000
    results = [permuted(n, key) for key in (0, 1, 2, 2**32, 2**63, MASK)]
    for a, b in itertools.combinations(results, 2):
        assert (a == b).sum() < 10
        assert abs(np.corrcoef(a, b)[0, 1]) < 0.05


@pytest.mark.parametrize("n, key, start, count, error, text", [
    (0, 0, 0, 1, ValueError, "n must be at least 1, got 0"),
    (-5, 0, 0, 1, ValueError, "n must be at least 1, got -5"),
    (2**63, 0, 0, 1, ValueError, "n must be within .* got 9223372036854775808"),
    (10, -1, 0, 1, ValueError, r"key must be within \[0, 2\*\*64\), got -1"),
    (10, 2**64, 0, 1, ValueError, "key must be within .* got 18446744073709551616"),
    (10, 0, -1, 1, IndexError, r"positions -1 to -1 \+ 1 .* \[0, 10\)"),
    (10, 0, 11, 0, IndexError, r"positions 11 to 11 \+ 0"),
    (10, 0, 8, 3, IndexError, r"positions 8 to 8 \+ 3"),
    (LARGEST, 0, LARGEST, 1, IndexError, "positions"),
    (10, 0, -(2**63), 1, IndexError, "positions"),
    (10, 0, 2**63, 1, ValueError, "start must be within"),
    (10.0, 0, 0, 1, TypeError, "float"),
    ("10", 0, 0, 1, TypeError, "str"),
])  # fmt: skip
def test_refuses_bad_numbers(n, key, start, count, error, text):
    out = np.full(count, -1, np.int64)
    with pytest.raises(error, match=text):
        permute(n, key, start, out)
    assert (out == -1).all()


@pytest.mark.parametrize("bad", [-1, 10, LARGEST, -(2**63)])
def test_refuses_bad_indices(bad):
    with pytest.raises(IndexError, match=rf"index\[2\] is {bad}, not within \[0, 10\)"):
        permuted_at(10, 0, [0, 9, bad, 3])


def test_refuses_lengths_that_differ():
    with pytest.raises(ValueError, match="same length, got 3 and 4"):
        permute_at(10, 0, np.zeros(3, np.int64), np.zeros(4, np.int64))


def test_refuses_arrays_that_overlap_in_part():
    buffer = np.zeros(10, np.int64)
    with pytest.raises(ValueError, match="same memory or share none"):
        permute_at(10, 0, buffer[:5], buffer[1:6])


def read_only():
    array = np.zeros(4, np.int64)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("out", [
    np.zeros(4, np.int32),
    np.zeros(4, np.uint64),
    np.zeros(4, np.float64),
    np.zeros(4, ">i8"),
    np.zeros(8, np.int64)[::2],
    np.zeros(4, np.int64)[::-1],
    np.zeros((2, 2), np.int64),
    np.zeros((), np.int64),
    read_only(),
    [0, 0, 0, 0],
    None,
])  # fmt: skip
def test_refuses_arrays_of_another_kind(out):
    with pytest.raises((TypeError, BufferError)):
        permute(4, 0, 0, out)


def test_refuses_unaligned_arrays():
    out = np.frombuffer(bytearray(33), np.int64, count=4, offset=1)
    with pytest.raises(ValueError, match="out must be aligned to 8 bytes"):
        permute(4, 0, 0, out)


def test_empty_out_is_fine():
    permute(10, 0, 10, np.empty(0, np.int64))
    permute_at(10, 0, np.empty(0, np.int64), np.empty(0, np.int64))
