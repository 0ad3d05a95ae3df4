"""The threads that runs have."""

import threading

from penstock.runtime.closing import wait_for_closing


def our_threads() -> list[threading.Thread]:
    """Those that work for a run; by name in the order of their numbers. What is being closed has ended before."""
    wait_for_closing()
    for thread in threading.enumerate():
        if thread.name == "penstock-closing" and thread.ident is not None:
            thread.join(1.0)  # it has closed what it was to close, but is perhaps not yet gone
    ours = [thread for thread in threading.enumerate() if thread.name.startswith("penstock-")]
    return sorted(ours, key=lambda thread: thread.name)
