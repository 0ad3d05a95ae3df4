"""The gate that calls of map_fn's function go through."""

import threading

from penstock.mapping.gate import Gate

PATIENCE_S = 20


def test_no_more_than_the_limit_are_within() -> None:
    gate, passed = Gate(1), threading.Event()
    gate.enter()
    thread = threading.Thread(target=lambda: (gate.enter(), passed.set()), daemon=True)
    thread.start()
    assert not passed.wait(0.01)
    gate.leave()
    assert passed.wait(PATIENCE_S)
    assert gate.num_entered == 2


def test_who_is_alone_waits_for_those_within_and_nobody_follows() -> None:
    gate, order = Gate(4), []
    alone, done = threading.Event(), threading.Event()

    def measure() -> None:
        with gate.alone():
            order.append("alone")
            alone.set()
            assert done.wait(PATIENCE_S)
            order.append("done")

    def follow() -> None:
        gate.enter()
        order.append("after")
        gate.leave()

    gate.enter()
    measuring = threading.Thread(target=measure, daemon=True)
    measuring.start()
    assert not alone.wait(0.01)
    order.append("left")
    gate.leave()
    assert alone.wait(PATIENCE_S)
    following = threading.Thread(target=follow, daemon=True)
    following.start()
    done.set()
    for thread in (measuring, following):
        thread.join(PATIENCE_S)
    assert order == ["left", "alone", "done", "after"]
