"""What does the ledger cost? The array workloads, with it and with its entries replaced by nothing.

What it costs is less than what two processes differ by, so all contenders take turns in one. The one named "again" does
the same as the first: what it differs by is the error of the measurement.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.bench_shuffle import ROWS, WIDTH, make_data
from benchmarks.workload import Batch, Contender, Epoch, Target, Workload

Patches = list[tuple[Any, str, Any]]
"""Of a class or module: the name in it, and what stands there instead."""

WITH, AGAIN, WITHOUT, BLIND = "penstock", "penstock, again", "no ledger", "no ledger, no look at the system"


def do_nothing(*arguments: Any, **named: Any) -> None:
    pass


def say_yes(*arguments: Any, **named: Any) -> bool:
    return True


def only_note(lease: Any, nbytes: int, single: bool = False) -> None:
    """A lease knows its size; who holds it reads that."""
    lease.nbytes = nbytes


def ledger_patches() -> Patches:
    """Every entry is granted, and none is made."""
    from penstock.memory.ledger import Lease, Ledger, Share

    return [
        *((Share, name, do_nothing) for name in ("charge", "discharge", "raise_floor")),
        *((Share, name, say_yes) for name in ("try_charge", "charge_free", "has_room")),
        (Lease, "settle", only_note),
        (Lease, "release", do_nothing),
        (Ledger, "let_go", do_nothing),
    ]


def system_patches() -> Patches:
    """A run asks the system neither what the process holds nor whether memory is short."""
    from penstock.memory import pressure

    return [
        (pressure, "memory_groups", lambda root: []),
        (pressure, "resident_bytes", lambda proc: 0),
        (pressure.Pressure, "is_on", lambda self: False),
    ]


ORIGINALS: dict[tuple[Any, str], Any] = {}


def install(patches: Patches) -> None:
    """Puts all back as it was, then these in place."""
    for (owner, name), original in ORIGINALS.items():
        setattr(owner, name, original)
    for owner, name, replacement in patches:
        ORIGINALS.setdefault((owner, name), getattr(owner, name))
        setattr(owner, name, replacement)


def build(array: Batch, size: int, in_order: bool, patches_of: tuple[Callable[[], Patches], ...]) -> Epoch:
    import penstock as ps

    # Stays so until the next contender's turn: patching costs more than some epochs.
    install([patch for patches in patches_of for patch in patches()])
    dataset = ps.Dataset.from_tensor_slices(array)
    if not in_order:
        dataset = dataset.shuffle(len(array), seed=1)
    dataset = dataset.batch(size)
    return lambda: iter(dataset)


def workload(name: str, title: str, size: int, *, in_order: bool = False) -> Workload:
    def contender(label: str, *patches_of: Callable[[], Patches]) -> Contender:
        made = partial(build, size=size, in_order=in_order, patches_of=patches_of)
        return Contender(label, "penstock", made, ("penstock",))

    return Workload(
        name,
        title,
        (
            contender(WITH),
            contender(AGAIN),
            contender(WITHOUT, ledger_patches),
            contender(BLIND, ledger_patches, system_patches),
        ),
        (Target(WITH, 0.97, over=WITHOUT),),
        make_data=make_data,
        rows=ROWS,
        quick_rows=ROWS // 5,
        batch=((size, WIDTH), "float64"),
        metric="in turn",
        record="budget",
        in_quick=False,
    )


WORKLOADS = (
    workload("ledger-in-order", "100k x 500 float64, in order, batch 1,000", 1_000, in_order=True),
    workload("ledger-shuffle-1000", "100k x 500 float64, full shuffle, batch 1,000", 1_000),
    workload("ledger-shuffle-32", "100k x 500 float64, full shuffle, batch 32", 32),
)
