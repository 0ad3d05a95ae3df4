"""What does the ledger cost? The array workloads, with it and with its entries replaced by nothing.

What it costs is less than what two processes differ by, so all contenders take turns in one. The one named "again" does
the same as the first: what it differs by is the error of the measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any
from unittest import mock

from benchmarks.bench_shuffle import ROWS, WIDTH, make_data
from benchmarks.workload import Batch, Contender, Epoch, Target, Workload

WITH, AGAIN, WITHOUT, BLIND = "penstock", "penstock, again", "no ledger", "no ledger, no look at the system"


def do_nothing(*arguments: Any, **named: Any) -> None:
    pass


def say_yes(*arguments: Any, **named: Any) -> bool:
    return True


def only_note(lease: Any, nbytes: int, single: bool = False) -> None:
    """A lease knows its size; who holds it reads that."""
    lease.nbytes = nbytes


@contextmanager
def without_ledger() -> Iterator[None]:
    """Every entry is granted, and none is made."""
    from penstock.memory.ledger import Lease, Ledger, Share

    with ExitStack() as stack:
        for name in ("charge", "discharge", "raise_floor"):
            stack.enter_context(mock.patch.object(Share, name, do_nothing))
        for name in ("try_charge", "charge_free", "has_room"):
            stack.enter_context(mock.patch.object(Share, name, say_yes))
        stack.enter_context(mock.patch.object(Lease, "settle", only_note))
        stack.enter_context(mock.patch.object(Lease, "release", do_nothing))
        stack.enter_context(mock.patch.object(Ledger, "let_go", do_nothing))
        yield


@contextmanager
def without_looks() -> Iterator[None]:
    """As above, and the run asks the system neither what the process holds nor whether memory is short."""
    from penstock.memory import pressure

    with without_ledger(), ExitStack() as stack:
        stack.enter_context(mock.patch.object(pressure, "memory_groups", lambda root: []))
        stack.enter_context(mock.patch.object(pressure, "resident_bytes", lambda proc: 0))
        stack.enter_context(mock.patch.object(pressure.Pressure, "is_on", lambda self: False))
        yield


def build(array: Batch, size: int, in_order: bool, patched: Callable[[], AbstractContextManager[None]]) -> Epoch:
    import penstock as ps

    dataset = ps.Dataset.from_tensor_slices(array)
    if not in_order:
        dataset = dataset.shuffle(len(array), seed=1)
    dataset = dataset.batch(size)

    def epoch() -> Iterator[Batch]:
        with patched():
            yield from dataset

    return epoch


def workload(name: str, title: str, size: int, *, in_order: bool = False) -> Workload:
    def contender(label: str, patched: Callable[[], AbstractContextManager[None]]) -> Contender:
        return Contender(
            label, "penstock", partial(build, size=size, in_order=in_order, patched=patched), ("penstock",)
        )

    return Workload(
        name,
        title,
        (
            contender(WITH, nullcontext),
            contender(AGAIN, nullcontext),
            contender(WITHOUT, without_ledger),
            contender(BLIND, without_looks),
        ),
        (Target(WITH, 0.97, over=WITHOUT),),
        make_data=make_data,
        rows=ROWS,
        quick_rows=ROWS // 5,
        batch=((size, WIDTH), "float64"),
        metric="in turn",
        record="budget",
    )


WORKLOADS = (
    workload("ledger-in-order", "100k x 500 float64, in order, batch 1,000", 1_000, in_order=True),
    workload("ledger-shuffle-1000", "100k x 500 float64, full shuffle, batch 1,000", 1_000),
    workload("ledger-shuffle-32", "100k x 500 float64, full shuffle, batch 32", 32),
)
