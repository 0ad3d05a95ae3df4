"""map_fn: tf.map_fn on NumPy data, inside a memory budget.

It is a pipeline like any other, `from_tensor_slices(elems).map(fn)`, whose elements are written to where the results
belong. Two things are its own: what a call of `fn` takes for a moment is on the ledger (`calls`), and `jit=True` calls
a compiled function on as many elements at a time as there is room for (`jit`).
"""

from __future__ import annotations

import dataclasses
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any, Literal

import numpy as np

from ..block import Block
from ..dataset import Dataset
from ..element import Structure, nbytes_of
from ..errors import BadArgument, BadType, PenstockError
from ..frames import no_end
from ..memory.ledger import Ledger, format_bytes
from ..ops.calling import as_result, call, check_callable
from ..ops.map import Map
from ..options import AUTOTUNE, Options
from ..plan.node import Node, Origin, caller_origin, located
from ..plan.op import Context, ElementFunction, show
from ..runtime.epochs import Epochs
from ..runtime.process_pool import budget_bytes, process_pool
from ..runtime.progress import ProgressBar
from ..runtime.run import Run
from ..spec import UNSEEN, Spec, map_specs
from .calls import MeasuredCalls, reserve
from .elems import Elems, elems_of
from .jit import COMPILERS, FEWEST_COMPARED, Compiled, NotCompiled, compiled
from .results import Results
from .stacked import StackedCalls

__all__ = ["map_fn"]

_LOG = logging.getLogger("penstock.map_fn")

# Elements are asked for in blocks worth about this much time: what an interruption loses, and between two looks at the
# progress bar.
_BLOCK_NS = 50_000_000
_MOST_ELEMENTS = 1 << 14
# A block of results may take no more than this part of the budget: others may be on their way behind it.
_PART = 8


def map_fn(
    fn: Callable[[Any], Any],
    elems: Any,
    memory: int | float | str | None = "64MB",
    out: Any = None,
    jit: bool | Literal["jax", "numba"] = False,
    num_parallel_calls: int | None = AUTOTUNE,
    *,
    progress: bool = True,
    report: Callable[[str], Any] | None = None,
) -> Any:
    """Calls `fn` on each element and stacks what it returns, in order: tf.map_fn inside a memory budget.

    Args:
        fn: Gets one element, always as *one* argument, as in tf.map_fn: of a tuple of arrays a tuple. Returns an array,
            a number or a nest of them; dtype and shape are its own, and the same for all elements. A new array for each
            element, as for `Dataset.map`.
        elems: An array, a memmap, a nest of arrays of equal first dimension, or a `Dataset`.
        memory: The budget for what is held meanwhile: results that are not written yet, and what calls of `fn` take for
            a moment. That is measured on some calls, and no more calls run at a time than it leaves room for; where one
            alone does not fit, `ElementTooLarge` says how much would be enough.
        out: Arrays for the results, or a nest of them as `fn` returns it: memmaps, say, for more than memory holds.
            None: new arrays. They are yours, like all that is handed to you, and no part of the budget. `elems` itself
            works in place; other arrays in its memory are refused, as elements are read ahead.
        jit: Compile `fn` with JAX (`jit` of `vmap`) or numba, whichever is installed and takes it; or the one named.
            What was compiled must return for a sample of elements what `fn` itself returns, in the same dtypes; if
            none does, `fn` is called as it is, and a warning says why. JAX computes with 64 bits where elements have
            them, as NumPy does: a `fn` of `jnp`, which has 32 bits by default, returns float64 for float64 then.
        num_parallel_calls: Threads, as for `Dataset.map`: `AUTOTUNE` uses them where they are of use.
        progress: Whether a progress bar may show: on a terminal, and only after a second.
        report: Gets one line on how the work is done, such as `print`. It goes to the log `penstock.map_fn` anyhow.

    Returns:
        The results, stacked, in the nest that `fn` returns them in; `out` if it was given. Without elements there is
        nothing to tell what `fn` returns: then as from tf.map_fn, for each array of `elems` an empty one of its dtype.

    When `fn` raises, its error passes through with a note that says which element it was. Then, and when the program is
    interrupted, `out` has what was written so far.

    Memory: `memory`, without `elems`, `out` and what is returned.

    >>> import numpy as np, penstock as ps
    >>> ps.map_fn(lambda x: np.repeat(x, 10_000).sum(), np.arange(4), memory="4MB")
    array([    0, 10000, 20000, 30000])
    >>> ps.map_fn(lambda pair: {"sum": pair[0] + pair[1]}, (np.arange(3), np.ones(3)))
    {'sum': array([1., 2., 3.])}
    """
    origin = caller_origin()
    try:
        check_callable("fn", fn)
        _check_jit(jit)
        found = elems_of(elems)
        results = Results(out, found)
        options = Options(memory=memory, progress=progress)
        if progress:  # it may show, unless the dataset's own options say that it may not
            options = dataclasses.replace(options, progress=None)
        work = _Work(fn, found, options, num_parallel_calls, origin)
        if jit:
            work.compile(COMPILERS if jit is True else (jit,))
        work.run(results)
        if report is not None:
            report(work.told)
        value = results.value() if results.count or out is not None else _empty(found)
    except PenstockError as error:
        raise located(error, "map_fn", origin) from None
    return list(value) if work.returns_list and out is None and type(value) is tuple else value


@dataclasses.dataclass(frozen=True)
class MapFn(Map):
    """A map under the name that its user knows, in errors and plans."""

    result_spec: Any = dataclasses.field(default=UNSEEN, kw_only=True)

    # None of these are the user's words. Nor is the function as it is called: no position of such a run is kept, so
    # what it has captured need not be looked at.
    internal = (*Map.internal, "map_func", "vectorized", "num_parallel_calls", "result_spec")

    def describe(self) -> str:
        return f"{self.name}({show(self.map_func)})"

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return Spec(self.result_spec, inputs[0].cardinality)

    def element_function(self, context: Context) -> ElementFunction:
        if self.vectorized:
            return super().element_function(context)
        return StackedCalls(self.map_func, context, self.into_slot)


class _Work:
    """One call of `map_fn`: how `fn` is called, and the run."""

    def __init__(
        self,
        function: Callable[[Any], Any],
        elems: Elems,
        options: Options,
        num_parallel_calls: int | None,
        origin: Origin,
    ) -> None:
        self._function = function
        self._elems = elems
        self._options = options
        self._num_parallel_calls = MapFn(function, num_parallel_calls).num_parallel_calls  # checked, compiled or not
        self._origin = origin
        self._compiled: Compiled | None = None
        self._asked_for_jit = False
        #: How the work is done, in a line.
        self.told = ""
        self.returns_list = False

    def compile(self, compilers: tuple[str, ...]) -> None:
        """Has `fn` compiled by the first that takes it."""
        self._asked_for_jit = True
        rows = self._elems.sample()
        if rows is not None:
            memory = self._options.memory
            room = (process_pool().free_bytes if memory is None else budget_bytes(memory)) // 2
            sample = _first_of(rows, room // 4)
        else:
            # An epoch of its own, as `element_spec` has: what the run will shuffle must not depend on it.
            with Dataset(self._elems.first().node, self._options).run() as run:
                room = run.ledger.share("map_fn").free_bytes // 2
                sample = _first_of(run, room // 4)
        if not sample:
            return
        try:
            self._compiled = compiled(self._function, self._elems, sample, compilers, room, self._num_parallel_calls)
        except NotCompiled as why:
            text = f"map_fn: fn is called as it is, jit was of no use: {why}"
            warnings.warn(text, RuntimeWarning, stacklevel=3)

    def run(self, results: Results) -> None:
        """Calls `fn` on all elements, and writes what it returns."""
        if self._compiled is not None:
            self._run_compiled(self._compiled, results)
            return
        calls = MeasuredCalls(self._function, self._elems.pack, self._num_parallel_calls)
        op = MapFn(calls.entry(), self._num_parallel_calls, into_slot=True)
        with self._mapped(op).run() as run:
            calls.begin(run.ledger, results)
            try:
                self._write_all(run, results, "map_fn", _MOST_ELEMENTS)
                chosen = run.stats()["stages"][0]["chosen"].get("num_parallel_calls", "inline")
            finally:
                calls.close()
        threads = "in the caller's thread" if chosen == "inline" else f"in {chosen} threads"
        self.returns_list = calls.returns_list
        hint = "" if self._asked_for_jit else "; jit=True would try to compile it"
        self._tell(
            f"fn as it is, {threads}; a call takes {format_bytes(calls.temporary_bytes)} beside its result, "
            f"at most, by {calls.num_measured:,} that were measured{hint}"
        )

    def _run_compiled(self, made: Compiled, results: Results) -> None:
        self.returns_list = made.returns_list
        if not self._run_at_once(made, results):
            op = MapFn(made, made.num_parallel_calls, vectorized=True, result_spec=made.result_spec)
            with self._mapped(op).run() as run, _reserved_for(made, run.ledger):
                fewest = made.chunk if made.takes_full_chunks else 1
                self._write_all(run, results, f"map_fn, {made.compiler}", made.chunk, fewest)
        self._tell(
            f"fn compiled with {made.compiler}, {made.chunk:,} elements at a time, "
            f"{format_bytes(made.temporary_bytes)} beside their results"
        )

    def _run_at_once(self, made: Compiled, results: Results) -> bool:
        """Whether arrays are one chunk, for which no pipeline is needed: then all is done."""
        arrays = self._elems.arrays
        if arrays is None or not arrays.gives_views or not made.takes_full_chunks or arrays.num_elements > made.chunk:
            return False
        pool = process_pool() if self._options.memory is None else None
        ledger = Ledger(budget_bytes(self._options.memory) if pool is None else pool.total_bytes, pool)
        try:
            with _reserved_for(made, ledger):
                try:
                    result = as_result(call(made, arrays.views().as_element()))
                except Exception:  # a pipeline will find it as well, and the element that it came of
                    return False
                structure = Structure.of(result)
                results.put(Block.of_columns(structure, structure.flatten(result), arrays.num_elements))
        finally:
            ledger.close()
        return True

    def _mapped(self, op: MapFn) -> Dataset:
        dataset = self._elems.dataset
        node = Node(op, (dataset.node,), self._origin)
        return Dataset(node, dataset.options().merged(self._options), Epochs((dataset._epochs,)))

    def _write_all(self, run: Run, results: Results, what: str, most: int, fewest: int = 1) -> None:
        progress = ProgressBar(what, self._elems.num_elements, run.shows_progress)
        demand, largest_bytes = fewest, 1
        try:
            while True:
                start = perf_counter_ns()
                block = run.pull(demand)
                if block is None:
                    return
                nbytes = results.put(block)
                progress.advance(block.size)
                worth = _BLOCK_NS * block.size // max(1, perf_counter_ns() - start)
                largest_bytes = max(largest_bytes, nbytes // block.size)
                fitting = run.ledger.budget_bytes // (_PART * largest_bytes)
                demand = max(fewest, min(worth, fitting, demand * 4, most))
        except StopIteration as error:  # would end a loop of the caller's
            raise no_end(error, "fn") from error
        finally:
            progress.close()

    def _tell(self, text: str) -> None:
        self.told = f"map_fn: {text}"
        _LOG.info(self.told)


@contextmanager
def _reserved_for(made: Compiled, ledger: Ledger) -> Iterator[None]:
    """Within it what calls of a compiled function take is on a ledger."""
    share = ledger.share("temporaries of fn")
    lease = share.acquire(0)
    try:
        reserve(share, lease, made.temporary_bytes, made.num_at_once, "a call of the compiled fn")
        yield
    finally:
        lease.release()


def _first_of(rows: Iterable[Any], most_bytes: int) -> list[Any]:
    """As many as take no more than so much together, and a few however large they are."""
    sample: list[Any] = []
    held_bytes = 0
    for row in rows:
        sample.append(row)
        held_bytes += nbytes_of(row)
        if len(sample) >= FEWEST_COMPARED and held_bytes > most_bytes:
            break
    return sample


def _empty(elems: Elems) -> Any:
    spec = elems.spec.element
    return np.empty(0) if spec is UNSEEN else map_specs(lambda leaf: np.empty(0, getattr(leaf, "dtype", None)), spec)


def _check_jit(jit: Any) -> None:
    if isinstance(jit, str):
        if jit not in COMPILERS:
            raise BadArgument(f"jit: expected True, False or one of {', '.join(map(repr, COMPILERS))}, got {jit!r}")
    elif not isinstance(jit, bool):
        raise BadType(f"jit: expected True, False or the name of a compiler, got {type(jit).__name__} {jit!r:.60}")
