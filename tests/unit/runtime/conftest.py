"""What tests of threads share."""

import threading
from collections.abc import Iterator

import pytest

from penstock.runtime.closing import wait_for_closing


@pytest.fixture
def no_thread_left() -> Iterator[None]:
    """A test leaves no thread behind: `pytest.mark.usefixtures("no_thread_left")`."""
    before = set(threading.enumerate())
    yield
    wait_for_closing()
    assert not set(threading.enumerate()) - before
