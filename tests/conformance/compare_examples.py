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

__all__ = ["batches", "difference", "map_difference", "pipeline_difference"]

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

import penstock as ps
from tests.conformance.example_cases import Case, case_of
from tests.conformance.examples import normal


class Refused(str):
    """That an answer is an error: "record" or "features", whichever it is about."""


_ABOUT_RECORDS = (
    tf.errors.InvalidArgumentError,
    tf.errors.ResourceExhaustedError,  # in a graph, where a record claims rows without number
    UnicodeDecodeError,  # TensorFlow puts the record into some of its texts, and cannot make a str of it
    ps.errors.RecordError,
)


def _answer(ask: Any) -> Any:
    try:
        return normal(ask())
    except _ABOUT_RECORDS:
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
    return f"TensorFlow: {theirs}\n  penstock:   {ours}"


# A run begins with blocks of one record: those of a case come more than once, so that some are in larger ones.
_NUM_TIMES = 4


def _file_of(case: Case, folder: Path) -> Path:
    path = folder / "records"
    with ps.io.TFRecordWriter(path) as writer:
        for record in case.records * _NUM_TIMES:
            writer.write(record)
    return path


def map_difference(case: Case, folder: Path) -> str | None:
    """The same of a case's records parsed one by one there, and by blocks here."""
    features = case.features
    dataset = ps.TFRecordDataset(_file_of(case, folder))
    run = iter(dataset.map(lambda record: ps.io.parse_single_example(record, features)))
    ours = [_answer(lambda: next(run)) for _ in case.records * _NUM_TIMES]
    if case.is_fatal and any(isinstance(answer, Refused) for answer in ours):
        return None
    theirs = [_answer(lambda r=record: tf.io.parse_single_example(r, features)) for record in case.records]
    if next(run, None) is None and all(map(_is_same, theirs * _NUM_TIMES, ours)):
        return None
    return f"TensorFlow: {theirs}\n  penstock:   {ours}"


def batches(data: Any, io: Any, path: Path, features: dict[str, Any]) -> list[Any]:
    """The answers of a pipeline of tf.data or penstock that parses records one by one, then makes batches of them."""
    dataset = data.TFRecordDataset(str(path)).map(lambda record: io.parse_single_example(record, features)).batch(2)
    if data is tf.data:
        options = tf.data.Options()
        options.experimental_optimization.map_and_batch_fusion = False  # lest an error cost more than its own record
        dataset = dataset.with_options(options)
    run, answers = iter(dataset), []
    try:
        while True:
            answers.append(_answer(lambda: next(run)))
    except StopIteration:
        return answers


def pipeline_difference(case: Case, folder: Path) -> str | None:
    """The same of batches of a case's records, each of which is parsed alone."""
    if isinstance(_answer(lambda: ps.io.parse_example([], case.features)), Refused):
        return None
    path = _file_of(case, folder)
    ours = batches(ps, ps.io, path, case.features)
    if any(isinstance(answer, Refused) for answer in ours) and (case.is_fatal or case.is_looser_in_graphs):
        return None
    theirs = batches(tf.data, tf.io, path, case.features)
    # Arrays that cannot be stacked are no fault of a record here.
    refusals = [[isinstance(answer, Refused) or answer for answer in answers] for answers in (theirs, ours)]
    return None if refusals[0] == refusals[1] else f"tf.data:  {theirs}\n  penstock: {ours}"


def _ask(first: int, last: int, progress: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number in range(first, last):
            progress.write_text(str(number))
            case = case_of(number)
            found = [difference(case)]
            if case.api == "batch":
                found += [map_difference(case, Path(folder)), pipeline_difference(case, Path(folder))]
            for text in filter(None, found):
                print(f"case {number}, {case.api}\n  {text}", flush=True)


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
