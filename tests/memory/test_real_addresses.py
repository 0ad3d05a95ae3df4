"""A limit on the addresses of a process: pipelines that spill need no library that does not fit under it."""

import pytest

from tests.memory.test_real_memory import MB, child


@pytest.mark.parametrize("program", ["shuffled", "cached", "all_together", "in_many_threads", "of_small"])
def test_pipelines_spill_within_128_mb_of_addresses(program: str) -> None:
    found = child(program, "limited_children.py", exact=False)
    assert found["equal"]
    assert found["spilled"] > 64 * MB
    assert found["ledger_peak"] <= 64 * MB
    assert not found["pyarrow"]


def test_files_that_are_to_last_say_how_many_addresses_they_need() -> None:
    errors = child("kept_in_a_file", "limited_children.py", exact=False)["errors"]
    assert len(errors) == 3
    for error in errors:
        assert "pyarrow, which needs 200 MB of addresses to be loaded" in error, error
        assert "left of its limit (ulimit -v, RLIMIT_AS); raise the limit, or import pyarrow before" in error


def test_tables_say_that_pyarrow_has_no_room() -> None:
    errors = child("tables", "limited_children.py", exact=False)["errors"]
    assert list(errors) == ["CSV files", "JSON lines", "Parquet files", "Arrow tables and files", "to_parquet"]
    for what, error in errors.items():
        what = "Parquet files" if what == "to_parquet" else what
        assert f"{what} are written and read with pyarrow, which needs 200 MB of addresses to be loaded" in error, error
        assert error.startswith("RunError: "), error
