"""Stacks of threads: small ones under a limit on addresses, and an error of ours where there is no room for any."""

import threading

import pytest

from penstock.errors import RunError
from penstock.runtime import stacks
from penstock.runtime.channel import Threads

USUAL = 16 << 20


def stack_size() -> int:
    size = threading.stack_size()  # which also sets it, to the system's own
    threading.stack_size(size)
    return size


@pytest.fixture
def stack_sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """With which size threads were started."""
    sizes: list[int] = []
    start = threading.Thread.start

    def seen(thread: threading.Thread) -> None:
        sizes.append(stack_size())
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", seen)
    return sizes


@pytest.mark.parametrize("free_bytes, usual, expected", [
    (None, USUAL, USUAL),
    (4 << 30, USUAL, USUAL),
    (100 << 20, USUAL, 3 << 20),
    (100 << 20, 0, 3 << 20),
    (100 << 20, 1 << 20, 1 << 20),
])  # fmt: skip
def test_stacks_are_small_where_addresses_are_few(
    free_bytes: int | None, usual: int, expected: int, stack_sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacks, "free_address_bytes", lambda: free_bytes)
    before = threading.stack_size(usual)
    try:
        threads = Threads("test")
        threads.start(lambda: None)
        threads.stop()
        assert stack_sizes == [expected]
        assert stack_size() == usual
    finally:
        threading.stack_size(before)


@pytest.mark.parametrize("free_bytes", [None, 5_000_000])
def test_a_thread_that_cannot_be_started_is_an_error_after_which_all_can_be_stopped(
    free_bytes: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads = Threads("test")
    threads.start(lambda: None)
    monkeypatch.setattr(stacks, "free_address_bytes", lambda: free_bytes)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RunError, match=r"cannot start another thread .* use a smaller num_parallel_calls") as caught:
        threads.start(lambda: None)
    assert ("5 MB of addresses are left" in str(caught.value)) == (free_bytes is not None)
    assert threads.count == 1
    threads.stop()
