"""`distribute_for`: real processes of torch, TensorFlow and JAX, each with its part."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.adapters.ranks import Rank, rank_of

D = ps.Dataset


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return int(found.getsockname()[1])


def in_processes(loaded_python: str, program: str, environments: list[dict[str, str]]) -> list[Any]:
    """What the same program prints, as JSON, in up to two processes at a time.

    They have nothing in common, not even what hashes begin with: one is a fork, the other is started anew.
    """
    children = [
        subprocess.Popen(
            [python, "-c", textwrap.dedent(program)],
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for python, environment in zip((loaded_python, sys.executable), environments, strict=False)
    ]
    try:
        said = [child.communicate(timeout=240) for child in children]
    finally:
        for child in children:
            child.kill()
    for child, (_, errors) in zip(children, said, strict=True):
        assert child.returncode == 0, errors[-2000:]
    return [json.loads(out.strip().splitlines()[-1]) for out, _ in said]


TORCH = """
import json, os
import torch, torch.distributed as dist
import penstock as ps

dist.init_process_group("gloo", init_method="env://")
data = ps.Dataset.range(101).shuffle(seed=7)
seen, steps, epochs = [], [], []
part = data.distribute_for("torch").batch(8)
for epoch in range(2):
    steps.append(0)
    seen.append([])
    for batch in part.to_torch():
        total = batch.sum()
        dist.all_reduce(total)          # hangs if another rank has no batch for it
        steps[-1] += 1
        seen[-1] += batch.tolist()
dist.barrier()
print(json.dumps({"steps": steps, "seen": seen, "length": len(part)}))
dist.destroy_process_group()
"""


def test_two_ranks_of_torch_step_together(loaded_python: str) -> None:
    port = str(free_port())
    common = {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    first, second = in_processes(loaded_python, TORCH, [{**common, "RANK": str(i)} for i in range(2)])
    assert first["steps"] == second["steps"] == [7, 7]
    assert first["length"] == second["length"] == 7
    for epoch in range(2):
        assert sorted(first["seen"][epoch] + second["seen"][epoch]) == list(range(101))
    assert first["seen"][0] != first["seen"][1]


MULTI_WORKER = """
import json
import tensorflow as tf
import penstock as ps

strategy = tf.distribute.MultiWorkerMirroredStrategy()
data = ps.Dataset.range(101).shuffle(seed=7)
HOW
seen, steps = [], 0
for batch in distributed:
    own = strategy.experimental_local_results(batch)[0]
    total = strategy.reduce("SUM", strategy.run(lambda x: tf.reduce_sum(x), args=(batch,)), axis=None)
    seen += own.numpy().tolist()
    steps += 1
print(json.dumps({"seen": seen, "steps": steps}))
"""
FROM_FUNCTION = """
distributed = strategy.distribute_datasets_from_function(
    lambda context: data.distribute_for("tf", context=context).batch(8).to_tf()
)
"""
WHOLE = """
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
with strategy.scope():
    part = data.distribute_for("tf")
# Here TensorFlow takes a batch for that of all workers, and cuts it into as many.
distributed = strategy.experimental_distribute_dataset(part.batch(16).to_tf().with_options(options))
"""


@pytest.mark.parametrize("how", [FROM_FUNCTION, WHOLE], ids=["from a function", "from a dataset"])
def test_two_workers_of_tensorflow_step_together(how: str, loaded_python: str) -> None:
    workers = [f"localhost:{free_port()}" for _ in range(2)]
    configs = [{"cluster": {"worker": workers}, "task": {"type": "worker", "index": i}} for i in range(2)]
    program = MULTI_WORKER.replace("HOW", how)
    first, second = in_processes(loaded_python, program, [{"TF_CONFIG": json.dumps(config)} for config in configs])
    assert first["steps"] == second["steps"] in (7, 8)  # the last batch may have been cut as well
    assert sorted(first["seen"] + second["seen"]) == list(range(101))


MIRRORED = """
import json
import tensorflow as tf
import penstock as ps

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
data = ps.Dataset.range(96)
with strategy.scope():
    part = data.distribute_for("tf")
seen = []
for batch in strategy.experimental_distribute_dataset(part.batch(16).to_tf()):
    for own in strategy.experimental_local_results(batch):
        seen.append(own.numpy().tolist())
print(json.dumps(seen))
"""


def test_replicas_of_one_process_share_its_batches(loaded_python: str) -> None:
    (seen,) = in_processes(loaded_python, MIRRORED, [{}])
    assert [len(own) for own in seen] == [8] * 12
    assert sorted(x for own in seen for x in own) == list(range(96))


JAX = """
import json, os
import jax
jax.distributed.initialize(os.environ["COORDINATOR"], 2, int(os.environ["INDEX"]))
import penstock as ps

part = ps.Dataset.range(101).shuffle(seed=7).distribute_for("jax").batch(8)
seen = [x for batch in part.to_jax() for x in batch.tolist()]
print(json.dumps({"seen": seen, "steps": len(part)}))
"""


def test_two_processes_of_jax(loaded_python: str) -> None:
    common = {"COORDINATOR": f"localhost:{free_port()}", "JAX_PLATFORMS": "cpu"}
    first, second = in_processes(loaded_python, JAX, [{**common, "INDEX": str(i)} for i in range(2)])
    assert first["steps"] == second["steps"] == 7
    assert sorted(first["seen"] + second["seen"]) == list(range(101))


GLOBAL = """
import json, os
import jax
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(os.environ["COORDINATOR"], 2, int(os.environ["INDEX"]))
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
import penstock as ps

mesh = jax.make_mesh((4,), ("batch",))
rows, whole = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (["batch"], []))
part = ps.Dataset.range(101).map(lambda n: (np.float32(n), n)).distribute_for("jax").batch(8, drop_remainder=True)
total = jax.jit(lambda x: x.sum(), out_shardings=whole)
found = []
try:
    ps.Dataset.range(101).distribute_for("jax").batch(8).to_jax(sharding=rows)
except ps.errors.BadArgument as error:
    assert "processes get from 50 to 51 elements" in str(error), error
else:
    raise AssertionError("last batches of 3 and 2 rows")
even = ps.Dataset.range(100).distribute_for("jax").batch(8)
assert [x.shape for x in even.to_jax(sharding=rows)] == [(16,)] * 6 + [(4,)]
for sharding in (rows, (rows, rows)):
    batches = list(part.run(epoch=0))
    for (x, n), own in zip(part.to_jax(sharding=sharding), batches, strict=True):
        assert x.shape == n.shape == (16,)
        assert [v for shard in x.addressable_shards for v in shard.data.tolist()] == own[0].tolist()
        found.append(float(total(x)))
print(json.dumps(found))
"""


def test_batches_of_several_processes_of_jax_are_parts_of_one_array(loaded_python: str) -> None:
    common = {
        "COORDINATOR": f"localhost:{free_port()}",
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
    }
    first, second = in_processes(loaded_python, GLOBAL, [{**common, "INDEX": str(i)} for i in range(2)])
    assert first == second
    assert first == 2 * [float(sum(range(start, start + 16))) for start in range(0, 96, 16)]


@pytest.mark.parametrize("framework", ["torch", "jax", "tf"])
def test_alone_the_dataset_is_whole(framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORLD_SIZE", "RANK", "TF_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    assert [int(x) for x in D.range(5).distribute_for(framework)] == [0, 1, 2, 3, 4]


def test_torchrun_and_tf_config_are_heard_before_a_group_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "3")
    assert rank_of("torch") == Rank(4, 3)
    cluster = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"], "evaluator": ["e:1"]}
    tasks = {("chief", 0): (3, 0), ("worker", 0): (3, 1), ("worker", 1): (3, 2), ("ps", 0): (1, 0)}
    for (kind, index), expected in tasks.items():
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}}))
        assert rank_of("tf") == expected


def test_over_and_over_there_is_no_remainder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    part = D.range(5).distribute_for("torch", remainder="repeat")
    assert part.cardinality() == ps.INFINITE
    assert [int(x) for x in part.take(6)] == [1, 3, 0, 2, 4, 1]
    padded = D.range(5).distribute_for("torch", remainder="pad")
    np.testing.assert_array_equal(list(padded), [1, 3, 3])


def test_what_is_refused() -> None:
    for arguments, why in (
        ({"framework": "mxnet"}, "framework: expected one of torch, jax, tf, got 'mxnet'"),
        ({"framework": "tf", "context": 3}, "context: expected a tf.distribute.InputContext, got int"),
        (
            {"framework": "tf", "remainder": "all"},
            "remainder: expected one of drop, drop_remainder, pad, .*, got 'all'",
        ),
    ):
        with pytest.raises(ValueError, match=f"distribute_for at test_ranks.py:.*{why}"):
            D.range(5).distribute_for(**arguments)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(
    "variables, why",
    [
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE: expected RANK to be set as well, .* got WORLD_SIZE='2' alone"),
        ({"RANK": "0"}, "RANK: expected WORLD_SIZE to be set as well"),
        ({"WORLD_SIZE": "2", "RANK": "x"}, "RANK: expected the environment to have an integer from 0 on, got 'x'"),
        (
            {"WORLD_SIZE": "0", "RANK": "0"},
            "WORLD_SIZE: expected the environment to have an integer from 1 on, got '0'",
        ),
        ({"WORLD_SIZE": "2", "RANK": "2"}, "RANK: expected less than WORLD_SIZE = 2, got 2"),
        ({"TF_CONFIG": "{"}, "TF_CONFIG: expected JSON as .* got '{'"),
        ({"TF_CONFIG": "[1]"}, "TF_CONFIG: expected JSON as"),
        ({"TF_CONFIG": '{"cluster": {"worker": ["a:1", "b:1"]}}'}, "TF_CONFIG: .* cannot be told without a task"),
        (
            {"TF_CONFIG": '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 3}}'},
            "TF_CONFIG: .* there is no worker 3",
        ),
    ],
)
def test_an_environment_that_does_not_say_which_process_this_is(
    variables: dict[str, str], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WORLD_SIZE", "RANK", "TF_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    framework = "tf" if "TF_CONFIG" in variables else "torch"
    with pytest.raises(ps.errors.BadArgument, match=f"distribute_for at test_ranks.py:.*{why}"):
        D.range(5).distribute_for(framework)
