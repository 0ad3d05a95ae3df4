"""Arguments of operators as methods of a dataset take them: mistakes name the method and the user's line."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps

D: Any = ps.Dataset
NUMBERS = D.range(5)


@pytest.mark.parametrize("wrong, told", [
    (lambda: NUMBERS.batch(2, 4), "batch at .*: drop_remainder: expected True or False, got int 4"),
    (lambda: NUMBERS.padded_batch(2, drop_remainder="no"), "padded_batch at .*: drop_remainder: .* got str 'no'"),
    (lambda: NUMBERS.shuffle(2, 1, "each"), "shuffle at .*: reshuffle_each_iteration: .* got str 'each'"),
    (lambda: NUMBERS.map(abs, 2, 3), "map at .*: deterministic: .* got int 3"),
    (lambda: NUMBERS.map(abs, stateful=1), "map at .*: stateful: .* got int 1"),
    (lambda: D.random(1, "again"), "random at .*: rerandomize_each_iteration: .* got str 'again'"),
    (lambda: D.sample_from_datasets([NUMBERS], None, 1, "x"), "sample_from_datasets at .*: stop_on_empty_dataset: .*"),
    (lambda: D.choose_from_datasets([NUMBERS], NUMBERS, 0), "choose_from_datasets at .*: stop_on_empty_dataset: .*"),
    (lambda: D.list_files(__file__, "no"), "list_files at .*: shuffle: expected True or False, got str 'no'"),
    (lambda: D.from_image_folder(".", decode="no"), "from_image_folder at .*: decode: .* got str 'no'"),
    (lambda: D.from_image_folder(".", follow_links=1), "from_image_folder at .*: follow_links: .* got int 1"),
    (lambda: ps.CsvDataset(__file__, [b""], header=1), "CsvDataset at .*: header: .* got int 1"),
    (lambda: ps.CsvDataset(__file__, [b""], use_quote_delim="x"), "CsvDataset at .*: use_quote_delim: .* got str 'x'"),
])  # fmt: skip
def test_what_is_true_or_false_is_no_number_and_no_text(wrong: Callable[[], Any], told: str) -> None:
    with pytest.raises(TypeError, match=told):
        wrong()


def test_numpys_booleans_are_taken_for_pythons() -> None:
    dataset = NUMBERS.batch(2, drop_remainder=np.True_)
    assert len(dataset) == 2
    assert dataset.node == NUMBERS.batch(2, drop_remainder=True).node
    assert "drop_remainder=True" in repr(dataset)


@pytest.mark.parametrize("wrong, told", [
    (lambda: NUMBERS.batch(), r"batch\(\) missing 1 required positional argument: 'batch_size'"),
    (lambda: D.choose_from_datasets([NUMBERS]), r"choose_from_datasets\(\) missing 1 .*: 'choice_dataset'"),
    (lambda: NUMBERS.take(1, colour=2), r"take\(\) got an unexpected keyword argument 'colour'"),
])  # fmt: skip
def test_calls_that_lack_arguments_are_told_by_the_methods_name(wrong: Callable[[], Any], told: str) -> None:
    with pytest.raises(TypeError, match=f"^[a-z_]+ at .*test_verbs.py:[0-9]+: {told}$"):
        wrong()
