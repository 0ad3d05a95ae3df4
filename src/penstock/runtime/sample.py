"""A sample: some elements run to measure what specs do not say."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import islice
from typing import Any

from ..plan.footprint import Measured
from ..plan.node import Node
from .run import Run
from .settings import Settings

__all__ = ["sizes_in_sample"]


def sizes_in_sample(
    written: Node, settings: Settings, num_elements: int, make_dataset: Callable[[Node], Any]
) -> tuple[tuple[Measured, ...], int]:
    """What each stage gave and held while so many elements were run, sources first; and how many there were."""
    with Run(written, dataclasses.replace(settings, frugal=True), 0, make_dataset) as run:
        count = sum(1 for _ in islice(run, num_elements))
        return run.measured(), count
