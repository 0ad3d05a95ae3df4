"""Ranks: which of the processes of a training this one is, as its framework says."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

from ..dataset import Dataset
from ..errors import BadArgument

__all__ = ["Rank", "distribute_for", "rank_of"]


Policy = Literal["drop", "drop_remainder", "pad", "keep", "repeat"]


class Rank(NamedTuple):
    """How many processes there are, and which of them this is."""

    num_processes: int
    number: int


def distribute_for(dataset: Dataset, framework: str, remainder: Policy = "drop", context: Any = None) -> Dataset:
    """This process's part of the dataset, for distributed training: `distribute` by rank and world size.

    Every process gets equally many batches, worked out without a word between them, so that none waits for another at
    the end of an epoch. Call it once the framework knows its processes (`torch.distributed.init_process_group`,
    `jax.distributed.initialize`, a strategy or `TF_CONFIG`); with a single process the dataset stays whole.

    Put it before the batch: `ds.shuffle(seed=1).distribute_for("torch").map(f).batch(32)`. All processes must describe
    the same dataset. Put a `filter`, and whatever else gives a number of elements that nobody can know, before it too.

    Args:
        framework: "torch", "jax" or "tf".
        remainder: What becomes of elements that are too few to give one to each process: `"drop"` (or
            `"drop_remainder"`) leaves them out, `"pad"` gives some processes an element twice, `"keep"` gives some
            processes one more than others, which then may get more batches; `"repeat"` goes over the data again without
            an end.
        context: The `tf.distribute.InputContext` that `distribute_datasets_from_function` gives, for "tf".

    >>> import penstock as ps
    >>> len(ps.Dataset.range(101).distribute_for("torch").batch(8))  # alone
    13
    """
    if remainder not in get_args(Policy):
        raise BadArgument(f"remainder: expected one of {', '.join(get_args(Policy))}, got {remainder!r:.60}")
    rank = rank_of(framework, context)
    whole = dataset.repeat() if remainder == "repeat" else dataset
    part: Dataset = whole.distribute(rank.num_processes, rank.number, "drop" if remainder == "repeat" else remainder)
    return part


def rank_of(framework: str, context: Any = None) -> Rank:
    """Asks a framework which of its processes this is."""
    ask = _ASK.get(framework)
    if ask is None:
        raise BadArgument(f"framework: expected one of {', '.join(_ASK)}, got {framework!r:.60}")
    if context is not None:
        return _rank_in(context)
    return ask()


def _rank_in(context: Any) -> Rank:
    try:
        return Rank(int(context.num_input_pipelines), int(context.input_pipeline_id))
    except AttributeError:
        raise BadArgument(f"context: expected a tf.distribute.InputContext, got {type(context).__name__}") from None


def _torch_rank() -> Rank:
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        return Rank(distributed.get_world_size(), distributed.get_rank())
    # torchrun tells before the group is there.
    num_processes, number = _from_environment("WORLD_SIZE", 1), _from_environment("RANK", 0)
    if number is None and num_processes in (None, 1):
        return Rank(1, 0)
    if num_processes is None or number is None:
        there, missing = ("RANK", "WORLD_SIZE") if num_processes is None else ("WORLD_SIZE", "RANK")
        raise BadArgument(
            f"{there}: expected {missing} to be set as well, as by torchrun, got {there}={os.environ[there]!r:.60} "
            f"alone; which of the processes this is cannot be told"
        )
    if number >= num_processes:
        raise BadArgument(f"RANK: expected less than WORLD_SIZE = {num_processes}, got {number}")
    return Rank(num_processes, number)


def _from_environment(name: str, at_least: int) -> int | None:
    text = os.environ.get(name)
    if not text:
        return None
    try:
        number = int(text)
    except ValueError:
        number = at_least - 1
    if number < at_least:
        raise BadArgument(f"{name}: expected the environment to have an integer from {at_least} on, got {text!r:.60}")
    return number


def _jax_rank() -> Rank:
    import jax

    return Rank(jax.process_count(), jax.process_index())


def _tf_rank() -> Rank:
    """The worker of a strategy that knows its cluster, or of `TF_CONFIG`.

    Replicas of one process share its batches: a `MirroredStrategy` is one worker.
    """
    import tensorflow as tf

    resolver = getattr(tf.distribute.get_strategy(), "cluster_resolver", None)
    if resolver is not None and resolver.task_type is not None:
        return _worker(resolver.cluster_spec().as_dict(), resolver.task_type, resolver.task_id)
    text = os.environ.get("TF_CONFIG") or "{}"
    try:
        config = json.loads(text)
        task, cluster = config.get("task", {}), config.get("cluster", {})
        rank = _worker(cluster, task.get("type", "worker"), int(task.get("index", 0)))
        if rank.num_processes > 1 and "index" not in task:
            raise ValueError("which of the processes this is cannot be told without a task")
        if not 0 <= rank.number < rank.num_processes:
            raise ValueError(f"there is no {task.get('type', 'worker')} {task['index']}")
        return rank
    except (ValueError, TypeError, AttributeError) as error:
        raise BadArgument(
            'TF_CONFIG: expected JSON as {"cluster": {"worker": ["host:port", …]}, "task": {"type": "worker", '
            f'"index": 0}}}}, got {text!r:.100}: {error}'
        ) from None


def _worker(cluster: dict[str, Any], kind: str, index: int) -> Rank:
    """The chief comes first and reads as the other workers do; parameter servers and evaluators read for themselves."""
    chiefs, workers = (len(cluster.get(role, ())) for role in ("chief", "worker"))
    if kind not in ("chief", "worker") or not chiefs + workers:
        return Rank(1, 0)
    return Rank(chiefs + workers, index if kind == "chief" else chiefs + index)


_ASK: dict[str, Callable[[], Rank]] = {"torch": _torch_rank, "jax": _jax_rank, "tf": _tf_rank}
