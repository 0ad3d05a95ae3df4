"""PyTorch: batches as tensors on the same memory."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from ..dataset import Dataset, seeded_node
from ..errors import BadArgument, BadType
from ..leaf import Ragged, Sparse
from ..memory.arena import Slots
from ..runtime.process_pool import budget_bytes, get_memory
from ..runtime.run import Run
from .feed import Convert, Feed, FeedIterator, each_leaf, refused
from .own_memory import each_own_leaf, has_one_holder, is_own
from .torch_workers import LoaderEpochs

__all__ = ["converter", "to_torch"]


def to_torch(
    dataset: Dataset,
    device: Any = None,
    pin_memory: bool = False,
    writable: bool = False,
    *,
    memory: int | float | str | None = None,
    optimize: bool | None = None,
) -> Any:
    """This dataset for PyTorch: an `IterableDataset` of tensors, each on the memory of its batch, without a copy.

    Each iteration is the dataset's next epoch. It can be looped over as it is, and be given to a
    `DataLoader(…, batch_size=None)`, with workers too: each then makes every n-th element, in an n-th of the budget.

    Byte strings stay what they are, since PyTorch has no tensors of strings. `Ragged` leaves are nested tensors of
    layout `torch.jagged`, `Sparse` ones sparse COO tensors.

    Args:
        device: Where tensors go. None: they stay where they are.
        pin_memory: Whether they are copied to page-locked memory, for quicker transfers, where there is an accelerator.
        writable: Whether batches that anybody else has are copied, for loops that write to their tensors: views of your
            arrays, also those that a function or a dataset of yours returned. Otherwise to write to such a tensor is to
            write to your array. Behind a `cache`, and behind datasets that a function returned (`flat_map`), they
            always are; and so are arrays that you made read-only.
        memory: The budget of each run, as for `run`.
        optimize: Whether the rules may rewrite the plan, as for `run`.

    >>> import numpy as np, penstock as ps
    >>> for x in ps.Dataset.from_tensor_slices(np.arange(5)).batch(3).to_torch():
    ...     print(x)
    tensor([0, 1, 2])
    tensor([3, 4])
    """
    for name, given in (("pin_memory", pin_memory), ("writable", writable)):
        if not isinstance(given, (bool, np.bool_)):
            raise BadArgument(f"{name}: expected True or False, got {given!r:.60}")
    _check_device(device)
    return _feed_class()(dataset, device, pin_memory, writable, memory, optimize)


def _check_device(device: Any) -> None:
    """Refuses what is no device, where it was written and not in the first step.

    Whether there is an accelerator is not asked: after that, processes that are forked cannot use it.
    """
    import torch

    if device is None:
        return
    try:
        kind = torch.device(device).type
    except (RuntimeError, TypeError) as error:
        said = str(error).strip().splitlines()[0]
        raise BadArgument(f"device: expected one of torch's, got {device!r:.60}; torch says: {said}") from None
    if kind == "cuda" and not torch.backends.cuda.is_built():
        raise BadArgument(f"device: expected one of this torch's, which is built without CUDA, got {device!r:.60}")


def converter(dataset: Dataset, device: Any = None, pin_memory: bool = False, writable: bool = False) -> Convert:
    """The function that makes tensors of an element."""
    import torch

    takes_own_only = writable
    # To write to what a cache keeps would change every epoch.
    writable = writable or dataset.node.has_any(lambda op: op.traits.keeps)
    from_numpy, from_dlpack = torch.from_numpy, torch.from_dlpack
    pins = pin_memory and torch.accelerator.is_available()
    target = None if device is None else torch.device(device)

    def on_memory(array: np.ndarray) -> Any:
        small = _small_float(array.dtype)
        if small is not None:
            return on_memory(array.view(f"i{array.itemsize}")).view(small)
        try:
            if array.flags.writeable:
                return from_numpy(array)
            # torch.from_numpy would warn of each of these: torch has no tensors that cannot be written to. Its DLPack
            # believes what it is told, and crashes on arrays that are read backwards.
            if not writable and array.flags.c_contiguous and array.dtype.isnative and not _is_locked(array):
                return from_dlpack(array)
            return _copied(array)
        except (BufferError, TypeError, ValueError):
            return _copied(array)

    def tensor(leaf: Any, run: Run | None = None) -> Any:
        if isinstance(leaf, (np.ndarray, np.generic)):
            if leaf.dtype.kind == "O":
                return leaf
            made = on_memory(leaf if type(leaf) is np.ndarray else np.array(leaf))
        elif isinstance(leaf, Ragged):
            made = _jagged(leaf, on_memory)
        elif isinstance(leaf, Sparse):
            made = _sparse(leaf, on_memory)
        elif leaf is None or type(leaf) is bytes:
            return leaf
        else:
            raise refused("to_torch", leaf, "make arrays of them with map or batch")
        if pins:
            made = made.pin_memory()
        return made if target is None else made.to(target, non_blocking=pins)

    if takes_own_only:
        return each_own_leaf(lambda leaf, is_alone, slots: tensor(_own(leaf, is_alone, slots)))
    return each_leaf(tensor)


def _own(leaf: Any, is_alone: bool, slots: Slots) -> Any:
    """The leaf, on memory that nobody else looks at: a function may have returned an array that it goes on to use."""
    if isinstance(leaf, np.ndarray):
        return leaf if leaf.dtype.hasobject or (is_alone and is_own(leaf, slots)) else slots.copied(leaf)
    if isinstance(leaf, (Ragged, Sparse)):
        keys = ("values", "row_splits" if isinstance(leaf, Ragged) else "indices")
        parts = {key: _own(getattr(leaf, key), is_alone and has_one_holder(leaf, key), slots) for key in keys}
        return dataclasses.replace(leaf, **parts)
    return leaf


def _small_float(dtype: np.dtype[Any]) -> Any:
    """The dtype of PyTorch for floats that NumPy has none for (ml_dtypes: bfloat16, float8); None for all others."""
    import torch

    if dtype.isbuiltin != 2 or not dtype.name.startswith(("bfloat16", "float8")):
        return None
    return getattr(torch, dtype.name, None)


def _is_locked(array: np.ndarray) -> bool:
    """Whether nobody may write to the memory that a view shows: as what a cache gave to a function of the user's."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array.flags.owndata and not array.flags.writeable


def _copied(array: np.ndarray) -> Any:
    """A tensor of an array that torch takes only as a copy: of another byte order, or read backwards."""
    import torch

    try:
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), order="C"))
    except TypeError as error:
        raise refused("to_torch", array, f"make others of them with map; PyTorch says: {error}") from None


def _jagged(leaf: Ragged, on_memory: Any) -> Any:
    import torch

    if isinstance(leaf.values, Ragged) or leaf.dtype.kind == "O":
        what = "of numbers with one ragged dimension, got one of byte strings"
        if isinstance(leaf.values, Ragged):
            what = "with one ragged dimension, got one with more"
        raise BadType(f"to_torch: expected a Ragged {what}; use padded_batch")
    return torch.nested.nested_tensor_from_jagged(on_memory(leaf.values), on_memory(leaf.row_splits))


def _sparse(leaf: Sparse, on_memory: Any) -> Any:
    import torch

    # Sorted and without duplicates, as a Sparse is.
    indices, values = on_memory(leaf.indices).T, on_memory(leaf.values)
    return torch.sparse_coo_tensor(indices, values, leaf.shape, check_invariants=False, is_coalesced=True)


@functools.cache
def _feed_class() -> Any:
    import torch.utils.data

    class TorchFeed(Feed, torch.utils.data.IterableDataset):  # type: ignore[misc]  # torch comes without types here
        """A dataset as tensors; also for a DataLoader."""

        def __init__(
            self,
            dataset: Dataset,
            device: Any,
            pin_memory: bool,
            writable: bool,
            memory: Any,
            optimize: bool | None,
            epochs: LoaderEpochs | None = None,
        ) -> None:
            super().__init__(dataset, converter(dataset, device, pin_memory, writable), memory, optimize)
            self._arguments = (dataset, device, pin_memory, writable, memory, optimize)
            self._epochs = LoaderEpochs() if epochs is None else epochs

        def __iter__(self) -> FeedIterator:
            worker = torch.utils.data.get_worker_info()
            if worker is None:
                return FeedIterator(self._open_here, self.convert)
            # Each has the loader's seed, and its own number added to it.
            key = self._epochs.begin_iteration(worker.seed - worker.id)
            return FeedIterator(functools.partial(self._open_share, worker.id, worker.num_workers, key), self.convert)

        def _open_here(self) -> Run:
            return self.open_run(self._epochs.here(self.dataset.next_epoch))

        def _open_share(self, number: int, num_workers: int, key: int) -> Run:
            """The run of one of several workers: every n-th element, which is the order that DataLoader restores."""
            epoch = self._epochs.of_workers(key, self.dataset.next_epoch)
            memory = self.dataset.options().memory if self.memory is None else self.memory
            share = self.dataset.shard(num_workers, number)
            # On its own: what it begins in this process must not count for the dataset twice.
            alone = Dataset(seeded_node(share), share.options())
            whole = get_memory() if memory is None else budget_bytes(memory)
            return alone.run(whole // num_workers, epoch=epoch, optimize=self.optimize)

        def __reduce__(self) -> Any:
            return _unpickled, (*self._arguments, self._epochs)

    return TorchFeed


def _unpickled(*arguments: Any) -> Any:
    return _feed_class()(*arguments)
