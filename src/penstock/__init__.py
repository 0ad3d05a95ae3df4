"""penstock: input pipelines with tf.data's verbs on NumPy data, inside a memory budget."""

from . import errors
from .dataset import Dataset
from .element import Ragged, Sparse, string
from .options import AUTOTUNE, Options
from .runtime.run import Run
from .spec import INFINITE, UNKNOWN, DatasetSpec, NoneSpec, RaggedSpec, SparseSpec, TensorSpec

__version__ = "0.1.0"
