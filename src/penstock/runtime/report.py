"""What a run says of itself, in all and stage by stage: `stats()` and `memory()`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..memory.pressure import page_cache_bytes
from ..memory.share import Share

if TYPE_CHECKING:
    from .lower import Stages

__all__ = ["memory_of", "stats_of"]


def stats_of(stages: Stages) -> dict[str, Any]:
    """What the stages did, and what they hold."""
    ledger, pressure, accounts = stages.ledger, stages.pressure, _accounts(stages)
    return {
        "budget_bytes": ledger.aim_bytes,
        "charged_bytes": ledger.charged_bytes,
        "peak_bytes": ledger.peak_bytes,
        "caller_bytes": stages.slots.caller_bytes,
        **_on_disk(stages, accounts),
        "pressure": {"now": pressure.reason, "times": pressure.num_times},
        "stages": [
            {**stages.meters[id(node)].as_dict(), **account}
            for node, account in zip(stages.nodes, accounts, strict=True)
        ],
    }


def memory_of(stages: Stages) -> dict[str, Any]:
    """The ledger by stage, and the process as the system sees it."""
    ledger, accounts = stages.ledger, _accounts(stages)
    return {
        "budget_bytes": ledger.aim_bytes,
        "held_bytes": ledger.charged_bytes,
        "peak_bytes": ledger.peak_bytes,
        "floor_bytes": sum(account["floor_bytes"] for account in accounts),
        "slack_bytes": ledger.slack_bytes,
        "freed_arrays_bytes": stages.arrays.kept_bytes,
        "held_by_caller_bytes": stages.slots.caller_bytes,
        **_on_disk(stages, accounts),
        "page_cache_bytes": page_cache_bytes(),
        "rss_over_baseline_bytes": stages.pressure.growth_bytes,
        "stages": [
            {"name": node.op.describe(), **account, "temporary_bytes": stages.meters[id(node)].temporary_bytes}
            for node, account in zip(stages.nodes, accounts, strict=True)
        ],
    }


def _on_disk(stages: Stages, accounts: list[dict[str, int]]) -> dict[str, int]:
    """What went there so far, and what is there now: files have heads, and those of caches may be of earlier runs."""
    spilled_bytes = sum(account["spilled_bytes"] for account in accounts)
    return {"spilled_bytes": spilled_bytes, "on_disk_bytes": stages.spill.total_bytes}


def _accounts(stages: Stages) -> list[dict[str, int]]:
    return [_account(stages.shares[id(node)]) for node in stages.nodes]


def _account(share: Share) -> dict[str, int]:
    return {
        "held_bytes": share.charged_bytes,
        "peak_bytes": share.peak_bytes,
        "floor_bytes": share.floor_bytes,
        "slack_used_bytes": share.slack_used_bytes,
        "spilled_bytes": share.spilled_bytes,
    }
