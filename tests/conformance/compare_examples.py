"""Random questions about Examples, to TensorFlow and to penstock: which of them have other answers.

    python -m tests.conformance.compare_examples 0 20000

asks many of them in child processes, since on some records TensorFlow ends the process, and prints the numbers of
those that differ, which `case_of` makes again. What docs/records.md lists as different is left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

__all__ = ["difference", "map_difference"]

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

import penstock as ps
from tests.conformance.example_cases import Case, case_of
from tests.conformance.examples import normal


class Refused(str):
    """That an answer is an error: "record" or "features", whichever it is about."""


def _answer(ask: Any) -> Any:
    try:
        return normal(ask())
    # TensorFlow puts the record into some of its texts, and cannot make a str of it.
    except (tf.errors.InvalidArgumentError, UnicodeDecodeError, ps.errors.RecordError):
        return Refused("record")
    except (ValueError, TypeError, ps.errors.PenstockError):
        return Refused("features")


def _is_same(theirs: Any, ours: Any) -> bool:
    # Where TensorFlow knows shapes, it has ValueErrors for what it calls InvalidArgumentError in a graph.
    return theirs == ours or (theirs, ours) == (Refused("features"), Refused("record"))


def difference(case: Case) -> str | None:
    """What the two answer to a case, unless it is the same."""
    ours = _answer(lambda: case.ask(ps.io))
    if case.is_fatal and isinstance(ours, Refused):
        return None
    theirs = _answer(lambda: case.ask(tf.io))
    if _is_same(theirs, ours):
        return None
    if isinstance(ours, Refused) and _is_known(case, theirs):
        return None
    return f"TensorFlow: {theirs}\n  penstock:   {ours}"


def _is_known(case: Case, theirs: Any) -> bool:
    """Whether TensorFlow answers only because it looks at a batch as a whole, where here each record must fit."""
    if case.api == "batch" and any(isinstance(each, tf.io.SparseFeature) for each in case.features.values()):
        alone = [_answer(lambda r=record: tf.io.parse_single_example(r, case.features)) for record in case.records]
        if any(isinstance(answer, Refused) for answer in alone):
            return True
    return _is_same(theirs, _answer(lambda: case.without_validate().ask(ps.io)))


def map_difference(case: Case, folder: Path) -> str | None:
    """The same of a case's records parsed one by one there, and by blocks here."""
    features = case.features
    path = folder / "records"
    with ps.io.TFRecordWriter(path) as writer:
        for record in case.records:
            writer.write(record)
    dataset = ps.TFRecordDataset(path).map(lambda record: ps.io.parse_single_example(record, features))
    run = iter(dataset)
    ours = [_answer(lambda: next(run)) for _ in case.records]
    if case.is_fatal and any(isinstance(answer, Refused) for answer in ours):
        return None
    theirs = [_answer(lambda r=record: tf.io.parse_single_example(r, features)) for record in case.records]
    if next(run, None) is None and all(map(_is_same, theirs, ours)):
        return None
    return f"TensorFlow: {theirs}\n  penstock:   {ours}"


def _ask(first: int, last: int, progress: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number in range(first, last):
            progress.write_text(str(number))
            case = case_of(number)
            for found in (difference(case), map_difference(case, Path(folder)) if case.api == "batch" else None):
                if found:
                    print(f"case {number}, {case.api}\n  {found}", flush=True)


def main(first: int, last: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        progress = Path(folder) / "progress"
        while first < last:
            command = [sys.executable, "-m", __spec__.name, str(first), str(last), str(progress)]
            ended = subprocess.run(command, check=False).returncode
            if ended == 0:
                return
            first = int(progress.read_text()) + 1
            print(f"case {first - 1} ended the process ({ended})", flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 4:
        _ask(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
    else:
        main(int(sys.argv[1]), int(sys.argv[2]))
