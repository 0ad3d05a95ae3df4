"""What all tests share."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .loaded_python import loaded_python


def pytest_collection_finish() -> None:
    """Modules and tests stay until the end: no collection need look at them, and many tests ask for one."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", name="loaded_python")
def _loaded_python() -> Iterator[str]:
    # Not in pytest's own folder: the name of a socket must be short.
    with tempfile.TemporaryDirectory() as folder, loaded_python(Path(folder)) as executable:
        yield executable
