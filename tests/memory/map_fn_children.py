"""Programs of test_real_map_fn.py, each in a process of its own; see children.py."""

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from penstock.observe.process import PeakMemory
from tests.memory.children import settled

MB = 1_000_000


def repeat_and_sum(x: Any) -> Any:
    return np.repeat(x, 10_000).sum()


def watched(fn: Callable[[Any], Any], elems: Any, memory: str, **kwargs: Any) -> tuple[dict[str, Any], Any]:
    ps.map_fn(fn, elems[:64], memory, **{**kwargs, "out": None})  # what is loaded or kept once for all
    before = settled()
    with PeakMemory(period_s=0.001) as watch:
        result = ps.map_fn(fn, elems, memory, **kwargs)
    return {"growth": watch.peak_bytes - before, "count": len(result)}, result


def of_the_question(num_elements: int = 100_000, **kwargs: Any) -> dict[str, Any]:
    elems = np.arange(num_elements)
    found, result = watched(repeat_and_sum, elems, "64MB", **kwargs)
    return {**found, "equal": bool((result == elems * 10_000).all())}


def large_temporaries() -> dict[str, Any]:
    """Each call takes 16 MB, and eight threads would like to call."""
    elems = np.arange(64.0)
    found, result = watched(lambda x: np.repeat(x, 2_000_000).sum(), elems, "64MB", num_parallel_calls=8)
    return {**found, "equal": bool((result == elems * 2_000_000).all())}


def large_results() -> dict[str, Any]:
    """400 MB of results into a file."""
    elems = np.arange(2000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "out.npy")
        out = np.lib.format.open_memmap(path, "w+", np.float64, (2000, 25_000))
        found, _ = watched(lambda x: np.full(25_000, x / 2), elems, "64MB", out=out)
        written = np.load(path, mmap_mode="r")
        return {**found, "equal": bool((written[:, ::5000] == elems[:, None] / 2).all())}


def compiled_by_jax() -> dict[str, Any]:
    """Two arrays of 90,000 numbers for each of 400 elements: 580 MB if all were made at a time."""
    import jax.numpy as jnp

    def sums(v: Any) -> Any:
        return jnp.cumsum(jnp.outer(v, v).ravel())[::30_000]

    vectors = np.random.default_rng(1).normal(size=(400, 300))
    found, result = watched(sums, vectors, "64MB", jit="jax")
    expected = [np.cumsum(np.outer(v, v).ravel())[::30_000] for v in vectors[-5:]]
    return {**found, "equal": bool(np.allclose(result[-5:], expected))}


def compiled_to_one_number() -> dict[str, Any]:
    """40,000 numbers for each of 20,000 elements, which XLA sums up in memory that its account does not tell of."""
    vectors = np.random.default_rng(1).random((20_000, 200), np.float32)
    found, result = watched(lambda v: (v[:, None] * v[None, :]).sum(), vectors, "64MB", jit="jax")
    return {**found, "equal": bool(np.allclose(result, vectors.sum(1) ** 2, rtol=1e-4))}


def compiled_by_numba() -> dict[str, Any]:
    return of_the_question(200_000, jit="numba")


def growing(size: int, num_elements: int, num_parallel_calls: int | None) -> dict[str, Any]:
    """Each call takes more than the one before, in the end four times the budget of 16 MB."""
    ps.map_fn(lambda x: x, np.arange(64), "16MB", num_parallel_calls=num_parallel_calls)
    before, refused = settled(), False
    with PeakMemory(period_s=0.001) as watch:
        try:
            ps.map_fn(
                lambda x: np.ones(int(x) * size).sum(),
                np.arange(num_elements),
                "16MB",
                num_parallel_calls=num_parallel_calls,
            )
        except ps.errors.ElementTooLarge:
            refused = True
    return {"growth": watch.peak_bytes - before, "refused": refused}


def growing_fast() -> dict[str, Any]:
    return growing(40_000, 200, 4)


def growing_slowly() -> dict[str, Any]:
    return growing(8_000, 1_000, ps.AUTOTUNE)


def growing_in_one_thread() -> dict[str, Any]:
    return growing(40_000, 200, 1)


def few_large_ones(num_parallel_calls: int = 1) -> dict[str, Any]:
    """One call of a hundred takes 64 MB, four times the budget."""
    sizes = np.full(2_000, 1_000)
    sizes[99::100] = 8_000_000
    num_large: list[int] = []

    def fn(size: Any) -> Any:
        num_large.extend([1] * int(size > 1_000))
        return np.ones(size).sum()

    ps.map_fn(lambda x: x, np.arange(64), "16MB", num_parallel_calls=num_parallel_calls)
    before, refused = settled(), ""
    with PeakMemory(period_s=0.001) as watch:
        try:
            ps.map_fn(fn, sizes, "16MB", num_parallel_calls=num_parallel_calls)
        except ps.errors.ElementTooLarge as error:
            refused = str(error)
    return {"growth": watch.peak_bytes - before, "refused": refused, "num_large": len(num_large)}


def few_large_ones_in_two_threads() -> dict[str, Any]:
    return few_large_ones(2)


PROGRAMS: dict[str, Callable[[], dict[str, Any]]] = {
    program.__name__: program
    for program in (
        of_the_question,
        large_temporaries,
        large_results,
        compiled_by_jax,
        compiled_to_one_number,
        compiled_by_numba,
        growing_fast,
        growing_slowly,
        growing_in_one_thread,
        few_large_ones,
        few_large_ones_in_two_threads,
    )
}

if __name__ == "__main__":
    name, *sizes = sys.argv[1:]
    print(json.dumps(PROGRAMS[name](*map(int, sizes))))
