"""map_fn: results, order, nests, `out`, errors and the account of what calls take."""

import collections
import importlib
import io
import os
import re
import signal
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.errors import BadArgument, BadType, ElementTooLarge, OverBudget, SpecMismatch
from penstock.mapping import results as results_module
from penstock.runtime import progress as progress_module

MB = 1_000_000
ROWS = np.arange(3000, dtype=np.float32).reshape(-1, 3)


def repeat_and_sum(x: Any) -> Any:
    return np.repeat(x, 10_000).sum()


@pytest.mark.parametrize("num_parallel_calls", [None, 1, 4, ps.AUTOTUNE])
def test_results_are_those_of_a_plain_loop(num_parallel_calls: int | None) -> None:
    elems = np.arange(500)
    found = ps.map_fn(repeat_and_sum, elems, "8MB", num_parallel_calls=num_parallel_calls)
    expected = np.array([repeat_and_sum(x) for x in elems])
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("fn", [
    lambda x: x[:2],
    lambda x: np.outer(x, x),
    lambda x: x.astype(np.int16),
    lambda x: float(x[0]),
    lambda x: x[0] > 7,
    lambda x: np.float64(x.sum()) + 1j,
    lambda x: str(int(x[0])),
    lambda x: np.empty((0, 2)),
])  # fmt: skip
def test_dtype_and_shape_are_what_fn_returns(fn: Any) -> None:
    found = ps.map_fn(fn, ROWS)
    expected = [fn(row) for row in ROWS]
    if isinstance(expected[0], str):
        assert found.tolist() == [text.encode() for text in expected]
        return
    assert found.dtype == np.stack(expected).dtype
    np.testing.assert_array_equal(found, np.stack(expected))


Point = collections.namedtuple("Point", "x y")


def test_a_nest_is_one_argument_and_results_keep_theirs() -> None:
    a, b = np.arange(40), np.arange(40.0) / 2
    total, kept = ps.map_fn(lambda pair: (pair[0] + pair[1], {"a": pair[0]}), (a, b))
    np.testing.assert_array_equal(total, a + b)
    np.testing.assert_array_equal(kept["a"], a)
    assert ps.map_fn(lambda one: type(one) is tuple and len(one) == 1, (a,)).all()
    assert ps.map_fn(lambda point: isinstance(point, Point), Point(a, b)).all()
    np.testing.assert_array_equal(ps.map_fn(lambda d: d["a"] * d["b"], {"a": a, "b": b}), a * b)
    assert ps.map_fn(lambda pair: type(pair) is list, [a, b]).all()
    assert ps.map_fn(lambda x: x * 2, [1, 2, 3]).tolist() == [2, 4, 6]


def test_a_list_that_fn_returns_is_a_list_of_results_as_in_tf_map_fn() -> None:
    found = ps.map_fn(lambda x: [x, x * 0.5], np.arange(5))
    assert type(found) is list
    assert [part.dtype for part in found] == [np.int64, np.float64]


def test_nests_as_tf_map_fn_passes_them() -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    tf = importlib.import_module("tensorflow")
    a, b = np.arange(6), np.arange(6.0)
    for elems, fn in [
        ((a, b), lambda nest: (nest[1], nest[0])),
        ([a, b], lambda nest: [nest[0], nest[1]]),
        ({"a": a, "b": b}, lambda nest: {"a": nest["a"], "b": nest["b"]}),
    ]:
        ours = ps.map_fn(fn, elems)
        specs = tf.nest.map_structure(lambda array: tf.as_dtype(array.dtype), ours)
        theirs = tf.map_fn(fn, elems, fn_output_signature=specs)
        tf.nest.assert_same_structure(theirs, ours)
        for mine, other in zip(tf.nest.flatten(ours), tf.nest.flatten(theirs), strict=True):
            np.testing.assert_array_equal(mine, other.numpy())
    empty = np.zeros((0, 3), np.int32)
    theirs = tf.map_fn(lambda x: x, empty)
    ours = ps.map_fn(lambda x: x, empty)
    assert (ours.shape, ours.dtype) == (tuple(theirs.shape), theirs.dtype.as_numpy_dtype)


def test_nothing_in_nothing_out() -> None:
    def never(x: Any) -> Any:
        raise AssertionError

    assert ps.map_fn(never, np.zeros((0, 4))).shape == (0,)
    assert [part.dtype for part in ps.map_fn(never, (np.zeros(0, np.int8), np.zeros(0)))] == [np.int8, np.float64]
    assert len(ps.map_fn(never, ps.Dataset.range(5).map(lambda x: x).take(0))) == 0
    out = np.empty((0, 7))
    assert ps.map_fn(never, np.zeros((0, 4)), out=out, jit=True) is out


def test_datasets_with_and_without_a_length() -> None:
    numbers = ps.Dataset.range(5000)
    np.testing.assert_array_equal(ps.map_fn(lambda x: x * 2, numbers), np.arange(5000) * 2)
    even = numbers.filter(lambda x: x % 2 == 0)
    np.testing.assert_array_equal(ps.map_fn(lambda x: np.array([x, -x]), even)[:, 1], -np.arange(0, 5000, 2))
    pairs = ps.Dataset.zip(numbers, even.repeat()).map(lambda x, y: (x, y))
    np.testing.assert_array_equal(ps.map_fn(lambda pair: pair[0], pairs), np.arange(5000))
    with pytest.raises(BadArgument, match=r"map_fn at .*infinite dataset; use take"):
        ps.map_fn(lambda x: x, numbers.repeat())


def test_a_run_is_an_epoch_of_the_dataset() -> None:
    shuffled = ps.Dataset.range(100).shuffle(seed=3)
    expected = [list(shuffled.run(epoch=epoch)) for epoch in (0, 1)]
    shuffled = ps.Dataset.range(100).shuffle(seed=3)
    assert [ps.map_fn(lambda x: x, shuffled, jit=jit).tolist() for jit in (True, False)] == expected


# --- out ---


def test_out_is_filled_and_returned(tmp_path: Path) -> None:
    out = np.lib.format.open_memmap(tmp_path / "out.npy", "w+", np.float64, (1000, 3))
    found = ps.map_fn(lambda row: row.astype(np.float64) * 2, ROWS, out=out)
    assert found is out
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), ROWS * 2.0)


def test_out_may_be_a_nest_and_is_found_by_name() -> None:
    out = {"b": np.empty(10), "a": np.empty(10, np.int64)}
    assert ps.map_fn(lambda x: {"a": x, "b": x / 2}, np.arange(10), out=out) is out
    assert (out["a"].tolist(), out["b"].tolist()) == (list(range(10)), [x / 2 for x in range(10)])


@pytest.mark.parametrize("num_parallel_calls", [None, 3, ps.AUTOTUNE])
@pytest.mark.parametrize("size", [10, 2_000, 50_000])
def test_results_may_be_many_times_the_budget(num_parallel_calls: int | None, size: int) -> None:
    out = np.empty((16 * MB // (4 * size), size), np.float32)
    ps.map_fn(
        lambda x: np.full(size, x, np.float32), np.arange(len(out)), "2MB", out, num_parallel_calls=num_parallel_calls
    )
    np.testing.assert_array_equal(out[:, [0, -1]], np.arange(len(out), dtype=np.float32)[:, None].repeat(2, 1))


@pytest.mark.parametrize("out, error, text", [
    (np.empty(9, np.int64), SpecMismatch, r"map_fn at test_map_fn.*: out: expected a first dimension of 10, .*\(9,\)"),
    (np.empty(10), SpecMismatch, r"expected an array of shape \(10,\) and dtype int64, got shape \(10,\) and dtype fl"),
    (np.empty((10, 2), np.int64), SpecMismatch, r"got shape \(10, 2\)"),
    ((np.empty(10, np.int64),), SpecMismatch, r"a nest like what fn returns"),
    (np.int64(3), BadType, "out: expected an array"),
    ("file.npy", BadType, "out: expected an array"),
    (np.broadcast_to(np.int64(1), 10), BadArgument, "read-only"),
    (np.array(1), SpecMismatch, "first dimension"),
])  # fmt: skip
def test_an_out_that_does_not_fit_is_refused(out: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        ps.map_fn(lambda x: x, np.arange(10), out=out)


@pytest.mark.parametrize("num_parallel_calls", [None, 3])
def test_out_may_be_elems_itself_or_lie_within_its_rows(num_parallel_calls: int | None) -> None:
    kwargs: dict[str, Any] = {"num_parallel_calls": num_parallel_calls}
    numbers = np.arange(3000)
    assert ps.map_fn(lambda x: x * 2, numbers, out=numbers, **kwargs) is numbers
    assert numbers.tolist() == list(range(0, 6000, 2))
    pairs = np.arange(6000).reshape(3000, 2)
    ps.map_fn(lambda pair: pair.sum(), pairs, out=pairs[:, 1], **kwargs)
    assert pairs[:, 1].tolist() == [4 * i + 1 for i in range(3000)]
    ps.map_fn(lambda x: -x, pairs[::-1, 0], out=pairs[::-1, 1], **kwargs)
    assert pairs[:, 1].tolist() == [-2 * i for i in range(3000)]
    ps.map_fn(lambda x: x + 1, numbers[:1000], out=numbers[1000:2000], **kwargs)
    assert numbers[1000:2000].tolist() == [2 * i + 1 for i in range(1000)]


@pytest.mark.parametrize("elems, out", [
    (lambda a: a[:-1], lambda a: a[1:]),
    (lambda a: a[1:], lambda a: a[:-1]),
    (lambda a: a, lambda a: a[::-1]),
    (lambda a: a[:50], lambda a: a[::2]),
    (lambda a: (np.arange(99), a[1:]), lambda a: a[:-1]),
    (lambda a: ps.Dataset.from_tensor_slices(a[:99]), lambda a: a[1:]),
    (lambda a: ps.Dataset.from_tensor_slices(a).shuffle(), lambda a: a),  # each result to another element's place
])  # fmt: skip
def test_an_out_in_which_elements_lie_that_are_not_read_yet_is_refused(elems: Any, out: Any) -> None:
    numbers = np.arange(100)
    with pytest.raises(
        BadArgument, match=r"map_fn at test_map_fn.*: out: lies in the memory of elems in another place"
    ):
        ps.map_fn(lambda x: x * 2 if not isinstance(x, tuple) else x[1], elems(numbers), out=out(numbers))
    assert numbers.tolist() == list(range(100))


def test_results_that_would_overwrite_each_other_are_refused() -> None:
    both = np.zeros((10, 2), np.int64)
    ps.map_fn(lambda x: (x, -x), np.arange(10), out=(both[:, 0], both[:, 1]))
    assert both.sum() == 0
    for out in ([np.empty(10, np.int64)] * 2, (both[:, 0], both.ravel()[:10])):
        with pytest.raises(BadArgument, match="out: two of its arrays share memory"):
            ps.map_fn(lambda x: (x, -x), np.arange(10), out=out)


@pytest.mark.parametrize("rows, text", [(49, "room for 49"), (51, "dimension of 50, got 51")])
def test_out_of_a_dataset_without_a_length(rows: int, text: str) -> None:
    even = ps.Dataset.range(100).filter(lambda x: x % 2 == 0)
    assert ps.map_fn(lambda x: x, even, out=np.empty(50, np.int64))[-1] == 98
    with pytest.raises(SpecMismatch, match=text):
        ps.map_fn(lambda x: x, even, out=np.empty(rows, np.int64))


def test_a_result_that_cannot_be_held_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results_module, "available_bytes", lambda: 100_000)
    calls = []
    with pytest.raises(OverBudget, match=r"1,000 results of 800 B take 800 kB.* may use 100 kB: give a file"):
        ps.map_fn(lambda row: calls.append(1) or np.zeros(100), ROWS)
    assert len(calls) == 1
    out = np.empty((1000, 100))
    assert ps.map_fn(lambda row: np.zeros(100), ROWS, out=out) is out


# --- errors ---


@pytest.mark.parametrize("num_parallel_calls", [None, 2, ps.AUTOTUNE])
def test_an_error_passes_through_with_its_place(num_parallel_calls: int | None) -> None:
    def fails(x: Any) -> Any:
        if x == 700:
            raise KeyError("seven hundred")
        return x

    out = np.full(1000, -1)
    with pytest.raises(KeyError, match="seven hundred") as caught:
        ps.map_fn(fails, np.arange(1000), out=out, num_parallel_calls=num_parallel_calls)
    (note,) = caught.value.__notes__
    assert re.fullmatch(r"in map_fn\(.*fails\) at test_map_fn\.py:\d+, element 700", note)
    assert caught.traceback[-1].name == "fails"
    assert out[:700].tolist() == list(range(700))
    assert (out[700:] == -1).all()


def test_stop_iteration_does_not_end_a_loop_of_the_callers() -> None:
    def stops(x: Any) -> Any:
        raise StopIteration

    with pytest.raises(RuntimeError, match="fn raised StopIteration") as caught:
        ps.map_fn(stops, np.arange(3))
    assert re.search(r"in map_fn\(stops\) at test_map_fn.py:\d+, element 0", caught.value.__notes__[0])
    with pytest.raises(RuntimeError, match="a function raised StopIteration") as caught:
        list(ps.Dataset.range(3).map(stops))
    assert re.search(r"in map\(stops\) at test_map_fn.py:\d+, element 0", caught.value.__notes__[0])


def test_an_interruption_leaves_what_was_written() -> None:
    def interrupted(x: Any) -> Any:
        if x == 500:
            signal.raise_signal(signal.SIGINT)
        return x

    out = np.full(1000, -1)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # frameworks install handlers of their own
    try:
        with pytest.raises(KeyboardInterrupt):
            ps.map_fn(interrupted, np.arange(1000), out=out, num_parallel_calls=None)
    finally:
        signal.signal(signal.SIGINT, before)
    written = int((out >= 0).sum())
    assert 0 < written <= 500
    assert out[:written].tolist() == list(range(written))


@pytest.mark.parametrize("fn, text", [
    (lambda x: np.zeros(x % 4), "returned 1 float64 for element 1, and 0 float64 for the first"),
    (lambda x: x if x < 2500 else float(x), "returned float64 for element 2,500, and int64 for the first"),
    (lambda x: (x, x) if x < 20 else x, "for element 20"),
    (lambda x: np.zeros(100_000 + (x == 7)), "100001 float64 for element 7"),
])  # fmt: skip
def test_results_that_cannot_be_stacked(fn: Any, text: str) -> None:
    with pytest.raises(SpecMismatch, match=text):
        ps.map_fn(fn, np.arange(3000), memory="16MB")


@pytest.mark.parametrize("kwargs, error", [
    ({"jit": "fortran"}, BadArgument),
    ({"jit": 1}, BadType),
    ({"memory": "much"}, BadArgument),
    ({"num_parallel_calls": 0}, BadArgument),
    ({"num_parallel_calls": 0, "jit": True}, BadArgument),
    ({"num_parallel_calls": 2.5, "jit": True}, BadType),
    ({"progress": 1}, BadType),
])  # fmt: skip
def test_arguments_that_mean_nothing(kwargs: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="map_fn at test_map_fn"):
        ps.map_fn(lambda x: x, np.arange(3), **kwargs)
    with pytest.raises(BadType, match="fn: expected a function"):
        ps.map_fn(3, np.arange(3))  # type: ignore[arg-type]


def test_ragged_results_are_refused() -> None:
    with pytest.raises(BadType, match="fn must return arrays"):
        ps.map_fn(lambda x: ps.Ragged(np.arange(3), np.array([0, 1, 3])), np.arange(3))


# --- what calls take ---


def test_a_call_that_does_not_fit_is_refused_with_a_number_that_is_enough() -> None:
    with pytest.raises(ElementTooLarge, match=r"a call of fn takes .* beside its result.*use memory=[0-9_]+") as caught:
        ps.map_fn(lambda x: np.repeat(x, MB).sum(), np.arange(3), memory="4MB")
    enough = int(str(caught.value).split("memory=")[1].split()[0])
    assert 8 * MB < enough < 13 * MB
    assert ps.map_fn(lambda x: np.repeat(x, MB).sum(), np.arange(3), memory=enough).tolist() == [0, MB, 2 * MB]


def test_a_later_call_that_takes_more_is_seen() -> None:
    with pytest.raises(ElementTooLarge, match="a call of fn takes"):
        ps.map_fn(lambda x: np.zeros(10 if x < 50 else MB).sum(), np.arange(2000), "4MB", num_parallel_calls=None)


@pytest.mark.parametrize("num_parallel_calls", [None, 1, 4, ps.AUTOTUNE])
def test_calls_that_take_more_and_more_are_seen_in_any_thread(num_parallel_calls: int | None) -> None:
    with pytest.raises(ElementTooLarge, match="a call of fn takes"):
        ps.map_fn(lambda x: np.zeros(x * 1000).sum(), np.arange(2000), "4MB", num_parallel_calls=num_parallel_calls)


def test_a_result_that_does_not_fit_is_what_is_told_with_a_number_that_is_enough() -> None:
    with pytest.raises(
        ElementTooLarge, match=r"a call of fn returns 8 MB, .*budget of 8 MB; .*memmap as `out`"
    ) as caught:
        ps.map_fn(lambda x: np.zeros(MB), np.arange(5), memory="8MB")
    enough = int(str(caught.value).split("memory=")[1].split()[0])
    assert enough < 14 * MB
    assert ps.map_fn(lambda x: np.zeros(MB), np.arange(5), memory=enough).shape == (5, MB)


def test_no_more_calls_at_a_time_than_there_is_room_for() -> None:
    lock = threading.Lock()
    running, most = 0, 0

    def large(x: Any) -> Any:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        total = np.repeat(x, 500_000).sum()
        with lock:
            running -= 1
        return total

    told: list[str] = []
    found = ps.map_fn(large, np.arange(60.0), memory="10MB", num_parallel_calls=8, report=told.append)
    np.testing.assert_array_equal(found, np.arange(60.0) * 500_000)
    assert most == 1
    (line,) = told
    assert re.fullmatch(
        "map_fn: fn as it is, in 8 threads; a call takes 4 MB beside its result, at most, by [0-9]+ that were measured"
        "; jit=True would try to compile it",
        line,
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("wanted", [True, False])
def test_a_progress_bar_shows_on_a_terminal_unless_it_is_off(wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(progress_module, "sys", SimpleNamespace(stderr=terminal))
    monkeypatch.setattr(progress_module, "_SHOW_AFTER_S", 0.0)
    monkeypatch.setattr(progress_module, "_REFRESH_S", 0.0)
    ps.map_fn(lambda x: x, np.arange(100), progress=wanted)
    assert ("map_fn" in terminal.getvalue() and "100/100" in terminal.getvalue()) == wanted
    assert wanted or terminal.getvalue() == ""


def test_no_progress_bar_shows_where_options_of_the_dataset_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(progress_module, "sys", SimpleNamespace(stderr=terminal))
    monkeypatch.setattr(progress_module, "_SHOW_AFTER_S", 0.0)
    ps.map_fn(lambda x: x, ps.Dataset.range(100).with_options(ps.Options(progress=False)))
    assert terminal.getvalue() == ""


def test_how_the_work_was_done_goes_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "penstock.map_fn"):
        ps.map_fn(lambda x: x, np.arange(100), num_parallel_calls=None)
    assert "map_fn: fn as it is, in the caller's thread" in caplog.text


@pytest.mark.parametrize("elems, why", [
    (5, "expected arrays with a first axis to slice, got a scalar: 5"),
    ({}, "expected at least one array"),
    ((np.zeros(2), np.zeros(3)), "expected arrays with equal first dimensions"),
])  # fmt: skip
def test_elems_that_cannot_be_gone_through_are_named(elems: Any, why: str) -> None:
    with pytest.raises(ps.errors.PlanError, match=f"map_fn at test_map_fn.py:.*: elems: {why}"):
        ps.map_fn(lambda x: x, elems)
