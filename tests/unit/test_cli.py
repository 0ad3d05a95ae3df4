"""The command line: the demo on little data, and bad arguments."""

import re

import pytest

import penstock as ps
from penstock.cli import main


def test_the_demo_runs_within_its_budget_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--rows", "2000", "--epochs", "1", "--memory", "64MB"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"rows per second\s+[\d,]+", shown)
    assert re.search(r"budget\s+64 MB", shown)
    assert re.search(r"growth of the process, as the system saw it\s+[\d.]+ \w?B", shown)
    assert re.search(r"by its own ledger\s+[\d.]+ \w?B", shown)
    assert "Every row came once, and memory stayed within the budget." in shown


def test_the_demo_shows_the_plan_with_its_own_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--rows", "500", "--epochs", "2"]) == 0
    shown = capsys.readouterr().out
    assert "Every row came 2 times, and" in shown
    for part in (
        "def pipeline(",
        "As written:",
        "Rewrites:",
        "As it runs:",
        "shuffle(10_000, seed=1)",
        "cli.py:",
        "sink_order",
    ):
        assert part in shown


@pytest.mark.parametrize(
    "memory, text", [("lots", "cannot read 'lots'"), ("0MB", "more than 0 bytes"), ("", "cannot read ''")]
)
def test_a_budget_that_means_nothing_is_refused_with_what_to_write(
    memory: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises((SystemExit, ps.errors.BadArgument)) as caught:
        main(["demo", "--rows", "10", "--memory", memory])
    told = capsys.readouterr().err + str(caught.value)
    assert text in told
    assert "'64MB'" in told
    if isinstance(caught.value, SystemExit):
        assert caught.value.code == 2


def test_a_budget_may_be_a_fraction(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--rows", "300", "--epochs", "1", "--memory", "0.01"]) == 0
    assert "dataset.explain(memory=0.01, sample=1)" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, text",
    [
        (["--rows", "-5"], "argument --rows: expected at least 1, got -5"),
        (["--rows", "10", "--epochs", "0"], "argument --epochs: expected at least 1, got 0"),
        (["--rows", "300", "--memory", "10kB"], "the stages need at least .* and the budget is 10 kB"),
    ],
)
def test_what_cannot_be_run_is_refused_in_words(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["demo", *arguments])
    assert caught.value.code == 2
    assert re.search(text, capsys.readouterr().err)


@pytest.mark.parametrize("arguments", [[], ["fly"], ["demo", "--rows", "many"], ["demo", "--colour"]])
def test_unknown_commands_and_arguments_show_the_usage(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: penstock" in capsys.readouterr().err


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"penstock {ps.__version__}\n"
