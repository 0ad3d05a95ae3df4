"""What errors carry is not kept while they wait, and what is left of them is counted."""

import dataclasses
import functools
import json
import sys
import traceback
import tracemalloc
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from penstock.block import Block
from penstock.element import Failed, nbytes_of
from penstock.memory.singly import failures_in, objects_bytes, objects_of_block

LARGE = 1_000_000


class Carrying(Exception):
    """Has whatever it is given as an attribute."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args)
        self.__dict__.update(fields)


def failed(function: Callable[[], Any]) -> Any:
    """The error of a function, after it has waited."""
    try:
        function()
    except Exception as error:
        return Failed(error)
    raise AssertionError("expected an error")


def raising(error: BaseException) -> Callable[[], None]:
    def function() -> None:
        raise error

    return function


def test_a_string_that_could_not_be_decoded() -> None:
    made = failed(lambda: (b"x" * LARGE + b"\xff").decode())
    error = made.error
    assert type(error) is UnicodeDecodeError
    assert "'utf-8' codec can't decode" in str(error)
    assert f"in position {LARGE}" in str(error)
    assert error.start == LARGE
    assert error.object.startswith(b"xxx")
    assert error.object.endswith(b"(999,801 bytes more, not kept while the error waited)")
    assert error.args[1] is error.object
    assert any("0xff" in note for note in error.__notes__)  # which the text looks up in what is gone
    assert made.error_bytes < 4000


def test_its_text_does_not_show_what_was_put_there() -> None:
    error = failed(lambda: (b"x" * 230 + b"\xff" + b"y" * LARGE).decode()).error
    assert str(error) == "'utf-8' codec can't decode byte 0xff in position 230: invalid start byte"
    assert not hasattr(error, "__notes__")
    error = failed(lambda: ("ä" * 250 + "x" * LARGE).encode("ascii")).error
    assert isinstance(error.object, str)
    assert "in position 0-249" in str(error)


def test_a_document_that_is_no_json() -> None:
    made = failed(lambda: json.loads('{"a": "' + "x" * LARGE))
    assert type(made.error) is json.JSONDecodeError
    assert str(made.error) == "Unterminated string starting at: line 1 column 7 (char 6)"
    assert made.error.doc.startswith('{"a": "xxx')
    assert len(made.error.doc) < 400
    assert made.error_bytes < 4000


def large(kind: str) -> Any:
    return {
        "bytes": b"x" * LARGE,
        "bytearray": bytearray(LARGE),
        "str": "x" * LARGE,
        "array": np.zeros((1000, 1000), np.float32),
        "memoryview": memoryview(bytes(LARGE)),
        "strings": np.array([b"x" * LARGE], dtype=object),
        "list": list(range(LARGE)),
        "set": set(range(10_000)),
        "small parts": [b"x" * 3000 for _ in range(100)],
        "part": [1, "two", np.zeros(LARGE)],
        "parts of parts": {"a": {"b": (1, np.zeros(LARGE))}},
    }[kind]


KINDS = ["bytes", "bytearray", "str", "array", "memoryview", "strings", "list", "set"]
KINDS += ["small parts", "part", "parts of parts"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_large_is_taken_out(kind: str) -> None:
    for error in (Carrying("bad", large(kind)), Carrying("bad", data=large(kind)), StopIteration(large(kind))):
        made = failed(raising(error))
        assert made.error_bytes < 9000
        assert sum(map(sys.getsizeof, [*error.args, *vars(error).values()])) < 9000
        assert "not kept while the error waited" in f"{error.args!r} {vars(error)!r}"


@pytest.mark.parametrize("kind", ["bytes", "bytearray", "str", "part", "parts of parts"])
def test_what_stands_in_is_of_the_same_kind(kind: str) -> None:
    given = large(kind)
    error = failed(raising(Carrying("bad", given))).error
    assert error.args[0] == "bad"
    assert type(error.args[1]) is type(given)


class Holder:
    def __init__(self, data: Any) -> None:
        self.data = data

    def method(self) -> None: ...

    def __getattr__(self, name: str) -> Any:
        raise AssertionError("nothing of the user's is called")


class Slots:
    __slots__ = ("data",)

    def __init__(self, data: Any) -> None:
        self.data = data


@dataclasses.dataclass
class Sample:
    data: Any


def begun(data: Any) -> Any:
    generator = (part for part in [data, data])
    next(generator)
    return generator


THROUGH: dict[str, Callable[[Any], Any]] = {
    "an instance": Holder,
    "slots": Slots,
    "a dataclass": Sample,
    "a closure": lambda data: lambda: data,
    "a default": lambda data: lambda x=data: x,
    "a partial": lambda data: functools.partial(print, data),
    "a method": lambda data: Holder(data).method,
    "a method of an array": lambda data: data.sum,
    "a generator": lambda data: (part for part in [data]),
    "a generator that has begun": begun,
    "a queue": lambda data: deque([data]),
    "one in the other": lambda data: Holder(Slots({"a": [Holder(data)]})),
    "a view": lambda data: Holder(data[:2]),
    "an array of objects": lambda data: Holder(np.array([data, None], dtype=object)),
    "deep containers": lambda data: {"a": {"b": {"c": {"d": {"e": data}}}}},
}


@pytest.mark.parametrize("through", THROUGH)
def test_what_is_large_behind_an_object_is_taken_out(through: str) -> None:
    for field in (False, True):
        data = np.zeros(LARGE)
        alive = weakref.ref(data)
        held = THROUGH[through](data)
        error = Carrying("bad", data=held) if field else Carrying("bad", held)
        del held, data
        made = failed(raising(error))
        assert alive() is None
        assert made.error_bytes < 9000
        assert "not kept while the error waited" in f"{error.args!r} {vars(error)!r}"
        assert error.args[0] == "bad"


def test_objects_that_others_refer_to_stay_as_they_are() -> None:
    reader = Holder(np.zeros(LARGE))
    held = [reader, reader.method, functools.partial(reader.method), lambda: reader]
    error = failed(raising(Carrying("bad", *held, reader=reader))).error
    assert error.args[1:] == tuple(held)
    assert error.reader is reader


def test_small_objects_stay_as_they_are_and_are_counted() -> None:
    small = failed(raising(Carrying("bad", Holder(b"")))).error_bytes
    made = failed(raising(Carrying("bad", Holder(b"x" * 2000))))
    assert made.error.args[1].data == b"x" * 2000
    assert 2000 <= made.error_bytes - small < 2200


def test_classes_modules_and_names_of_functions_are_not_followed() -> None:
    error = failed(raising(Carrying("bad", Holder(sys), Holder(Carrying), test_an_array_is_described))).error
    assert [type(value) for value in error.args[1:3]] == [Holder, Holder]
    assert error.args[3] is test_an_array_is_described


def test_an_array_is_described() -> None:
    error = failed(raising(Carrying(large("array")))).error
    assert error.args == ("<float32 array of shape (1000, 1000), 4,000,000 bytes: not kept while the error waited>",)


def test_what_is_the_users_own_is_not_changed() -> None:
    kept = [1, np.zeros(LARGE)]
    error = failed(raising(Carrying("bad", kept))).error
    assert error.args[1][0] == 1
    assert isinstance(kept[1], np.ndarray)


def test_a_small_view_of_something_large_becomes_a_copy() -> None:
    rows = np.arange(100_000).reshape(1000, 100)
    error = failed(raising(Carrying("bad", rows[3]))).error
    assert error.args[1].base is None
    assert (error.args[1] == rows[3]).all()


def test_what_is_small_stays_as_it_is() -> None:
    array, text, nest = np.arange(10), "text" * 100, {"a": [1, 2]}
    error = Carrying(array, text, data=nest)
    error.add_note("a note")
    args, notes = error.args, error.__notes__
    assert failed(raising(error)).error is error
    assert error.args is args
    assert error.args[0] is array
    assert error.args[1] is text
    assert error.data is nest  # type: ignore[attr-defined]
    assert error.__notes__ is notes


def test_errors_that_an_error_refers_to() -> None:
    def chained() -> None:
        try:
            raise Carrying("cause", large("array"))
        except Carrying as error:
            raise Carrying("bad", large("str")) from error

    def grouped() -> None:
        raise ExceptionGroup("group", [Carrying(large("bytes")), Carrying(data=large("array"))])

    def given() -> None:
        raise Carrying("bad", Carrying(large("array")))

    for function in (chained, grouped, given):
        made = failed(function)
        assert made.error_bytes < 6000
        assert "not kept" in "".join(traceback.format_exception(made.error)) or function is given
    assert "not kept" in failed(chained).error.__cause__.args[1]
    assert all(
        "not kept" in f"{one.args!r}{vars(one)!r}"
        for one in (*failed(grouped).error.exceptions, failed(given).error.args[1])
    )


def test_the_object_that_lacks_an_attribute() -> None:
    class Image:
        def __init__(self) -> None:
            self.pixels = np.zeros(LARGE)

    error = failed(lambda: np.zeros(LARGE).no_such).error  # type: ignore[attr-defined]
    assert error.obj is np.ndarray
    assert failed(lambda: Image().no_such).error.obj is Image  # type: ignore[attr-defined]
    assert failed(lambda: "text".no_such).error.obj == "text"  # type: ignore[attr-defined]


def test_long_notes_stay_notes() -> None:
    error = Carrying("bad")
    for _ in range(100):
        error.add_note("x" * LARGE)
    error = failed(raising(error)).error
    assert isinstance(error.__notes__, list)
    assert all("not kept" in note for note in error.__notes__)
    assert sum(map(len, error.__notes__)) < 10_000


class Slotted(Exception):
    __slots__ = ("data", "unset")


class Closed(Exception):
    """Lets nobody look at it, or change it."""

    @property
    def args(self) -> Any:  # type: ignore[override]
        raise RuntimeError("no")

    def __str__(self) -> str:
        raise RuntimeError("no")

    def __setattr__(self, name: str, value: Any) -> None:
        raise RuntimeError("no")


class Awkward:
    """Has a size that cannot be asked for."""

    @property
    def nbytes(self) -> int:
        raise RuntimeError("no")

    def __sizeof__(self) -> int:
        raise RuntimeError("no")


class AwkwardDict(dict[str, int]):
    def values(self) -> Any:
        raise RuntimeError("no")


def test_odd_errors() -> None:
    slotted = Slotted()
    slotted.data = large("array")
    assert failed(raising(slotted)).error is slotted
    assert "not kept" in slotted.data
    closed = Closed(large("array"))
    assert failed(raising(closed)).error_bytes < 4000
    odd = Carrying(Awkward(), AwkwardDict(a=1), data=Awkward())
    assert failed(raising(odd)).error_bytes < 4000
    ring: list[Any] = []
    ring.append(ring)
    assert failed(raising(Carrying(ring))).error.args[0] is ring


def test_it_counts_about_what_it_takes() -> None:
    def make(i: int) -> Failed:
        def fail(depth: int) -> None:
            if depth:
                fail(depth - 1)
            raise ValueError(f"no label for {i}")

        try:
            fail(4)
        except ValueError as error:
            error.add_note(f"in map(fail) at somewhere, element {i}")
            return Failed(error)
        raise AssertionError

    make(0)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = [make(i) for i in range(1000)]
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    counted = sum(one.error_bytes for one in kept)
    assert 0.9 * taken < counted < 1.5 * taken
    assert taken < 2_000_000


def test_a_failure_is_all_object_and_no_data() -> None:
    error = Failed(ValueError("x"))
    assert nbytes_of(error) == 0
    assert objects_bytes(error) > error.error_bytes > 100
    block = Block.of_rows([error, np.zeros(3), error])
    assert failures_in(block) == 2 * error.error_bytes
    assert objects_of_block(block) == objects_bytes(np.zeros(3))
    assert failures_in(Block.of_rows([np.zeros(3)])) == 0
