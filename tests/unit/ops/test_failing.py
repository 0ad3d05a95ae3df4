"""What a function raised has a note that says on which element, and how it is called where that was wrong."""

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


def refuse_the_third(x: Any) -> Any:
    """Fails as penstock's own functions do, on what is no image."""
    return ps.image.decode_jpeg(b"no image") if x == 2 else x


@pytest.mark.parametrize("dataset", [
    D.range(4).map(refuse_the_third),
    D.range(4).map(refuse_the_third, num_parallel_calls=2).batch(2),
    D.range(4).map(refuse_the_third, stateful=True),
    D.range(4).map(lambda rows: np.stack(list(map(refuse_the_third, rows))), vectorized=True),
    D.range(4).random_map(lambda x, rng: refuse_the_third(x)),
    D.range(4).filter(lambda x: refuse_the_third(x) >= 0),
    D.range(4).take_while(lambda x: refuse_the_third(x) >= 0),
    D.range(4).scan(np.int64(0), lambda state, x: (state, refuse_the_third(x))),
    D.range(4).flat_map(lambda x: D.from_tensors(refuse_the_third(x))),
    D.range(4).group_by_window(refuse_the_third, lambda key, window: window, window_size=1),
    D.from_generator(lambda: map(refuse_the_third, range(4))),
    D.range(4).map(lambda x: None if x == 2 else x),
    D.range(4).filter(lambda x: x if x == 2 else True),
])  # fmt: skip
def test_an_error_of_penstock_in_a_function_says_on_which_element(dataset: Any) -> None:
    with pytest.raises(ps.errors.PenstockError, match=r" at test_failing.py:\d+: ") as caught:
        list(dataset)
    (note,) = caught.value.__notes__
    assert note.endswith(", element 2")


def test_a_result_of_map_fn_that_is_no_element_says_of_which() -> None:
    with pytest.raises(ps.errors.BadType) as caught:
        ps.map_fn(lambda x: None if x == 2 else x, np.arange(4))
    assert caught.value.__notes__[0].endswith(", element 2")
