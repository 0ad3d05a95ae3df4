"""explain: what is said of budgets, with sizes that are known, measured, or neither."""

from typing import Any

import numpy as np
import pytest

import penstock as ps

D = ps.Dataset


def unknown() -> ps.Dataset:
    return ps.Dataset.from_tensor_slices(np.zeros((100, 50), np.uint8)).map(lambda x: x * 2.0).shuffle(10).batch(4)


def shown(plan: Any) -> list[str]:
    return [str(plan), plan._repr_html_(), "\n".join(plan._summary())]


def test_sizes_that_are_not_known() -> None:
    plan = unknown().explain(memory="64MB")
    told = plan.to_dict()
    assert told["fits"] is None
    assert told["complete"] is False
    assert told["minimum_bytes"] > 50  # of what is known
    for text in shown(plan):
        assert "Smallest budget" not in text
        assert "Slack" not in text
        assert "not known before elements are seen" in text
        assert "explain(sample=8)" in text


def test_nothing_is_named_where_nothing_is_known() -> None:
    plan = ps.Dataset.from_generator(lambda: iter([np.zeros(3)])).batch(2).explain(memory="1MB")
    assert (plan.to_dict()["minimum_bytes"], plan.to_dict()["fits"]) == (1, None)
    for text in shown(plan):
        assert "as far as sizes are known" not in text
        assert "memory=" not in text


def test_a_sample_names_a_number() -> None:
    ds = ps.Dataset.from_generator(lambda: iter([np.zeros(3)] * 9)).batch(2)
    assert len(list(ds.run(memory=ds.explain(sample=8).to_dict()["minimum_bytes"]))) == 5


def test_a_sample_out_of_which_nothing_came() -> None:
    ds = ps.Dataset.range(0).map(lambda x: x)
    for plan in (ds.explain(memory="1GB", sample=8), ds.explain(memory="1GB")):
        assert isinstance(plan.to_dict()["minimum_bytes"], int)
        assert plan.to_dict()["sampled"] == 0
        assert "? was not seen in the sample." in str(plan)
        assert "measured" not in str(plan)


def test_a_window_of_known_elements_counts_before_it_is_known_what_is_made_of_it() -> None:
    rows = ps.Dataset.from_tensor_slices(np.zeros((12, 1_000_000), np.uint8))
    ds = rows.group_by_window(lambda x: 0, lambda key, window: window.batch(2), window_size=5)
    plan = ds.explain(memory="1GB")
    assert plan.fits is None
    assert 5_000_000 < plan.minimum_bytes < 6_000_000
    assert "> 5.24 MB  up to 5 elements for each key" in str(plan)
    assert "measured before" not in str(plan)
    with pytest.raises(ps.errors.BudgetTooSmall):
        ds.run(memory=plan.minimum_bytes - 1)
    assert len(list(ds.run(memory=ds.explain(sample=8).to_dict()["minimum_bytes"]))) == 7


def test_a_window_is_no_larger_than_its_input() -> None:
    rows = ps.Dataset.from_tensor_slices(np.zeros((12, 1000), np.uint8))
    plan = rows.group_by_window(lambda x: 0, lambda key, window: window, window_size=10**6).explain(memory="1GB")
    assert 12_000 < plan.minimum_bytes < 24_000


def test_what_follows_from_known_sizes_was_not_measured() -> None:
    rows = ps.Dataset.from_tensor_slices(np.zeros((12, 1000), np.uint8))
    plan = rows.bucket_by_sequence_length(len, [10], [2, 2]).explain(memory="1GB")
    assert plan.fits
    assert "measured" not in str(plan)


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


def small(x: Any) -> np.ndarray:
    return np.zeros(10)


def large(x: Any) -> np.ndarray:
    return np.zeros(1000)


def test_the_table_has_the_order_of_the_tree_and_says_which_is_which() -> None:
    plan = D.zip((D.range(9).map(small).batch(2), D.range(9).map(large))).explain(memory="1MB", sample=3)
    tree, table = str(plan).split("As it runs:\n")[1].split("Held between")
    drawn = [name for name in ("batch", "map(small)", "map(large)") if name in tree]
    assert drawn == sorted(drawn, key=tree.index)
    assert [line.split()[0] for line in table.splitlines()[2:5]] == drawn
    assert max(map(len, table.splitlines())) <= 90
    cells = plan._repr_html_().split("<tbody>")[1]
    assert drawn == sorted(drawn, key=cells.index)


def test_programs_get_the_order_of_the_tree_and_the_names_of_the_table() -> None:
    cached = D.range(9).map(small).cache()
    plan = D.zip((cached, cached)).explain()
    stages = plan.to_dict()["stages"]
    assert [stage["name"] for stage in stages] == ["zip((·, ·))", *2 * ["cache('')", "map(small)", "range(9)"]]
    assert [stage["label"] for stage in stages] == [
        "zip",
        *(f"{name} branch {number}" for number in (1, 2) for name in ("cache", "map", "range")),
    ]


def test_a_refusal_says_which_is_which() -> None:
    arrays = [D.from_tensor_slices(np.zeros((9, size))).shuffle(9, seed=1).batch(size) for size in (3, 9)]
    with pytest.raises(ps.errors.BudgetTooSmall, match=r"\n  batch\(3\) .*\n.*\n  batch\(9\) "):
        D.zip(tuple(arrays)).run(memory=10)


def test_stages_of_a_run_have_the_order_of_the_tree() -> None:
    with D.zip((D.range(9).map(small), D.range(9).map(large))).run() as run:
        names = ["zip((·, ·))", "map(small)", "range(9)", "map(large)", "range(9)"]
        assert [stage["name"] for stage in run.stats()["stages"]] == names
        assert [stage["name"] for stage in run.memory()["stages"]] == names


def failing(*numbers: int) -> Any:
    def of(x: Any) -> np.ndarray:
        if int(x) in numbers:
            raise ValueError(f"no {int(x)}")
        return np.zeros(100)

    return of


def test_a_sample_passes_over_elements_that_fail() -> None:
    ds = D.range(20).map(failing(0, 1, 5, 19)).shuffle(3, seed=1).batch(2).unbatch()
    plan = ds.explain(memory="1MB", sample=100)
    lost = 20 - plan.num_sampled  # those that were gathered before one that failed went with it
    assert lost >= 4
    assert plan.to_dict()["sampled"] == plan.num_sampled > 8
    assert plan.to_dict()["failed"] == 4
    assert "Passed over in the sample, as they failed: 4." in str(plan)
    assert plan.to_dict()["complete"]
    assert "Passed over" not in str(ds.explain(memory="1MB"))


def test_a_sample_goes_on_until_enough_came_out() -> None:
    seen: list[int] = []
    good = failing(0, 2, 3)
    plan = D.range(50).map(lambda x: seen.append(int(x)) or good(x), stateful=True).explain(memory="1MB", sample=4)
    assert (plan.num_sampled, plan.num_failed) == (4, 3)
    assert seen == list(range(7))


@pytest.mark.parametrize("count, num_tried", [(3, 3), (100, 10)])
def test_a_sample_out_of_which_only_errors_came_raises_the_first(count: int, num_tried: int) -> None:
    seen: list[int] = []
    bad = failing(*range(10))
    ds = D.range(10).map(lambda x: seen.append(int(x)) or bad(x), stateful=True)
    with pytest.raises(ValueError, match="no 0"):
        ds.explain(memory="1MB", sample=count)
    assert seen == list(range(num_tried))


def test_a_sample_ends_where_all_that_is_to_come_fails() -> None:
    plan = D.counter().map(failing(*range(1, 5000))).explain(memory="1MB", sample=2)
    assert (plan.num_sampled, plan.num_failed) == (1, 1000)


def test_an_error_that_ends_a_run_ends_the_sample() -> None:
    ds = D.range(3).concatenate(D.range(5).cache("/proc/x"))
    with pytest.raises(ps.errors.BadArgument, match="no file can be made"):
        ds.explain(memory="1MB", sample=100)
