"""Records by their places: checked, cut out, and read from a file in pieces."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock._native import check_records, cut_records, frame_records, read_pieces

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


def test_pieces_of_a_file_are_read_one_behind_the_other(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(range(100)))
    file = os.open(tmp_path / "a", os.O_RDONLY)
    try:
        out = np.zeros(30, np.uint8)
        offsets, lengths = np.array([90, 0, 50]), np.array([10, 5, 15])
        assert read_pieces(file, offsets, lengths, out) == (3, 0)
        assert out.tolist() == [*range(90, 100), *range(5), *range(50, 65)]
        assert read_pieces(file, np.array([0, 95]), np.array([5, 10]), out) == (1, 5)
        assert read_pieces(file, np.array([200]), np.array([1]), out) == (0, 0)
        for bad in (([0], [31]), ([-1], [1]), ([0], [-1]), ([0, 0], [20, 20]), ([0], [2**62]), ([0, 1], [1])):
            with pytest.raises(ValueError, match=r"do not fit|one length"):
                read_pieces(file, np.array(bad[0]), np.array(bad[1]), out)
    finally:
        os.close(file)
    number, code = read_pieces(file, np.array([0]), np.array([1]), out)
    assert (number, code) == (0, -9)  # no such descriptor
