"""A sample: some elements run to measure what specs do not say."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import BudgetTooSmall, OverBudget
from ..plan.footprint import Measured
from ..plan.node import Node
from .run import Run
from .settings import Settings

__all__ = ["Sample", "sample_of"]

# After so many failures in a row, none of what is left may be good, and there may be no end to it.
_MOST_FAILURES = 1000


class Sample(NamedTuple):
    """What each stage gave and held, sources first; how many elements came out, and how many failed instead."""

    measured: tuple[Measured, ...] = ()
    num_elements: int = 0
    num_failed: int = 0


def sample_of(written: Node, settings: Settings, num_elements: int, make_dataset: Callable[[Node], Any]) -> Sample:
    """Runs until so many elements came out. Those that fail are passed over, as by who goes on after an error.

    Raises:
        Exception: That of the first element, where so many failed and none came out.
    """
    with Run(written, dataclasses.replace(settings, frugal=True), 0, make_dataset) as run:
        num_made = num_failed = num_in_a_row = 0
        first_error: Exception | None = None
        while num_made < num_elements:
            try:
                next(run)
            except StopIteration:
                break
            except (BudgetTooSmall, OverBudget):
                raise  # a larger budget may do
            except Exception as error:
                if run.is_over:
                    raise
                num_failed, num_in_a_row = num_failed + 1, num_in_a_row + 1
                first_error = first_error or (None if num_made else error)
                if num_in_a_row >= (max(num_elements, _MOST_FAILURES) if num_made else num_elements):
                    break
            else:
                num_made, num_in_a_row, first_error = num_made + 1, 0, None
        if first_error is not None:
            raise first_error
        return Sample(run.measured(), num_made, num_failed)
