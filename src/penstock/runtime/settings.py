"""Settings: what a run is told besides its plan."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable

from ..memory.pool import Pool
from ..memory.spill import SpillSpace
from ..optimize import optimized
from ..options import Options, parse_bytes
from ..plan.footprint import Measured
from ..plan.node import Node
from .process_pool import budget_bytes, process_pool

__all__ = ["Settings", "settings_of"]


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
        resume_changed: Whether it takes positions of a pipeline with other code or data.
        measured: What each stage of the plan gave and held in a sample, sources first.
        frugal: Whether it makes one element at a time where it can: what stages then hold is what they need.
    """

    budget_bytes: int
    pool: Pool | None = None
    optimize: Callable[[Node], Node] | None = None
    deterministic: bool = True
    make_spill_space: Callable[[], SpillSpace] = SpillSpace
    progress: bool = True
    resume_changed: bool = False
    measured: tuple[Measured, ...] = ()
    frugal: bool = False

    def measured_by_node(self, plan: Node) -> Callable[[Node], Measured]:
        """The same, asked by node; nothing where the sample was of another plan (`optimize=False`)."""
        nodes = list(plan.walk())
        is_of_plan = [node.op.name for node in nodes] == [seen.operator for seen in self.measured]
        found = {id(node): seen for node, seen in zip(nodes, self.measured, strict=True)} if is_of_plan else {}
        return lambda node: found.get(id(node), Measured())


def settings_of(options: Options, measured: tuple[Measured, ...] = ()) -> Settings:
    """What a run with these options is told, with defaults filled in."""

    def spill_space() -> SpillSpace:
        directory = None if options.spill_dir is None else os.fspath(options.spill_dir)
        limit = None if options.spill_limit is None else parse_bytes("spill_limit", options.spill_limit)
        space = SpillSpace(directory, limit)
        space.remove_orphans()
        return space

    pool = process_pool() if options.memory is None else None
    return Settings(
        budget_bytes=budget_bytes(options.memory) if pool is None else pool.total_bytes,
        pool=pool,
        optimize=None if options.optimize is False else optimized,
        deterministic=options.deterministic is not False,
        make_spill_space=spill_space,
        progress=options.progress is not False,
        resume_changed=options.resume_changed is True,
        measured=measured,
    )
