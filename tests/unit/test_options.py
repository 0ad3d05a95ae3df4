"""Options: budgets in all the ways people write them, and which setting wins."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.memory.ledger import format_bytes
from penstock.options import parse_memory


@pytest.mark.parametrize("memory, nbytes", [
    (1, 1),
    (np.int64(4096), 4096),
    (0.25, 250),
    (1.0, 1000),
    (np.float64(0.5), 500),
    (np.float32(0.5), 500),
    (Fraction(1, 4), 250),
    ("100", 100),
    ("100B", 100),
    ("64MB", 64_000_000),
    ("64 mb", 64_000_000),
    (" 64M ", 64_000_000),
    ("1.5k", 1500),
    ("2GiB", 2 << 30),
    ("1KiB", 1024),
    ("0.5TiB", 1 << 39),
    ("1_000kB", 1_000_000),
    ("1,000 kB", 1_000_000),
])  # fmt: skip
def test_budgets_in_all_spellings(memory: Any, nbytes: int) -> None:
    assert parse_memory(memory, available_bytes=1000) == nbytes
    assert ps.Options(memory=memory).memory == memory


@pytest.mark.parametrize("memory, error, text", [
    pytest.param(10**5000, ValueError, "less than 2..100 bytes", id="a number beyond all"),
    pytest.param("9" * 5000, ValueError, "less than 2..100 bytes", id="a text beyond all"),
    (0, ValueError, "more than 0 bytes, got 0"),
    (-5, ValueError, "more than 0 bytes, got -5"),
    ("0MB", ValueError, "more than 0 bytes, got '0MB'"),
    (0.0, ValueError, r"in \(0, 1\], got 0.0"),
    (1.5, ValueError, r"in \(0, 1\], got 1.5"),
    (-0.5, ValueError, r"in \(0, 1\]"),
    (float("nan"), ValueError, r"in \(0, 1\]"),
    ("lots", ValueError, "cannot read 'lots'"),
    ("64XB", ValueError, "cannot read '64XB'"),
    ("-1MB", ValueError, "cannot read '-1MB'"),
    ("", ValueError, "cannot read ''"),
    ("1.5", ValueError, r"cannot read '1\.5'"),
    ("0.25", ValueError, r"cannot read '0\.25'"),
    (True, TypeError, "got bool True"),
    ([1], TypeError, r"got list \[1\]"),
    (np.array([64]), TypeError, r"got ndarray array\(\[64\]\)"),
    (np.array(0.5), TypeError, r"got ndarray array\(0.5\)"),
])  # fmt: skip
def test_budgets_that_mean_nothing_are_refused_with_what_to_write(memory: Any, error: type, text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        parse_memory(memory, available_bytes=1000)
    assert "64MB" in str(caught.value)
    with pytest.raises(error, match=text):
        ps.Options(memory=memory)


@pytest.mark.parametrize("name", ["optimize", "deterministic", "progress", "resume_changed"])
def test_switches_are_true_or_false(name: str) -> None:
    with pytest.raises(TypeError, match=f"{name}: expected True or False, got str 'no'"):
        ps.Options(**{name: "no"})  # type: ignore[arg-type]


@settings(derandomize=True)
@given(nbytes=st.integers(1, 10**14))
def test_sizes_for_people_are_read_back_within_their_three_digits(nbytes: int) -> None:
    assert abs(parse_memory(format_bytes(nbytes), 0) - nbytes) <= 0.006 * nbytes


def test_later_options_win_and_those_left_out_stay() -> None:
    first = ps.Options(memory="64MB", deterministic=False)
    assert first.merged(ps.Options(memory=1000)) == ps.Options(memory=1000, deterministic=False)
    assert first.merged(ps.Options()) == first
    assert ps.Options(optimize=True).merged(ps.Options(optimize=False)) == ps.Options(optimize=False)


def test_options_stay_on_what_is_built_on_a_dataset() -> None:
    dataset = ps.Dataset.range(10).with_options(ps.Options(memory=12345)).batch(2)
    assert dataset.options() == ps.Options(memory=12345)
    with dataset.run() as run:
        assert run.ledger.budget_bytes == 12345
    with dataset.run(memory=54321) as run:
        assert run.ledger.budget_bytes == 54321
    later = dataset.with_options(ps.Options(memory=777, optimize=False))
    assert later.options() == ps.Options(memory=777, optimize=False)
    with later.run() as run:
        assert run.plan == later.node


def test_the_default_is_a_quarter_of_what_the_process_may_use() -> None:
    with ps.Dataset.range(1).run() as run, ps.Dataset.range(1).run(memory=1.0) as whole:
        assert run.ledger.budget_bytes == whole.ledger.budget_bytes // 4


def test_with_options_wants_options() -> None:
    with pytest.raises(TypeError, match=r"with_options at test_options.py:\d+: expected Options, got dict"):
        ps.Dataset.range(1).with_options({"memory": 1})  # type: ignore[arg-type]


@pytest.mark.parametrize("settings, error, text", [
    ({"spill_limit": "0GB"}, ValueError, "spill_limit: expected more than 0 bytes, got '0GB'"),
    ({"spill_limit": "20 loaves"}, ValueError, "spill_limit: cannot read '20 loaves'; use bytes"),
    ({"spill_limit": 0.5}, TypeError, "spill_limit: expected a number or text, got float 0.5"),
    ({"spill_dir": 3}, TypeError, "spill_dir: expected the path of a directory, got int 3"),
    ({"spill_dir": b"/tmp"}, TypeError, "spill_dir: expected the path of a directory, got bytes"),
    ({"spill_dir": ""}, ValueError, "spill_dir: expected the path of a directory, got none"),
    ({"progress": 1}, TypeError, "progress: expected True or False, got int 1"),
])  # fmt: skip
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        ps.Options(**settings)


def test_where_to_spill_reaches_the_run(tmp_path: Path) -> None:
    options = ps.Options(spill_dir=tmp_path, spill_limit="20GB")
    with ps.Dataset.range(3).with_options(options).run() as run:
        assert run._stages.spill.limit_bytes == 20 * 10**9
        assert Path(run._stages.spill.directory).parent == tmp_path
