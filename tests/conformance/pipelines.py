"""Pipelines drawn at random: a source and a list of steps, which any library object `L` can build.

Functions in the steps are written for any structure: they work on all leaves, or on one number that stands for the
whole element.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st


def leaves(structure: Any) -> list[Any]:
    if isinstance(structure, tuple):
        return [leaf for part in structure for leaf in leaves(part)]
    return [structure]


def each(function: Any, structure: Any) -> Any:
    if isinstance(structure, tuple):
        return tuple(each(function, part) for part in structure)
    return function(structure)


def whole(parts: tuple[Any, ...]) -> Any:
    """The element that was unpacked into these arguments."""
    return parts if len(parts) > 1 else parts[0]


def number(L: Any, element: Any) -> Any:
    """One int64 that stands for the element."""
    total = np.int64(0)
    for i, leaf in enumerate(leaves(element)):
        total = total + L.sum(leaf) * np.int64(2 * i + 1)
    return total


@dataclass(frozen=True)
class Step:
    name: str
    args: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        return f"{self.name}{self.args}"


def apply(L: Any, ds: Any, step: Step) -> Any:
    """Append one step to a pipeline."""
    name, a = step.name, step.args
    if name in {"take", "skip", "shard", "repeat", "enumerate", "cache", "prefetch", "batch", "unbatch"}:
        return getattr(ds, name)(*a)
    if name == "map":
        return ds.map(lambda *e: each(lambda leaf: leaf * a[0] + a[1], whole(e)))
    if name == "parallel map":
        return ds.map(lambda *e: each(lambda leaf: leaf + a[1], whole(e)), num_parallel_calls=a[0])
    if name == "pair":
        return ds.map(lambda *e: (whole(e), number(L, whole(e))))
    if name == "collapse":
        return ds.map(lambda *e: number(L, whole(e)))
    if name == "filter":
        return ds.filter(lambda *e: number(L, whole(e)) % a[0] != a[1])
    if name == "take_while":
        return ds.take_while(lambda *e: number(L, whole(e)) % a[0] != a[1])
    if name == "fail":
        return ds.map(lambda *e: (whole(e), L.fail_on(number(L, whole(e)) % a[0], a[1])))
    if name == "window":
        size, shift, stride = a
        windows = ds.window(size, shift, stride, drop_remainder=True)
        return windows.flat_map(
            lambda *w: L.Dataset.zip(each(lambda part: part.batch(size, drop_remainder=True), whole(w)))
        )
    if name == "window flattened":
        return ds.window(*a).flat_map(lambda *w: L.Dataset.zip(whole(w)))
    if name == "concatenate":
        return ds.concatenate(ds.take(a[0]))
    if name == "zip":
        return L.Dataset.zip((ds, ds.skip(a[0])))
    if name == "flat_map":
        return ds.flat_map(lambda *e: L.Dataset.from_tensors(whole(e)).repeat(a[0]))
    if name == "interleave":
        return ds.interleave(
            lambda *e: L.Dataset.from_tensors(whole(e)).repeat(a[0]), cycle_length=a[1], block_length=a[2]
        )
    if name == "scan":
        return ds.scan(np.int64(a[0]), lambda s, e: (s + number(L, e), (s, e)))
    if name == "shuffle":
        return ds.shuffle(a[0], seed=a[1])
    if name == "shuffle all":
        return ds.shuffle(seed=a[0])
    if name == "shuffle once":
        return ds.shuffle(a[0], seed=a[1], reshuffle_each_iteration=False)
    if name == "random_map":
        return ds.random_map(lambda *e: each(lambda leaf: leaf + e[-1].integers(100), whole(e[:-1])), seed=a[0])
    raise AssertionError(name)


@dataclass(frozen=True)
class Pipeline:
    source: Step
    steps: tuple[Step, ...]

    def build(self, L: Any) -> Any:
        if self.source.name == "range":
            ds = L.Dataset.range(*self.source.args)
        else:
            n, k = self.source.args
            ds = L.Dataset.from_tensor_slices((np.arange(n * k).reshape(n, k) % 17, np.arange(n)))
        for step in self.steps:
            ds = apply(L, ds, step)
        return ds.take(60)


def small(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high)


PLAIN_STEPS = {
    "take": st.tuples(small(-1, 12)),
    "skip": st.tuples(small(0, 6)),
    "shard": small(1, 4).flatmap(lambda n: st.tuples(st.just(n), small(0, n - 1))),
    "repeat": st.tuples(small(0, 3)),
    "enumerate": st.tuples(small(0, 5)),
    "cache": st.just(()),
    "prefetch": st.tuples(small(0, 3)),
    "map": st.tuples(small(1, 3), small(0, 5)),
    "parallel map": st.tuples(small(1, 3), small(0, 5)),
    "pair": st.just(()),
    "collapse": st.just(()),
    "filter": st.tuples(small(2, 4), small(0, 3)),
    "take_while": st.tuples(small(5, 9), small(0, 4)),
    "window": st.tuples(small(1, 3), small(1, 3), small(1, 2)),
    "window flattened": st.tuples(small(1, 4), small(1, 3), small(1, 2)),
    "concatenate": st.tuples(small(0, 5)),
    "zip": st.tuples(small(0, 3)),
    "flat_map": st.tuples(small(0, 2)),
    "interleave": st.tuples(small(0, 3), small(1, 3), small(1, 2)),
    "scan": st.tuples(small(0, 3)),
}
RANDOM_STEPS = {
    "shuffle": st.tuples(small(1, 8), small(0, 9)),
    "shuffle all": st.tuples(small(0, 9)),
    "shuffle once": st.tuples(small(1, 8), small(0, 9)),
    "random_map": st.tuples(small(0, 9)),
}
FAILING_STEPS = {"fail": st.tuples(small(3, 7), small(0, 4))}

_SOURCES = st.one_of(
    st.builds(Step, st.just("range"), st.tuples(small(0, 25))),
    st.builds(Step, st.just("slices"), st.tuples(small(0, 15), small(1, 3))),
)


EXPANDING = {"repeat", "concatenate", "flat_map", "interleave", "window flattened"}


@st.composite
def pipelines(draw: st.DrawFn, steps: dict[str, st.SearchStrategy[Any]], max_steps: int = 6) -> Pipeline:
    """A pipeline in which nothing but its "fail" steps can fail, of at most some hundred elements at any point."""
    source = draw(_SOURCES)
    chosen: list[Step] = []
    uneven = False  # elements may differ in shape: after a batch that keeps its remainder
    for name in draw(st.lists(st.sampled_from(["batch", "unbatch", *steps]), max_size=max_steps)):
        if uneven and name in {"batch", "window"}:
            continue
        if name in EXPANDING and sum(step.name in EXPANDING for step in chosen) >= 2:
            continue
        if name == "unbatch" and not (chosen and chosen[-1].name == "batch"):
            continue  # only right after a batch is every leaf sure to have an axis to give up
        if name == "batch":
            uneven = not draw(st.booleans())
            chosen.append(Step("batch", (draw(small(1, 4)), not uneven)))
            continue
        if name in {"collapse", "unbatch"}:
            uneven = False
        chosen.append(Step(name) if name == "unbatch" else Step(name, draw(steps[name])))
    return Pipeline(source, tuple(chosen))
