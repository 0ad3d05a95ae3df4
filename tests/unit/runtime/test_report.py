"""What a run says of its bytes: what it says in all is the sum of what it says of the stages."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps

D = ps.Dataset

SPILLING: dict[str, Callable[[Any], Any]] = {
    "cache": lambda source: source.cache(),
    "shuffle": lambda source: source.filter(lambda x: True).shuffle(50, seed=1),
    "both": lambda source: source.cache().filter(lambda x: True).shuffle(50, seed=1),
    "one cache twice": lambda source: D.zip((cached := source.cache(), cached)),
}


def large(i: Any) -> np.ndarray:
    return np.full(1000, i)


@pytest.mark.parametrize("name", SPILLING)
def test_what_went_to_disk_is_the_sum_of_the_stages(name: str, tmp_path: Path) -> None:
    options = ps.Options(memory=120_000, spill_dir=tmp_path)
    with SPILLING[name](D.range(60).map(large)).with_options(options).run() as run:
        for _ in range(50):
            next(run)
            for told in (run.stats(), run.memory()):
                assert told["spilled_bytes"] == sum(stage["spilled_bytes"] for stage in told["stages"])
        assert run.memory()["spilled_bytes"] == run.stats()["spilled_bytes"] > 100_000
        files = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock")
        assert run.memory()["on_disk_bytes"] == run.stats()["on_disk_bytes"] >= files > 0


def test_a_file_that_was_asked_for_is_not_spilled(tmp_path: Path) -> None:
    with D.range(60).map(large).cache(tmp_path / "kept").run(memory=200_000) as run:
        for _ in range(50):
            next(run)
        for told in (run.stats(), run.memory()):
            assert [stage["spilled_bytes"] for stage in told["stages"]] == [0, 0, 0]
            assert (told["spilled_bytes"], told["on_disk_bytes"]) == (0, 0)
