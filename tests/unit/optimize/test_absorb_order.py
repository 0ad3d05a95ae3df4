"""absorb_order: a random-access source is read in any order for nothing."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.memory.divide import divide
from penstock.ops.read import Read
from penstock.optimize import optimize
from penstock.optimize.absorb_order import absorb_order

D = ps.Dataset
ARRAY = np.arange(20)
SLICES = D.from_tensor_slices(ARRAY)


def absorbed(dataset: Any) -> Any:
    return optimize(dataset.node, [(absorb_order,)])[0]


ORDERS: dict[str, Callable[[Any], Any]] = {
    "take": lambda ds: ds.take(3),
    "skip": lambda ds: ds.skip(3),
    "shard": lambda ds: ds.shard(3, 1),
    "repeat": lambda ds: ds.repeat(2),
    "endless repeat": lambda ds: ds.repeat(),
    "shuffle": lambda ds: ds.shuffle(seed=1),
    "window shuffle": lambda ds: ds.shuffle(4, seed=1),
    "all of them": lambda ds: ds.shuffle(seed=1).skip(1).shard(2, 0).repeat(3).shuffle(4, seed=2).take(7),
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("source", [D.range(20), SLICES, D.random(seed=1).take(20)])
def test_all_orders_go_into_the_source(source: Any, order: Callable[[Any], Any]) -> None:
    written = order(source)
    node = absorbed(written)
    assert not node.inputs
    assert isinstance(node.op, Read)
    assert [op.name for op in node.op.orders] == [n.op.name for n in written.node.walk()][1:]
    assert node.spec == written.node.spec
    found = list(D(node).take(50).run(epoch=2))
    assert found == list(written.take(50).run(epoch=2, optimize=False))


def test_the_plan_says_in_which_order_it_reads() -> None:
    node = absorbed(D.range(20).shuffle(4, seed=1).take(3))
    assert node.op.describe() == "read range(20) in order .shuffle(4, seed=1).take(3)"
    _, (step,) = optimize(D.range(20).take(3).node, [(absorb_order,)])
    assert step.reason == "range has random access: take(3) is arithmetic on indices"


@pytest.mark.parametrize("whole", [lambda ds: ds.shuffle(seed=2), lambda ds: ds.shuffle(100, seed=2)])
def test_a_full_shuffle_needs_random_access(whole: Callable[[Any], Any]) -> None:
    """On top of a window, which is sequential, it must be a buffer."""
    node = absorbed(whole(D.range(20).shuffle(4, seed=1)))
    assert [n.op.name for n in node.walk()] == ["read", "shuffle"]
    window = absorbed(D.range(20).shuffle(4, seed=1).shuffle(5, seed=2))
    assert [n.op.name for n in window.walk()] == ["read"]


@pytest.mark.parametrize("source", [
    D.range(20).map(abs),
    D.range(20).batch(2),
    D.random(seed=1, rerandomize_each_iteration=True),
    D.from_generator(lambda: range(3), output_signature=ps.TensorSpec((), np.int64)),
])  # fmt: skip
def test_what_has_no_random_access_is_left_alone(source: Any) -> None:
    dataset = source.take(3)
    assert absorbed(dataset) == dataset.node


def test_a_read_holds_eight_bytes_a_slot_and_no_more() -> None:
    def held(dataset: Any) -> int:
        (need,) = divide(absorbed(dataset)).needs
        assert need.footprint.held_bytes is not None
        return need.footprint.held_bytes

    assert held(D.range(10**9).shuffle()) == 8  # one number on its way
    assert held(D.range(10**9).shuffle(1000).take(5)) == 8008
    with D.range(10**9).shuffle(1000, seed=1).run() as run:
        next(run)
        assert run.ledger.charged_bytes == 8000
