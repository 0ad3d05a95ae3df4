"""penstock: input pipelines with tf.data's verbs on NumPy data, inside a memory budget.

>>> import numpy as np, penstock as ps
>>> ds = ps.Dataset.from_tensor_slices(np.arange(10)).shuffle(seed=1).batch(4)
>>> sum(len(batch) for batch in ds.run(memory="64MB"))
10
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import errors, io
from .dataset import Dataset
from .leaf import Ragged, Sparse, string
from .options import AUTOTUNE, Options
from .runtime.process_pool import get_memory, set_memory
from .runtime.run import Run
from .spec import INFINITE, UNKNOWN, DatasetSpec, NoneSpec, RaggedSpec, SparseSpec, TensorSpec

if TYPE_CHECKING:  # for type checkers and editors; see _LATER
    from . import image
    from .adapters.from_hf import from_hf
    from .adapters.from_tf import from_tf
    from .adapters.from_torch import from_torch
    from .adapters.keras_checkpoint import keras_checkpoint
    from .mapping.map_fn import map_fn
    from .readers import CsvDataset, FixedLengthRecordDataset, TextLineDataset, TFRecordDataset

__all__ = [
    "AUTOTUNE",
    "INFINITE",
    "INFINITE_CARDINALITY",
    "UNKNOWN",
    "UNKNOWN_CARDINALITY",
    "CsvDataset",
    "Dataset",
    "DatasetSpec",
    "FixedLengthRecordDataset",
    "NoneSpec",
    "Options",
    "Ragged",
    "RaggedSpec",
    "Run",
    "Sparse",
    "SparseSpec",
    "TFRecordDataset",
    "TensorSpec",
    "TextLineDataset",
    "__version__",
    "errors",
    "from_hf",
    "from_tf",
    "from_torch",
    "get_memory",
    "image",
    "io",
    "keras_checkpoint",
    "map_fn",
    "set_memory",
    "string",
]

__version__ = "0.1.0"

# tf.data's names for the same numbers.
INFINITE_CARDINALITY = INFINITE
UNKNOWN_CARDINALITY = UNKNOWN

# What is loaded when it is first asked for: most programs do without, and `import penstock` stays quick.
_LATER = {
    "CsvDataset": ".readers",
    "FixedLengthRecordDataset": ".readers",
    "TFRecordDataset": ".readers",
    "TextLineDataset": ".readers",
    "from_hf": ".adapters.from_hf",
    "from_tf": ".adapters.from_tf",
    "from_torch": ".adapters.from_torch",
    "keras_checkpoint": ".adapters.keras_checkpoint",
    "map_fn": ".mapping.map_fn",
}


def __getattr__(name: str) -> Any:
    if name == "image":
        return import_module(".image", __name__)
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module, __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
