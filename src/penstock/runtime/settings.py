"""Settings: what a run is told besides its plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ..memory.pool import Pool
from ..memory.spill import SpillSpace
from ..plan.footprint import Measured
from ..plan.node import Node

__all__ = ["Settings"]


@dataclasses.dataclass(frozen=True)
class Settings:
    """How a run behaves.

    Attributes:
        budget_bytes: What it may hold.
        pool: What it shares with other runs, if its budget is not its own.
        optimize: Rewrites its plan; None to run it as it is written.
        deterministic: Whether parallel stages keep the order of elements.
        make_spill_space: Makes its place on disk.
        progress: Whether it may show progress bars on a terminal.
        measured: What each stage of the plan gave and held in a sample, sources first.
        frugal: Whether it makes one element at a time where it can: what stages then hold is what they need.
    """

    budget_bytes: int
    pool: Pool | None = None
    optimize: Callable[[Node], Node] | None = None
    deterministic: bool = True
    make_spill_space: Callable[[], SpillSpace] = SpillSpace
    progress: bool = True
    measured: tuple[Measured, ...] = ()
    frugal: bool = False

    def measured_by_node(self, plan: Node) -> Callable[[Node], Measured]:
        """The same, asked by node."""
        found = {id(node): seen for node, seen in zip(plan.walk(), self.measured, strict=False)}
        return lambda node: found.get(id(node), Measured())
