"""Records by their places: checked, cut out, and read from a file in any order."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock._native import check_records, cut_records, frame_records, read_records

RECORDS = [b"", b"one", b"x" * 300, b"", b"two"]


def placed(records: list[bytes]) -> tuple[bytearray, np.ndarray, np.ndarray]:
    lengths = np.array([len(record) for record in records], dtype=np.int64)
    data = bytearray(int(lengths.sum()) + 16 * len(records))
    frame_records(records, data, 0)
    return data, np.cumsum(lengths + 16) - lengths - 4, lengths


def test_records_are_cut_and_checked_in_any_order() -> None:
    data, offsets, lengths = placed(RECORDS)
    order = np.array([4, 0, 2, 2, 1])
    assert cut_records((data, offsets[order], lengths[order])) == [RECORDS[i] for i in order]
    assert check_records(data, offsets[order], lengths[order]) == (5, 0, 0, 0)
    assert check_records(data, offsets[:0], lengths[:0]) == (0, 0, 0, 0)


@pytest.mark.parametrize("place, stop", [(0, 3), (9, 3), (12, 4), (14, 4), (15, 4)])
def test_every_part_of_a_frame_counts(place: int, stop: int) -> None:
    data, offsets, lengths = placed([b"ab"])
    data[place] ^= 1
    number, why, expected, got = check_records(data, offsets, lengths)
    assert (number, why) == (0, stop)
    assert expected != got


def test_another_length_is_told() -> None:
    data, offsets, lengths = placed([b"abc", b"defg"])
    lengths[0] = 2
    assert check_records(data, offsets, lengths) == (0, 2, 2, 3)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)), max_size=4))
def test_places_outside_of_the_buffer_are_told(places: list[tuple[int, int]]) -> None:
    data, offsets, _ = placed([b"abc"])
    some = np.array([*places, (int(offsets[0]), 3)], dtype=np.int64)
    number, why, _, _ = check_records(data, np.ascontiguousarray(some[:, 0]), np.ascontiguousarray(some[:, 1]))
    assert (number, why) == (len(some), 0) or why in (1, 2, 3, 4)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "a").write_bytes(CONTENTS)
    descriptor = os.open(tmp_path / "a", os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


CONTENTS = np.random.default_rng(0).bytes(300_000)


def read(file: int, parts: list[tuple[int, int]], room: int) -> tuple[list[bytes], list[int], int]:
    """Parts of the file one behind the other, with so much room behind them; those of which came, and the answer."""
    begins, ends = np.array(parts, np.int64).reshape(-1, 2).T.copy()
    targets = np.cumsum(ends - begins) - (ends - begins)
    used = int((ends - begins).sum())
    around = np.full(used + room + 1, 7, np.uint8)
    missing, stop = read_records(file, begins, ends, targets, around[:-1], used)
    assert around[-1] == 7
    came = [around[at : at + size].tobytes() for at, size in zip(targets, ends - begins, strict=True)]
    return came, missing, stop


PLACES = st.tuples(st.integers(0, 290_000), st.integers(0, 400) | st.integers(0, 40_000)).map(
    lambda pair: (pair[0], min(len(CONTENTS), sum(pair)))
)


@settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(parts=st.lists(PLACES, max_size=30), room=st.sampled_from([0, 1, 300, 20_000, 300_000]))
def test_parts_of_a_file_come_to_their_places(file: int, parts: list[tuple[int, int]], room: int) -> None:
    assert read(file, parts, room) == ([CONTENTS[begin:end] for begin, end in parts], [], 0)


@pytest.mark.parametrize("room", [0, 1000, 100_000, 1_000_000])
def test_many_small_parts_in_any_order(file: int, room: int) -> None:
    begins = np.random.default_rng(1).integers(0, 299_000, 3000)
    parts = [(int(begin), int(begin) + 50 + int(begin) % 300) for begin in begins]
    assert read(file, parts, room) == ([CONTENTS[begin:end] for begin, end in parts], [], 0)
    assert read(file, sorted(parts), room)[1:] == ([], 0)


def test_neighbours_that_stay_neighbours(file: int) -> None:
    parts = [(at, at + 100) for at in range(0, 200_000, 100)]
    assert read(file, parts, 0) == ([CONTENTS[begin:end] for begin, end in parts], [], 0)


@pytest.mark.parametrize("room", [0, 300_000])
def test_what_lies_behind_the_end_is_missing(file: int, room: int) -> None:
    parts = [(299_990, 300_001), (0, 10), (299_980, 300_000), (400_000, 400_001), (299_995, 300_500)]
    came, missing, stop = read(file, parts, room)
    assert (sorted(missing), stop) == ([0, 3, 4], 300_000)
    assert [came[1], came[2]] == [CONTENTS[:10], CONTENTS[299_980:]]


def test_nothing_at_all(tmp_path: Path, file: int) -> None:
    assert read(file, [], 100) == ([], [], 0)
    (tmp_path / "empty").touch()
    empty = os.open(tmp_path / "empty", os.O_RDONLY)
    try:
        assert read(empty, [(0, 5)], 0)[1:] == ([0], 0)
    finally:
        os.close(empty)


def test_an_error_of_the_system_is_told() -> None:
    assert read(-1, [(5, 8), (0, 3)], 100)[1:] == ([1, 0], -errno.EBADF)


@pytest.mark.parametrize(
    "begins,ends,targets,used",
    [
        ([0], [31], [0], 30),
        ([-1], [1], [0], 30),
        ([1], [0], [0], 30),
        ([0], [5], [-1], 30),
        ([0], [5], [26], 30),
        ([0], [5], [2**63 - 1], 30),
        ([0], [2**63 - 1], [0], 30),
        ([0], [5], [0], 31),
        ([0, 1], [1], [0], 30),
    ],
)
def test_places_outside_of_memory_are_refused(
    file: int, begins: list[int], ends: list[int], targets: list[int], used: int
) -> None:
    with pytest.raises(ValueError, match=r"do not fit|one length"):
        read_records(file, np.array(begins), np.array(ends), np.array(targets), np.zeros(30, np.uint8), used)
