"""explain: what is said of budgets, with sizes that are known, measured, or neither."""

from typing import Any

import numpy as np
import pytest

import penstock as ps


def unknown() -> ps.Dataset:
    return ps.Dataset.from_tensor_slices(np.zeros((100, 50), np.uint8)).map(lambda x: x * 2.0).shuffle(10).batch(4)


def shown(plan: Any) -> list[str]:
    return [str(plan), plan._repr_html_(), "\n".join(plan._summary())]


def test_sizes_that_are_not_known() -> None:
    plan = unknown().explain(memory="64MB")
    told = plan.to_dict()
    assert told["fits"] is None
    assert told["complete"] is False
    assert isinstance(told["minimum_bytes"], int)
    for text in shown(plan):
        assert "Smallest budget" not in text
        assert "Slack" not in text
        assert "not known before elements are seen" in text
        assert "explain(sample=8)" in text


def test_nothing_is_named_where_nothing_is_known() -> None:
    text = str(ps.Dataset.from_generator(lambda: iter([np.zeros(3)])).batch(2).explain(memory="1MB"))
    assert "as far as sizes are known" not in text
    assert "memory=" not in text


def test_what_is_known_so_far() -> None:
    plan = unknown().explain(memory="64MB")
    assert plan.minimum_bytes > 50
    assert f"seen: at least {plan.minimum_bytes} B as far as sizes are known." in str(plan)


def test_what_is_known_may_be_too_much_already() -> None:
    plan = unknown().explain(memory=10)
    assert plan.to_dict()["fits"] is False
    assert "It does not fit." in str(plan)
    assert "Smallest budget" not in str(plan)


def test_sizes_that_were_measured() -> None:
    ds = unknown()
    for plan in (ds.explain(memory="64MB", sample=8), ds.explain(memory="64MB")):  # the dataset remembers
        told = plan.to_dict()
        assert (told["fits"], told["complete"], told["estimated"]) == (True, True, True)
        assert f"Smallest budget that works: about {told['minimum_bytes'] / 1000:.3g} kB" in str(plan)
        assert "≈ was measured" in str(plan)
        assert "sample=8" not in str(plan)
    small = ds.explain(memory=told["minimum_bytes"] - 1)
    assert small.to_dict()["fits"] is False
    assert "It does not fit." in str(small)


def test_sizes_that_are_known() -> None:
    plan = ps.Dataset.from_tensor_slices(np.zeros((100, 50))).shuffle(seed=1).batch(4).explain(memory="1MB")
    told = plan.to_dict()
    assert (told["fits"], told["complete"], told["estimated"]) == (True, True, False)
    assert f"(memory={told['minimum_bytes']:_})" in str(plan)


@pytest.mark.parametrize("count, text", [(1, "on 1 element that"), (2, "on 2 elements that")])
def test_a_sample_counts_what_comes_out(count: int, text: str) -> None:
    seen: list[Any] = []
    ds = ps.Dataset.range(100).map(lambda x: seen.append(x) or x, stateful=True).batch(10)
    assert text in str(ds.explain(memory="1MB", sample=count))
    assert len(seen) >= 10 * count
