"""A program: a pipeline written once, run on tf.data and on penstock.

`build` gets a library object `L` (oracle_tf.TensorFlow or on_penstock.Penstock) and returns a dataset or a value.
`L.Dataset` is the library's own class; where a user's function cannot be the same text in a TensorFlow graph and in
NumPy, `L` has a neutral word for it (`L.cast`, `L.fill`, `L.fail_on` …). Inputs are NumPy arrays and scalars with their
dtypes spelled out, because Python's own numbers mean int32/float32 there and int64/float64 here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..normal import MAX_ITEMS

Build = Callable[[Any], Any]


@dataclass(frozen=True)
class Program:
    name: str
    build: Build
    passes: int = 1
    """How many times the dataset is iterated."""
    max_items: int = MAX_ITEMS
    spec: bool = False
    """Compare element_spec: for pipelines whose spec needs no call of a user's function."""
    cardinality: bool = True
    """Compare cardinality."""
    oracle: bool = True
    """Runs on tf.data. False for what only penstock has, and for what tf.data answers differently on purpose."""
    exact: bool = True
    """Same order as tf.data. False for random order, which is compared as a multiset."""
    seeded: bool = True
    """The same in every run."""
    ordered: bool = True
    """False where `deterministic=False` gives up order."""
    threads: bool = False
    """Runs threads in penstock."""
    value: bool = False
    """Ends in a value, not in a dataset."""

    def __repr__(self) -> str:
        return self.name


class Family:
    """The programs of one operator."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.programs: list[Program] = []

    def add(self, name: str, build: Build, **flags: Any) -> None:
        program = Program(f"{self.name}: {name}", build, **flags)
        assert all(program.name != other.name for other in self.programs), f"two programs are called {program.name!r}"
        self.programs.append(program)
