"""Temporaries of users' functions: measured in a sample, shown, and nobody's tracemalloc disturbed."""

import re
import threading
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock import Dataset
from penstock.ops.map import Map
from penstock.runtime.meter import Meter
from penstock.runtime.temporaries import measuring

MB = 1_000_000


def images(count: int = 6) -> Dataset:
    return Dataset.from_tensor_slices(np.zeros((count, 1000, 1000), np.uint8))


def temporaries(dataset: Dataset, sample: int = 4) -> dict[str, int | None]:
    stages = dataset.explain(memory="512MB", sample=sample).to_dict()["stages"]
    return {stage["name"]: stage["temporary_bytes"] for stage in stages}


def doubled(x: np.ndarray) -> np.ndarray:
    """Makes 8 MB, and 8 MB of those, and 4 MB which it returns."""
    wide = x.astype(np.float64)
    return (wide * 2).astype(np.float32)


def test_the_peak_of_a_call_beyond_its_result() -> None:
    found = temporaries(images().map(doubled).batch(2))
    assert found["map(doubled)"] == pytest.approx(16 * MB, rel=0.01)
    assert found["batch(2)"] is None
    assert not tracemalloc.is_tracing()


def test_a_function_that_takes_nothing_beside_its_result() -> None:
    found = temporaries(images().map(lambda x: np.ones((500, 500)), num_parallel_calls=2))
    assert found["map(λ, num_parallel_calls=2)"] < 0.01 * MB  # type: ignore[operator]


def test_the_largest_of_all_calls_counts() -> None:
    def some(n: np.int64) -> int:
        return int(np.zeros(125_000 * int(n)).sum())

    assert temporaries(Dataset.range(5).map(some), sample=5)["map(some)"] == pytest.approx(4 * MB, rel=0.01)


def test_what_a_view_keeps_alive_counts_and_a_view_of_the_input_does_not() -> None:
    def cut(x: np.ndarray) -> np.ndarray:
        return x.astype(np.float64)[:100]

    assert temporaries(images().map(cut))["map(cut)"] == pytest.approx(7.2 * MB, rel=0.01)
    halves = images().map(lambda x: tuple(np.split(x.astype(np.float64), 2)))
    assert temporaries(halves)["map(λ)"] < 0.1 * MB  # type: ignore[operator]
    assert temporaries(images().map(lambda x: x[:100]))["map(λ)"] < 0.01 * MB  # type: ignore[operator]


def test_what_a_function_keeps_for_later_is_no_temporary() -> None:
    kept: list[np.ndarray] = []

    def keeping(x: np.ndarray) -> Any:
        kept.append(np.ones(125_000))
        return x[0]

    assert temporaries(images().map(keeping))["map(keeping)"] < 0.1 * MB  # type: ignore[operator]


def generated() -> Iterator[np.ndarray]:
    for _ in range(4):
        yield np.zeros(250_000).astype(np.float32)


OTHERS = {
    "filter": lambda: images().filter(lambda x: bool((x.astype(np.float32) >= 0).all())),
    "take_while": lambda: images().take_while(lambda x: bool((x.astype(np.float32) >= 0).all())),
    "scan": lambda: images().scan(np.int64(0), lambda s, x: (s + int(x.astype(np.float32).sum()), x[0])),
    "random_map": lambda: images().random_map(lambda x, rng: rng.random(500_000).sum(), seed=1),
    "flat_map": lambda: images().flat_map(lambda x: Dataset.range(int(x.astype(np.float32).sum()) + 2)),
    "interleave": lambda: images().interleave(
        lambda x: Dataset.from_tensors(x).map(lambda y: y.astype(np.float32).sum())
    ),
    "group_by_window": lambda: images().group_by_window(
        lambda x: np.int64(x.astype(np.float32).sum()), lambda key, window: window.batch(2), 2
    ),
    "from_generator": lambda: Dataset.from_generator(generated, ps.TensorSpec((250_000,), np.float32)),
    "batch": lambda: images().map(doubled, vectorized=True).batch(2),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", OTHERS)
def test_functions_of_other_operators_are_measured_too(name: str) -> None:
    found = [nbytes for nbytes in temporaries(OTHERS[name]()).values() if nbytes is not None]
    assert len(found) == 1
    assert found[0] > 1.9 * MB


def test_elements_of_a_sample_are_what_they_are_otherwise() -> None:
    def doubled(n: np.int64) -> np.int64:
        if n == 2:
            raise ValueError("two")
        return n * 2

    ds = Dataset.range(6).map(doubled).ignore_errors()
    assert ds.explain(sample=6).to_dict()["stages"][1]["name"] == "map(doubled)"
    assert [int(n) for n in ds] == [0, 2, 6, 8, 10]


def test_runs_tell_what_the_sample_saw_and_measure_nothing() -> None:
    def traced(x: np.ndarray) -> np.ndarray:
        tracing.append(tracemalloc.is_tracing())
        return x.astype(np.float32)[:10]

    tracing: list[bool] = []
    ds = images().map(traced)
    with ds.run(memory="64MB") as run:
        next(run)
        assert [stage["temporary_bytes"] for stage in run.stats()["stages"]] == [None, None]
    ds.explain(memory="64MB", sample=2)
    assert any(tracing)
    tracing.clear()
    with ds.run(memory="64MB") as run:
        next(run)
        for stages in (run.stats()["stages"], run.memory()["stages"]):
            assert stages[0]["temporary_bytes"] == pytest.approx(4 * MB, rel=0.05)
            assert stages[1]["temporary_bytes"] is None
        # Known, and not on the ledger.
        assert run.ledger.peak_bytes < 1 * MB
    assert not any(tracing)


def test_the_figure_is_shown_only_where_it_is_known() -> None:
    ds = images().map(doubled)
    ds.explain()
    assert "temporary" not in str(ds.explain())
    shown = ds.explain(sample=2)
    assert "temporary" in str(shown).split("Held between")[1]
    assert re.search(r"\n  map  .* 16 MB  one result on its way\n", str(shown))
    assert "It is not in the budget." in str(shown)
    assert ">16 MB</td>" in shown._repr_html_()


def test_a_user_who_traces_keeps_his_traces_and_his_peak() -> None:
    ds = images().map(doubled)
    tracemalloc.start(3)
    try:
        big = np.ones(40 * MB, np.uint8)
        del big
        peak = tracemalloc.get_traced_memory()[1]
        assert temporaries(ds)["map(doubled)"] is None
        assert tracemalloc.is_tracing()
        assert tracemalloc.get_traceback_limit() == 3
        assert tracemalloc.get_traced_memory()[1] >= peak >= 40 * MB
    finally:
        tracemalloc.stop()


def test_a_function_that_uses_tracemalloc_itself() -> None:
    def traced(n: np.int64) -> np.int64:
        tracemalloc.start()
        tracemalloc.stop()
        return n

    assert temporaries(Dataset.range(3).map(traced))["map(traced)"] is None
    assert not tracemalloc.is_tracing()


@pytest.mark.timeout(30)
def test_a_call_that_waits_for_another_one_is_not_measured_at_any_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.runtime.temporaries._PATIENCE_S", 0.01)
    began, ended = threading.Event(), threading.Event()

    def first(n: int) -> int:
        began.set()
        assert ended.wait(20)
        return n

    def second(n: int) -> int:
        ended.set()
        return n

    ops = [measuring(Map(function), Meter("map")) for function in (first, second)]
    thread = threading.Thread(target=ops[0].map_func, args=(1,))  # type: ignore[attr-defined]
    thread.start()
    assert began.wait(20)
    assert ops[1].map_func(2) == 2  # type: ignore[attr-defined]
    thread.join()
    assert not tracemalloc.is_tracing()


def test_parallel_calls_are_measured_one_at_a_time() -> None:
    found = temporaries(images(12).map(doubled, num_parallel_calls=4).prefetch(2), sample=12)
    assert found["map(doubled, num_parallel_calls=4)"] == pytest.approx(16 * MB, rel=0.05)
