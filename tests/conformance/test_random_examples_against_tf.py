"""Random features and records, some of them damaged: what ps.io makes of them is what tf.io does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.compare_examples import difference, map_difference, pipeline_difference
from tests.conformance.example_cases import APIS, case_of


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("api", APIS)
def test_answers_are_tensorflows(api: str, part: int) -> None:
    first = APIS.index(api) + 200 * part
    for number in range(first, first + 200, len(APIS)):
        case = case_of(number)
        assert case.api == api
        assert not (found := difference(case)), f"{case}\n  {found}"


def test_records_parsed_by_blocks(tmp_path: Path) -> None:
    for number in range(APIS.index("batch"), 400, len(APIS)):
        case = case_of(number)
        assert not (found := map_difference(case, tmp_path)), f"{case}\n  {found}"


def test_records_parsed_one_by_one_and_batched(tmp_path: Path) -> None:
    for number in range(APIS.index("batch"), 400, len(APIS)):
        case = case_of(number)
        assert not (found := pipeline_difference(case, tmp_path)), f"{case}\n  {found}"
