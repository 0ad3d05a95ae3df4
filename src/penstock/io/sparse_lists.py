"""Sparse vectors as lists, which is how files hold what `VarLenFeature` parses."""

from __future__ import annotations

import numpy as np

from ..errors import BadType
from ..leaf import Sparse

__all__ = ["list_of"]


def list_of(sparse: Sparse, where: str) -> np.ndarray:
    """The values of a sparse vector that stand in the places 0, 1, 2, …, as a record's do.

    What `dense_shape` has beyond them is no part of a list: rows of a batch are as wide as its longest.

    Raises:
        BadType: It has other dimensions, or a gap, which a list cannot say.
    """
    num_values, rank = sparse.indices.shape
    if rank != 1:
        raise BadType(
            f"{where}: expected a list, got a sparse array of {rank} dimensions; unbatch() batches first, or write "
            "to_dense() of it"
        )
    if not np.array_equal(sparse.indices[:, 0], np.arange(num_values)):
        raise BadType(
            f"{where}: expected a list, got a sparse array with gaps between its {num_values} values; write to_dense() "
            "of it, or its `indices` and `values` under names of their own"
        )
    return sparse.values
