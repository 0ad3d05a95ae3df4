"""What tests of threads share."""

from collections.abc import Iterator

import pytest

from tests.threads import our_threads


@pytest.fixture
def no_thread_left() -> Iterator[None]:
    """A test leaves no thread behind: `pytest.mark.usefixtures("no_thread_left")`."""
    before = set(our_threads())
    yield
    assert not set(our_threads()) - before
