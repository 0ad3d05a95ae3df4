"""Errors: the tree is the one that is drawn, and every text says operator, line and numbers."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock import errors
from penstock.plan.node import Origin, located

D = ps.Dataset


def drawn_tree() -> dict[str, tuple[str | None, set[str]]]:
    """Name → (parent, builtin classes) as the docstring of `errors` draws it."""
    found: dict[str, tuple[str | None, set[str]]] = {}
    parents: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"    ([│├└─\s]*)(\w+)(.*)", line)
        if match is None or match[2] not in errors.__all__:
            continue
        depth = len(match[1]) // 4
        parents[depth:] = [match[2]]
        also = re.search(r"\(also ([\w, ]+)\)", match[3])
        found[match[2]] = (parents[depth - 1] if depth else None, set(also[1].split(", ")) if also else set())
    return found


def test_the_tree_is_as_drawn() -> None:
    tree = drawn_tree()
    assert set(tree) == set(errors.__all__)
    for name, (parent, also) in tree.items():
        bases = getattr(errors, name).__bases__
        builtins = {base.__name__ for base in bases if base.__module__ == "builtins"} - {"Exception"}
        assert [base.__name__ for base in bases if base.__module__ != "builtins"] == ([parent] if parent else [])
        assert builtins >= also, name


def test_every_error_can_be_caught_as_one() -> None:
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), ps.errors.PenstockError)


def test_the_place_is_told_once() -> None:
    error = located(errors.BadArgument("count: expected 1"), "take", Origin("/home/me/train.py", 7))
    assert str(error) == "take at train.py:7: count: expected 1"
    assert str(located(error, "map", Origin("other.py", 1))) == "take at train.py:7: count: expected 1"


MISTAKES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "batch_size 0": (lambda: D.range(3).batch(0), ValueError, "batch .* batch_size: expected at least 1, got 0"),
    "batch_size text": (lambda: D.range(3).batch("a"), TypeError, "batch .* expected an integer, got str 'a'"),
    "take float": (lambda: D.range(3).take(1.5), TypeError, "take .* count: expected an integer, got float 1.5"),
    "take bool": (lambda: D.range(3).take(True), TypeError, "take .* got bool True"),
    "shard": (lambda: D.range(3).shard(2, 2), ValueError, "shard .* index: expected less than num_shards = 2, got 2"),
    "shuffle": (lambda: D.range(3).shuffle(0), ValueError, "shuffle .* buffer_size: expected at least 1.* got 0"),
    "shuffle infinite": (lambda: D.counter().shuffle(), ValueError, "shuffle .* infinite .* buffer_size"),
    "map": (lambda: D.range(3).map(3), TypeError, "map .* map_func: expected a function, got int 3"),
    "parallel": (lambda: D.range(3).map(abs, 0), ValueError, "map .* num_parallel_calls: expected at least 1, got 0"),
    "prefetch": (lambda: D.range(3).prefetch(-2), ValueError, "prefetch .* got -2"),
    "range": (lambda: D.range(), ValueError, "range .* expected 1 to 3 numbers .* got 0"),
    "range step": (lambda: D.range(1, 2, 0), ValueError, "range .* step"),
    "slices": (
        lambda: D.from_tensor_slices((np.zeros(2), np.zeros(3))),
        ValueError,
        "from_tensor_slices .* equal first dimensions, got .*2, 3",
    ),
    "scalar": (lambda: D.from_tensor_slices(np.float32(1)), ValueError, "from_tensor_slices .* got a scalar"),
    "nothing": (lambda: D.from_tensor_slices(()), TypeError, "from_tensor_slices .* at least one array"),
    "missing argument": (lambda: D.range(3).batch(), TypeError, "batch at .* missing .* 'batch_size'"),
    "unknown argument": (lambda: D.range(3).batch(2, size=3), TypeError, "batch at .* unexpected .* 'size'"),
    "apply": (lambda: D.range(3).apply(len), TypeError, "apply .* expected a dataset back, got int"),
    "memory": (lambda: D.range(3).run(memory="x"), ValueError, "memory: cannot read 'x'"),
}


@pytest.mark.parametrize("mistake, kind, text", MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_told_when_the_pipeline_is_written(mistake: Callable[[], Any], kind: type, text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        mistake()
    assert isinstance(caught.value, ps.errors.PlanError)
    if not text.startswith("memory"):
        assert re.match(r"\w+ at test_errors\.py:\d+: ", str(caught.value))
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_the_line_is_the_users() -> None:
    line = test_the_line_is_the_users.__code__.co_firstlineno
    with pytest.raises(ValueError, match=rf"test_errors\.py:{line + 5}:"):
        (D.range(3)
            .map(abs)
            .batch(0))  # fmt: skip


def test_an_error_of_the_users_function_passes_through_with_a_note() -> None:
    class Mine(Exception):
        pass

    error = Mine("my text")

    def fail(x: Any) -> Any:
        if x == 2:
            raise error
        return x

    run = D.range(5).map(fail).run()
    with pytest.raises(Mine) as caught:
        list(run)
    assert caught.value is error
    assert caught.value.args == ("my text",)
    (note,) = caught.value.__notes__
    assert re.fullmatch(r"in map\(fail\) at test_errors\.py:\d+, element 2", note)


def test_the_function_of_a_merged_map_is_named_with_its_own_line() -> None:
    def fail(x: Any) -> Any:
        raise KeyError(x)

    dataset = D.range(5).map(fail)
    dataset = dataset.map(lambda x: x)
    with pytest.raises(KeyError) as caught:
        list(dataset)
    lines = {int(re.search(r"py:(\d+)", note)[1]) for note in caught.value.__notes__}  # type: ignore[index]
    assert lines == {dataset.node.origin.line, dataset.node.input.origin.line}
    assert any("map(fail)" in note for note in caught.value.__notes__)


def test_a_bad_result_of_a_users_function_names_operator_and_line() -> None:
    with pytest.raises(ps.errors.BadType, match=r"map at test_errors\.py:\d+: expected .* got object"):
        list(D.range(1).map(lambda x: object()))
    with pytest.raises(
        ps.errors.BadType, match=r"filter at test_errors\.py:\d+: predicate: expected one boolean, got int64"
    ):
        list(D.range(1).filter(lambda x: x))
