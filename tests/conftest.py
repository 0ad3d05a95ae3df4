"""What all tests share."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .loaded_python import loaded_python


def pytest_configure(config: pytest.Config) -> None:
    """All temporary files in one folder, which goes at the end: processes that tests kill cannot remove their own."""
    if hasattr(config, "workerinput"):
        return  # one of several processes, which have the folder of the one that started them
    # What pytest keeps of tests that failed outlives them.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    folder = tempfile.TemporaryDirectory(prefix="penstock-tests-", ignore_cleanup_errors=True)
    config.add_cleanup(folder.cleanup)
    os.environ["TMPDIR"] = tempfile.tempdir = folder.name


@pytest.fixture(scope="session", name="loaded_python")
def _loaded_python() -> Iterator[str]:
    # Not in pytest's own folder: the name of a socket must be short.
    with tempfile.TemporaryDirectory() as folder, loaded_python(Path(folder)) as executable:
        yield executable


@pytest.fixture
def collected_between_tests() -> Iterator[None]:
    """No garbage is collected while a test runs but where it asks for that itself; for tests that run tf.data.

    A collection in a thread of tf.data may find the iterator that the thread belongs to. Deleting it there waits for
    that thread to end: for ever, and no later collection of the process does anything.
    """
    gc.disable()
    yield
    gc.enable()
