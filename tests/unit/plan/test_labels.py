"""What stages are called beside each other: no two the same, and no longer than it takes."""

from typing import Any

import numpy as np

import penstock as ps
from penstock.plan.labels import stage_labels

D = ps.Dataset


def small(x: Any) -> np.ndarray:
    return np.zeros(10)


def large(x: Any) -> np.ndarray:
    return np.zeros(1000)


def a_function_with_a_name_that_no_table_has_room_for(x: Any) -> Any:
    return x


def labels(*stages: tuple[Any, tuple[int, ...]]) -> list[str]:
    return stage_labels([(dataset.node, branch) for dataset, branch in stages])


def test_the_name_alone_where_that_is_enough() -> None:
    assert labels((D.range(3).map(small), ()), (D.range(3), ())) == ["map", "range"]


def test_the_function_where_there_are_several() -> None:
    assert labels((D.range(3).map(small), ()), (D.range(3).map(large, 4), ())) == [
        "map(small)",
        "map(large)",
    ]
    parallel = D.range(3).map(small, num_parallel_calls=12, deterministic=False)
    assert labels((parallel, ()), (D.range(3).map(large), ())) == ["map(small)", "map(large)"]


def test_the_line_where_the_function_has_no_name() -> None:
    first = D.range(3).map(lambda x: x)
    second = D.range(3).map(lambda x: x + 1)
    line = first.node.origin.line
    assert labels((first, ()), (second, ()), (D.range(3).map(small), ())) == [
        f"map(λ) test_labels.py:{line}",
        f"map(λ) test_labels.py:{line + 1}",
        "map(small)",
    ]


def test_the_branch_where_the_line_is_the_same() -> None:
    parts = [D.range(3).map(small) for _ in range(2)]
    assert labels((parts[0], (1,)), (parts[1], (2, 1))) == ["map branch 1", "map branch 2.1"]


def test_a_number_where_all_else_is_the_same() -> None:
    one = D.range(3).map(small)
    assert labels((one, (1,)), (one, (2,)), (one, (2,))) == ["map branch 1", "map branch 2 #1", "map branch 2 #2"]


def test_arguments_that_are_too_long_are_left_out() -> None:
    long = D.range(3).map(a_function_with_a_name_that_no_table_has_room_for)
    assert labels((long, ()), (D.range(3).map(small), ())) == ["map", "map(small)"]
