"""What does the `import` line cost, over `import numpy`?"""

from __future__ import annotations

from benchmarks.workload import Contender, Epoch, Target, Workload


def build_nothing(_: int) -> Epoch:
    return lambda: ()


WORKLOADS = (
    Workload(
        "import",
        "import, over import numpy",
        (
            Contender("penstock", "penstock", build_nothing, ("penstock",)),
            Contender("tensorflow", "tf.data", build_nothing, ("tensorflow",), in_quick=False),
            Contender("torch", "torch", build_nothing, ("torch",)),
            Contender("grain", "grain", build_nothing, ("grain",)),
            Contender("numpy itself", "hand", build_nothing, ("numpy",)),
        ),
        (Target("penstock", 0.15),),
        metric="import",
    ),
)
