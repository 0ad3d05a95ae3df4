"""from_generator: values as they come, or checked against a signature."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import penstock as ps
from penstock.testing import check_op

from ..fakes import all_with_errors

INT = ps.TensorSpec((), np.int64)


class Point(NamedTuple):
    x: Any
    y: Any


def count(n: int = 5) -> Iterator[int]:
    yield from range(n)


def of(*values: Any, **how: Any) -> ps.Dataset:
    return ps.Dataset.from_generator(lambda: iter(values), **how)


def test_values_as_they_come() -> None:
    ds = ps.Dataset.from_generator(count)
    assert list(ds) == list(ds) == [0, 1, 2, 3, 4]
    assert ds.cardinality() == ps.UNKNOWN
    check_op(ds)
    check_op(ds.repeat(2).batch(3))
    assert list(of({"a": "é"}, {"a": b"e"})) == [{"a": "é".encode()}, {"a": b"e"}]


def test_a_signature_gives_spec_and_dtypes() -> None:
    ds = of((1, [2, 3]), (4, [5]), output_signature=(ps.TensorSpec((), np.int8), ps.TensorSpec([None], np.float32)))
    assert ds.element_spec == (ps.TensorSpec((), np.int8), ps.TensorSpec((None,), np.float32))
    first, second = list(ds)
    assert (first[0].dtype, first[1].dtype) == (np.int8, np.float32)
    assert (int(second[0]), second[1].tolist()) == (4, [5.0])


@pytest.mark.parametrize(
    ("bad", "signature"),
    [
        (2.7, INT),
        (b"text", INT),
        (np.arange(2), INT),
        (None, INT),
        ((1, 2), (INT,)),
        (1, (INT,)),
        ({"b": 1}, {"a": INT}),
        ((1, 2), Point(INT, INT)),
        (300, ps.TensorSpec((), np.uint8)),
    ],
)
def test_a_misfit_is_one_error_and_the_generator_goes_on(bad: Any, signature: Any) -> None:
    good = {Point: Point(1, 2), dict: {"a": 1}, tuple: (1,)}.get(type(signature), 1)
    found = all_with_errors(of(good, bad, good, output_signature=signature).run())
    assert [isinstance(x, ps.errors.PlanError) for x in found] == [False, True, False]
    assert str(found[1]).startswith("from_generator at test_generator.py")


def test_arguments_come_as_numpy_values() -> None:
    def given(*args: Any) -> Iterator[Any]:
        yield len(args)
        yield from args

    found = list(ps.Dataset.from_generator(given, args=(3, "é", [1, 2], 0.5)))
    assert [type(x) for x in found] == [np.int64, np.int64, bytes, np.ndarray, np.float64]


def test_an_array_that_is_used_again_is_copied() -> None:
    def reusing() -> Iterator[np.ndarray]:
        buffer = np.zeros(2)
        for i in range(4):
            buffer[:] = i
            yield buffer

    assert [x.tolist() for x in ps.Dataset.from_generator(reusing)] == [[i, i] for i in range(4)]
    assert [x[:, 0].tolist() for x in ps.Dataset.from_generator(reusing).batch(3)] == [[0, 1, 2], [3]]


def raises() -> Iterator[int]:
    yield 0
    yield 1
    raise KeyError("broken")


def test_an_error_ends_a_generator() -> None:
    ds = ps.Dataset.from_generator(raises)
    found = all_with_errors(ds.run())
    assert [type(x) for x in found] == [np.int64, np.int64, KeyError]
    assert "element 2" in found[2].__notes__[0]
    check_op(ds)
    check_op(ds.repeat(2))


def test_another_iterator_may_go_on_after_an_error() -> None:
    class Lines:
        def __init__(self) -> None:
            self.place = 0

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> int:
            self.place += 1
            if self.place == 2:
                raise KeyError("line 2")
            if self.place == 4:
                raise StopIteration
            return self.place

    ds = ps.Dataset.from_generator(Lines)
    assert [type(x) for x in all_with_errors(ds.run())] == [np.int64, KeyError, np.int64]
    check_op(ds)


def test_a_call_that_raises_is_one_error() -> None:
    def broken() -> Any:
        raise KeyError("no file")

    assert [type(x) for x in all_with_errors(ps.Dataset.from_generator(broken).run())] == [KeyError]


def test_not_iterable() -> None:
    with pytest.raises(ps.errors.BadType, match="generator: expected it to return an iterable, got int 3"):
        next(iter(ps.Dataset.from_generator(lambda: 3)))


def test_never_taken_ahead_of_demand_and_closed_with_the_run() -> None:
    log: list[Any] = []

    def noisy() -> Iterator[int]:
        try:
            for i in range(100):
                log.append(i)
                yield i
        finally:
            log.append("closed")

    with ps.Dataset.from_generator(noisy).map(lambda x: x).run() as run:
        for _ in range(5):
            next(run)
        assert log == [0, 1, 2, 3, 4]
    assert log[-1] == "closed"


def test_an_error_while_closing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def stubborn() -> Iterator[int]:
        try:
            yield 1
            yield 2
        finally:
            raise KeyError("on the way out")

    with ps.Dataset.from_generator(stubborn).run() as run:
        next(run)
    assert "closing the generator raised" in caplog.text


def test_types_and_shapes() -> None:
    ds = of((1, [2]), output_types=(np.int64, "float32"), output_shapes=((), [None]))
    assert ds.element_spec == (INT, ps.TensorSpec((None,), np.float32))
    assert of(1, output_types=np.int16).element_spec == ps.TensorSpec(None, np.int16)
    assert of({"a": 1}, output_types={"a": np.int64}).element_spec == {"a": ps.TensorSpec(None, np.int64)}


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"output_signature": np.int64}, "expected a nest of TensorSpec"),
        ({"output_signature": [INT]}, "expected a nest of TensorSpec, got list"),
        ({"output_signature": ()}, "expected at least one TensorSpec"),
        ({"output_signature": INT, "output_types": np.int64}, "got both"),
        ({"output_shapes": ()}, "expected output_types with it"),
        ({"output_types": (np.int64,), "output_shapes": ((), ())}, "expected 1 shapes"),
        ({"output_types": {"a": np.int64}, "output_shapes": {"b": ()}}, "shapes for the keys"),
        ({"output_types": "no such type"}, "expected dtypes and shapes"),
        ({"args": 3}, "args: expected a tuple of arguments, got int 3"),
    ],
)
def test_refused(how: dict[str, Any], text: str) -> None:
    with pytest.raises(ps.errors.PlanError, match=f"from_generator at .*: .*{text}"):
        ps.Dataset.from_generator(count, **how)


def test_not_a_function() -> None:
    with pytest.raises(ps.errors.BadType, match="generator: expected a function that returns an iterable, got list"):
        ps.Dataset.from_generator([1, 2])
