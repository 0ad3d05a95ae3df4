"""A sample: some elements run to measure what specs do not say."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from ..plan.node import Node
from .run import Run
from .settings import Settings

__all__ = ["sizes_in_sample"]


def sizes_in_sample(
    written: Node, settings: Settings, num_elements: int, make_dataset: Callable[[Node], Any]
) -> tuple[int, ...]:
    """The largest element that each stage gave while so many were run, sources first."""
    with Run(written, settings, 0, make_dataset) as run:
        for _ in islice(run, num_elements):
            pass
        return run.largest_bytes()
