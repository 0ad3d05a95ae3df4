"""What can go wrong, as a tree.

::

    PenstockError
    ├── PlanError            the program is wrong; found before or as it first runs
    │   ├── BadArgument      an argument that no pipeline could use        (also ValueError)
    │   ├── BadType          an argument or result of the wrong kind       (also TypeError)
    │   ├── SpecMismatch     structures, dtypes or shapes that do not fit  (also ValueError, TypeError)
    │   └── BudgetTooSmall   the floors of the stages exceed the budget    (also ValueError)
    ├── RunError             the program is right; this run met something
    │   ├── OutOfRange       an index that names nothing                   (also IndexError, ValueError)
    │   ├── OverBudget       a buffer needs more than the budget has left  (also MemoryError)
    │   │   └── ElementTooLarge  one element or batch alone is too large for it
    │   └── SpillError       the disk, or its limit, has no room, or refuses (also OSError)
    ├── StateError           a saved position that does not fit this pipeline (also ValueError)
    ├── CacheMismatch        a cache file that another pipeline wrote          (also ValueError)
    └── FormatError          bytes that are not what their format promises    (also ValueError)
        ├── RecordError      one record of several; says which
        └── FileMissing      a file that is not there                          (also FileNotFoundError)

A user's own exception is never wrapped: it passes through with a note that names the operator, the element and the
line where the operator was written.
"""

from __future__ import annotations

__all__ = [
    "BadArgument",
    "BadType",
    "BudgetTooSmall",
    "CacheMismatch",
    "ElementTooLarge",
    "FileMissing",
    "FormatError",
    "OutOfRange",
    "OverBudget",
    "PenstockError",
    "PlanError",
    "RecordError",
    "RunError",
    "SpecMismatch",
    "SpillError",
    "StateError",
]


class PenstockError(Exception):
    """Root of all errors that penstock itself raises."""

    #: Whether the operator's name and the user's line are in front of the text already.
    is_located = False


class PlanError(PenstockError):
    """The pipeline as written cannot run."""


class BadArgument(PlanError, ValueError):
    """An argument has a value that no pipeline could use."""


class BadType(PlanError, TypeError):
    """An argument, or what a user's function returned, is of the wrong kind."""


class SpecMismatch(PlanError, ValueError, TypeError):
    """Structures, dtypes or shapes that must agree do not."""


class BudgetTooSmall(PlanError, ValueError):
    """The stages need more memory than the budget, however they are arranged."""


class RunError(PenstockError):
    """A correct pipeline met something while running."""


class OutOfRange(RunError, IndexError, ValueError):
    """An index or a count that names nothing."""


class OverBudget(RunError, MemoryError):
    """A stage needs more bytes than its floor and the common slack can give."""


class ElementTooLarge(OverBudget):
    """One element, or one batch, is larger than what is left to its stage."""


class SpillError(RunError, OSError):
    """What does not fit into memory, or is to be kept, cannot be written to disk, or is gone from there."""


class StateError(PenstockError, ValueError):
    """A saved position does not belong to this pipeline."""


class CacheMismatch(PenstockError, ValueError):
    """A file on disk was written by another pipeline."""


class FormatError(PenstockError, ValueError):
    """Bytes are not what their format promises."""

    #: The file, where a function of one file raises it: `stats()` counts by it.
    file: str | None = None


class RecordError(FormatError):
    """One record is not what was asked for. The others of its block may be."""

    #: The number of the record: in its file where that is known, else of the element of the pipeline, or in the list
    #: that was parsed. None for one that was parsed alone, outside of a pipeline.
    record: int | None = None
    #: The feature at fault, where it is one.
    feature: str | None = None


class FileMissing(FormatError, FileNotFoundError):
    """A file that should be read is not there."""
