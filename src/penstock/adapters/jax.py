"""JAX: batches as arrays on the same memory, or on their way to a device while the one before is used."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .._native import is_aligned
from ..dataset import Dataset
from ..errors import BadArgument
from ..leaf import Sparse
from ..plan.even import unequal_parts
from ..plan.settle import settled
from ..runtime.run import Run
from .feed import Convert, Feed, FeedIterator, each_leaf, refused

__all__ = ["converter", "to_jax"]

_Put = Callable[[np.ndarray, Run], Any]

# What XLA's CPU takes as it is. Of anything else it makes a copy: at once of what is smaller than this, in memory that
# the allocator has at hand; of what is larger some time later, on nobody's account, so that a quick consumer would have
# a copy of all the data in memory.
_ALIGNMENT = 64
_COPIED_AT_ONCE_BYTES = 100 * 1024
_OF_64_BITS = frozenset(map(np.dtype, ("int64", "uint64", "float64", "complex128")))


def to_jax(
    dataset: Dataset,
    device: Any = None,
    sharding: Any = None,
    *,
    memory: int | float | str | None = None,
    optimize: bool | None = None,
) -> Feed:
    """This dataset for JAX: an iterable of `jax.Array`s. On a CPU each is on the memory of its batch, without a copy.

    Each iteration is the dataset's next epoch. For other devices, and several, the next element is put there while the
    one before is used: one more element is then held on the device, and its batch until it has arrived.

    As everywhere in JAX, 64-bit values become 32-bit ones unless `jax_enable_x64` is set, in a copy. `Sparse`
    leaves are `BCOO` arrays; there is nothing in JAX for `Ragged` leaves and byte strings.

    Args:
        device: The `jax.Device` where arrays go, committed; or the name of a platform, for the first of its devices.
            None: JAX's default, not committed.
        sharding: How arrays are laid out over devices: a `jax.sharding.Sharding` for all of them, or a nest of them
            that fits the elements. An array that it cannot divide, as a smaller last batch may be, is a `BadArgument`
            in its place: `batch(…, drop_remainder=True)` leaves it out. Where devices are those of several processes,
            what each of them reads is its part of one array (`jax.make_array_from_process_local_data`).
        memory: The budget of each run, as for `run`.
        optimize: Whether the rules may rewrite the plan, as for `run`.

    >>> import numpy as np, penstock as ps
    >>> for x in ps.Dataset.from_tensor_slices(np.arange(5, dtype=np.float32)).batch(3).to_jax():
    ...     print(x)
    [0. 1. 2.]
    [3. 4.]
    """
    if device is not None and sharding is not None:
        raise BadArgument("sharding: expected either this or device, got both")
    device = _as_device(device)
    if sharding is not None:
        _check_parts(dataset, sharding)
    kind = Feed if sharding is None and _platform(device) == "cpu" else _AheadFeed
    return kind(dataset, converter(device, sharding), memory, optimize)


def _check_parts(dataset: Dataset, sharding: Any) -> None:
    """Refuses, in all processes alike, parts of an array over their devices that would not be of one size."""
    import jax

    if all(getattr(one, "is_fully_addressable", True) for one in jax.tree.leaves(sharding)):
        return
    parts = unequal_parts(settled(dataset.node))
    if parts is not None:
        raise BadArgument(
            f"sharding: processes get from {parts[1]:,} to {parts[0]:,} elements, so that their last batches differ in "
            "size, and can't be parts of one array: use distribute with batch(…, drop_remainder=True)"
        )


def converter(device: Any = None, sharding: Any = None) -> Convert:
    """The function that makes JAX's arrays of an element."""
    import jax

    if sharding is None or isinstance(sharding, jax.sharding.Sharding):
        return each_leaf(_leaf_converter_to(device if sharding is None else sharding))
    shardings = jax.tree.leaves(sharding)
    for one in shardings:
        if not isinstance(one, jax.sharding.Sharding):
            raise BadArgument(
                f"sharding: expected a jax.sharding.Sharding, as NamedSharding(mesh, PartitionSpec('batch')), or a "
                f"nest of them, got {type(one).__name__} {one!r:.60}"
            )
    on_host = each_leaf(_leaf_converter(lambda array, run: array))
    is_here = all(one.is_fully_addressable for one in shardings)

    def put_all(element: Any, run: Run) -> Any:
        arrays = on_host(element, run)
        try:
            if is_here:
                return jax.device_put(arrays, sharding)
            return jax.tree.map(lambda one, part: jax.tree.map(_onto(one), part), sharding, arrays)
        except _REFUSALS as error:
            raise _unfit([leaf.shape for leaf in jax.tree.leaves(arrays)], error) from error

    return put_all


# What JAX raises of shardings that do not fit.
_REFUSALS = (ValueError, TypeError, AssertionError, IndexError)


def _unfit(shapes: list[tuple[int, ...]], error: Exception) -> BadArgument:
    what = f"an array of shape {shapes[0]}" if len(shapes) == 1 else f"arrays of shapes {', '.join(map(str, shapes))}"
    return BadArgument(
        f"to_jax: sharding: expected one that divides {what}; JAX says: {type(error).__name__}: {error}. If it is the "
        "last batch that is smaller, leave it out with batch(…, drop_remainder=True), or pad it; arrays of other "
        "dimensions may need a nest of shardings, one for each"
    )


def _as_device(device: Any) -> Any:
    import jax

    if device is None or isinstance(device, (jax.Device, jax.sharding.Sharding)):
        return device
    if not isinstance(device, str):
        raise BadArgument(f"device: expected a jax.Device, got {type(device).__name__} {device!r:.60}")
    try:
        return jax.local_devices(backend=device)[0]
    except RuntimeError as error:
        raise BadArgument(
            f"device: expected a jax.Device or the name of a platform, got {device!r:.60}: {error}"
        ) from None


def _platform(device: Any) -> str:
    import jax

    if device is None:
        device = jax.config.jax_default_device
    platform = device if isinstance(device, str) else getattr(device, "platform", None)
    return jax.default_backend() if platform is None else platform


def _leaf_converter(put: _Put) -> Callable[[Any, Run], Any]:
    def convert(leaf: Any, run: Run) -> Any:
        if isinstance(leaf, (np.ndarray, np.generic)) and _is_known(leaf.dtype):
            array = leaf if isinstance(leaf, np.ndarray) else np.array(leaf)
            return put(array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("=")), run)
        if isinstance(leaf, Sparse) and _is_known(leaf.dtype):
            from jax.experimental.sparse import BCOO

            parts = (put(leaf.values, run), put(leaf.indices, run))
            return BCOO(parts, shape=leaf.shape, indices_sorted=True, unique_indices=True)
        if leaf is None:
            return None
        raise refused("to_jax", leaf, "leave them out with map, or make numbers or padded batches of them")

    return convert


def _is_known(dtype: np.dtype[Any]) -> bool:
    """Whether JAX has arrays of such: numbers of up to 64 bits a part, and those of ml_dtypes."""
    return (dtype.kind in "biufc" and dtype.char not in "gG") or (dtype.kind == "V" and dtype.type is not np.void)


def _onto(target: Any) -> Callable[[np.ndarray], Any]:
    """Puts an array on a device, or on those of a sharding; of which this process has its part, if some are others'."""
    import jax

    if isinstance(target, jax.sharding.Sharding) and not target.is_fully_addressable:
        return functools.partial(jax.make_array_from_process_local_data, target)
    return lambda array: jax.device_put(array, target)


def _leaf_converter_to(target: Any) -> Callable[[Any, Run], Any]:
    """Converts leaves to arrays on a device, or on those of a sharding, in the quickest way that there is."""
    import jax

    onto = _onto(target)

    def put(array: np.ndarray, run: Run) -> Any:
        try:
            return onto(array)
        except _REFUSALS as error:
            if not isinstance(target, jax.sharding.Sharding):
                raise
            raise _unfit([array.shape], error) from error

    device = target
    if target is None and jax.config.jax_default_device is None:
        device = jax.local_devices()[0]
    if not isinstance(device, jax.Device) or device.platform != "cpu":
        return _leaf_converter(put)
    return _quick_converter(device, target is not None) or _leaf_converter(
        lambda array, run: put(_fitted(array, jax.dtypes.canonicalize_dtype(array.dtype), run), run)
    )


def _quick_converter(device: Any, committed: bool) -> Callable[[Any, Run], Any] | None:
    """Converts leaves for a CPU. jax.device_put takes ten times as long to find out what it was given."""
    import jax

    batched = _batched_device_put()
    if batched is None:
        return None
    placement = jax.sharding.SingleDeviceSharding(device)
    devices = [device]
    # Of arrays of types that JAX has: what it calls such, and whether it may have them as they are.
    known: dict[Any, tuple[Any, bool]] = {}

    def put_known(array: np.ndarray, kind: tuple[Any, bool], run: Run) -> Any:
        aval, is_fit = kind
        return batched(aval, placement, [array if is_fit else _fitted(array, aval.dtype, run)], devices, committed)

    def put(array: np.ndarray, run: Run) -> Any:
        key: Any = array.shape, array.dtype
        if array.dtype in _OF_64_BITS:  # of which a setting tells what they become, at any time
            key = *key, jax.config.jax_enable_x64
        kind = known.get(key)
        if kind is None:
            if len(known) > 1000:  # shapes that never come again
                known.clear()
            dtype = jax.dtypes.canonicalize_dtype(array.dtype)
            is_fit = dtype == array.dtype and array.nbytes < _COPIED_AT_ONCE_BYTES
            kind = known[key] = jax.core.ShapedArray(array.shape, dtype), is_fit
        return put_known(array, kind, run)

    convert_unknown = _leaf_converter(put)

    def convert(leaf: Any, run: Run) -> Any:
        kind = known.get((leaf.shape, leaf.dtype)) if type(leaf) is np.ndarray else None
        return convert_unknown(leaf, run) if kind is None else put_known(leaf, kind, run)

    return convert


def _fitted(array: np.ndarray, dtype: np.dtype[Any], run: Run) -> np.ndarray:
    """The array as JAX's arrays of this type, of which JAX makes no copy some time later: aligned, if it is large."""
    if array.size * dtype.itemsize < _COPIED_AT_ONCE_BYTES:
        return array.astype(dtype, copy=False)
    if array.dtype == dtype and is_aligned(array, _ALIGNMENT):
        return array
    return run.slots.copied(array, dtype)


@functools.cache
def _batched_device_put() -> Callable[..., Any] | None:
    """What jax.device_put calls in the end, if it is where it was, and does what it did."""
    import jax

    try:
        from jax._src.lib import xla_client

        probe = np.arange(3, dtype=np.float32)
        device = jax.local_devices(backend="cpu")[0]
        placement = jax.sharding.SingleDeviceSharding(device)
        aval = jax.core.ShapedArray(probe.shape, probe.dtype)
        found: Callable[..., Any] = xla_client.batched_device_put
        same = np.asarray(found(aval, placement, [probe], [device], False)).tolist() == [0, 1, 2]
    except Exception:  # no part of JAX's public interface: whatever it does, there is the other way
        return None
    return found if same else None


class _AheadIterator(FeedIterator):
    """Puts the next element on its way before it gives one out. Its position is that of the one given out."""

    def __init__(self, open_run: Callable[[], Run], convert: Convert) -> None:
        super().__init__(open_run, convert)
        self._ahead: list[Any] = []
        self._error: Exception | None = None
        self._position: dict[str, Any] | None = None

    def __next__(self) -> Any:
        if not self._ahead and self._error is None:
            self._position = self.run.state_dict()
            self._fetch()
        if not self._ahead and self._error is not None:
            error, self._error, self._position = self._error, None, None
            try:
                raise error
            finally:
                del error  # its traceback has this frame
        # An interrupt, as by Ctrl-C, leaves all as it is: the element has not been given yet.
        position = self.run.state_dict()
        self._fetch()
        self._position = position
        return self._ahead.pop(0)

    def _fetch(self) -> None:
        if self._error is None:
            try:
                self._ahead.append(super().__next__())
            except Exception as error:  # the element before it comes first
                self._error = error

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() if self._position is None else self._position

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)  # which may be refused
        self._ahead, self._error, self._position = [], None, None

    def close(self) -> None:
        self._ahead = []
        super().close()


class _AheadFeed(Feed):
    def __iter__(self) -> FeedIterator:
        return _AheadIterator(self.open_run, self.convert)
