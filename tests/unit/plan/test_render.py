"""Plans as text: the consumer on top, one line a stage, branches drawn."""

from typing import Any

import penstock as ps
from penstock.plan.render import render

D = ps.Dataset


def double(x: Any) -> Any:
    return x * 2


def test_a_chain_is_a_column() -> None:
    assert (
        render(D.range(10).map(double).batch(3).node)
        == "batch(3)  → 4 of ?\nmap(double)  → 10 of ?\nrange(10)  → 10 of int64"
    )


def test_branches_are_drawn() -> None:
    dataset = D.zip((D.range(3).batch(2), D.range(5).concatenate(D.range(2)).take(4))).batch(2)
    assert render(dataset.node) == (
        "batch(2)  → 1 of (?×? int64, ? int64)\n"
        "zip((·, ·))  → 2 of (? int64, int64)\n"
        "├─ batch(2)  → 2 of ? int64\n"
        "│  range(3)  → 3 of int64\n"
        "└─ take(4)  → 4 of int64\n"
        "   concatenate()  → 7 of int64\n"
        "   ├─ range(5)  → 5 of int64\n"
        "   └─ range(2)  → 2 of int64"
    )


def test_origins_stand_in_a_column_of_their_own() -> None:
    dataset = D.range(10).map(double)
    lines = render(dataset.node, origins=True).splitlines()
    assert [line.split("  ")[-1] for line in lines] == [f"test_render.py:{dataset.node.origin.line}"] * 2
    assert len({line.index("test_render.py") for line in lines}) == 1
