"""A TFRecord file of 200 MB under a budget of 6 MB, as the operating system sees it."""

import pytest

from tests.memory.test_real_memory import MB, child


@pytest.mark.parametrize("program", ["in_order", "window_shuffled", "shuffled", "singly"])
def test_a_large_file_is_read_in_a_few_mb(program: str) -> None:
    found = child(program, "tfrecord_children.py", exact=False)
    assert found["equal"]
    assert found["nbytes"] > 200 * MB
    assert found["ledger_peak"] <= 6 * MB
    assert found["growth"] <= (6 + 6) * MB
