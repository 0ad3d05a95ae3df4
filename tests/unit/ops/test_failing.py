"""What a function raised when it was called the wrong way has a note that says how it is called."""

from typing import Any

import numpy as np
import pytest

import penstock as ps

D = ps.Dataset
PAIRS = D.from_tensor_slices((np.arange(3), np.arange(3)))


@pytest.mark.parametrize("dataset, given", [
    (PAIRS.map(lambda pair: pair), "2"),
    (PAIRS.map(lambda pair: pair, num_parallel_calls=2), "2"),
    (PAIRS.filter(lambda pair: True), "2"),
    (PAIRS.take_while(lambda pair: True), "2"),
    (D.range(3).map(lambda x, y: x), "1"),
    (D.from_tensor_slices({"x": np.arange(3), "y": np.arange(3)}).map(lambda x, y: x), "1"),
    (D.range(3).random_map(lambda x: x), "1, and a generator as the last"),
])  # fmt: skip
def test_a_function_of_another_number_of_arguments(dataset: Any, given: str) -> None:
    with pytest.raises(TypeError, match="argument") as caught:
        list(dataset)
    assert caught.value.__notes__[1:] == [
        f"a tuple is handed over as several arguments, any other element as one: this one as {given}"
    ]


def test_a_wrong_call_within_the_function_is_its_own_matter() -> None:
    with pytest.raises(TypeError, match="argument") as caught:
        list(D.range(3).map(lambda x: len()))  # type: ignore[call-arg]
    assert len(caught.value.__notes__) == 1
    with pytest.raises(TypeError, match="argument") as caught:
        ps.map_fn(lambda x, y: x, (np.arange(3), np.arange(3)))  # which never unpacks
    assert len(caught.value.__notes__) == 1
