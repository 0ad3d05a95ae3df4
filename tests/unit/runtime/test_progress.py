"""Progress bars: on a terminal, after a while, and never anywhere else."""

import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.runtime import progress
from penstock.runtime.progress import ProgressBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    stream = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))  # the real one is replaced between tests
    monkeypatch.setattr(progress, "_SHOW_AFTER_S", 0.0)
    monkeypatch.setattr(progress, "_REFRESH_S", 0.0)
    return stream


def test_it_shows_on_a_terminal(terminal: Terminal) -> None:
    bar = ProgressBar("shuffle: filling the buffer", 30, enabled=True)
    for _ in range(30):
        bar.advance(1)
    assert "shuffle: filling the buffer" in terminal.getvalue()
    assert "30/30" in terminal.getvalue()
    bar.close()
    bar.close()


def test_it_does_not_show_in_a_log(monkeypatch: pytest.MonkeyPatch, terminal: Terminal) -> None:
    log = io.StringIO()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=log))
    bar = ProgressBar("x", 3, enabled=True)
    bar.advance(3)
    bar.close()
    assert log.getvalue() == ""


def test_what_is_quick_does_not_show(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_SHOW_AFTER_S", 60.0)
    bar = ProgressBar("x", 3, enabled=True)
    bar.advance(3)
    assert terminal.getvalue() == ""


PIPELINES: dict[str, Any] = {
    "shuffle: filling the buffer": lambda d: d.filter(lambda x: True).shuffle(50, seed=1),
    "cache: keeping elements": lambda d: d.map(lambda x: np.full(10, x)).cache(),
}


@pytest.mark.parametrize("text", PIPELINES)
@pytest.mark.parametrize("allowed", [None, True, False])
def test_pipelines_show_what_takes_long(terminal: Terminal, text: str, allowed: bool | None) -> None:
    dataset = PIPELINES[text](ps.Dataset.range(100)).with_options(ps.Options(progress=allowed))
    assert len(list(dataset)) == 100
    assert (text in terminal.getvalue()) == (allowed is not False)


@pytest.mark.parametrize("length, buffer_size, end", [(100, 50, "50/50"), (30, 50, "30/30")])
def test_a_shuffle_fills_what_it_has_room_for(terminal: Terminal, length: int, buffer_size: int, end: str) -> None:
    numbers = ps.Dataset.from_generator(lambda: iter(range(length)), output_signature=ps.TensorSpec((), "int64"))
    assert len(list(numbers.assert_cardinality(length).shuffle(buffer_size, seed=1))) == length
    assert end in terminal.getvalue()
    assert f"{min(length, buffer_size) + 1}/" not in terminal.getvalue()
