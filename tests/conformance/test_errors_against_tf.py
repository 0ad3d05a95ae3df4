"""Misuse: what tf.data rejects, penstock rejects too, naming the operator and the user's own line.

Each row records what the real tf.data does: while building or while iterating, and with which exception. Rows marked HANGS or CRASHES
take the process with them there, and ACCEPTED ones pass silently; penstock refuses them all the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from . import on_penstock, oracle_tf
from .on_penstock import Bad, ps
from .programs.data import Point, matrix

pytestmark = pytest.mark.timeout(60)

INVALID = "InvalidArgumentError"
HANGS = CRASHES = "not run"
ACCEPTED = "accepted"


@dataclass(frozen=True)
class Misuse:
    operator: str
    what: str
    build: Callable[[Any], Any]
    tf: str
    """When and what tf.data raises: "build ValueError", "iterate InvalidArgumentError"."""
    kind: type[Exception] | tuple[type[Exception], ...]
    """What penstock's exception is, besides a PenstockError."""

    def __repr__(self) -> str:
        return f"{self.operator}: {self.what}"


ROWS: list[Misuse] = []


def row(operator: str, what: str, build: Callable[[Any], Any], tf: str, kind: Any = ValueError) -> None:
    ROWS.append(Misuse(operator, what, build, tf, kind))


def r(L: Any, n: int = 3) -> Any:
    return L.Dataset.range(n)


def vectors(L: Any, n: int = 4) -> Any:
    return L.Dataset.range(n).map(lambda x: L.fill(x, x))


def rows(L: Any) -> Any:
    return L.Dataset.from_tensor_slices(matrix(3, 2))


# Sources
row("from_tensor_slices", "scalar", lambda L: L.Dataset.from_tensor_slices(np.int64(3)), "build ValueError")
row(
    "from_tensor_slices",
    "unequal lengths",
    lambda L: L.Dataset.from_tensor_slices((np.arange(3), np.arange(4))),
    "build ValueError",
)
row(
    "from_tensor_slices",
    "unequal lengths in a dict",
    lambda L: L.Dataset.from_tensor_slices({"a": np.arange(3), "b": np.arange(4)}),
    "build ValueError",
)
row(
    "from_tensor_slices",
    "a scalar among arrays",
    lambda L: L.Dataset.from_tensor_slices((np.arange(3), np.int64(1))),
    "build ValueError",
)
row("from_tensor_slices", "no components", lambda L: L.Dataset.from_tensor_slices(()), "build ValueError")
row("from_tensor_slices", "no components in a dict", lambda L: L.Dataset.from_tensor_slices({}), "build ValueError")
row(
    "from_tensor_slices",
    "None",
    lambda L: L.Dataset.from_tensor_slices(None),
    "build ValueError",
    (ValueError, TypeError),
)
row(
    "from_tensor_slices",
    "any object",
    lambda L: L.Dataset.from_tensor_slices(object()),
    "build ValueError",
    (ValueError, TypeError),
)
row(
    "from_tensor_slices",
    "a list of unequal lists",
    lambda L: L.Dataset.from_tensor_slices([[1], [1, 2]]),
    "build ValueError",
)
row(
    "from_tensor_slices",
    "an array of objects",
    lambda L: L.Dataset.from_tensor_slices(np.array([object()] * 2, object)),
    "build ValueError",
    (ValueError, TypeError),
)
row("from_tensors", "no components", lambda L: L.Dataset.from_tensors(()), f"build {INVALID}")
row("from_tensors", "no components in a dict", lambda L: L.Dataset.from_tensors({}), f"build {INVALID}")
row(
    "from_tensors",
    "any object",
    lambda L: L.Dataset.from_tensors(object()),
    "build ValueError",
    (ValueError, TypeError),
)
row(
    "from_generator",
    "not callable",
    lambda L: L.Dataset.from_generator([1], output_signature=L.spec((), np.int64)),
    "build TypeError",
    TypeError,
)
row(
    "from_generator",
    "signature of no specs",
    lambda L: L.Dataset.from_generator(lambda: iter([1]), output_signature=np.int64),
    "build TypeError",
    TypeError,
)
row(
    "from_generator",
    "not iterable",
    lambda L: L.Dataset.from_generator(lambda: 3, output_signature=L.spec((), np.int64)),
    f"iterate {INVALID}",
    TypeError,
)
row(
    "from_generator",
    "wrong shape",
    lambda L: L.Dataset.from_generator(lambda: iter([np.zeros(2, np.int64)]), output_signature=L.spec((), np.int64)),
    f"iterate {INVALID}",
    (TypeError, ValueError),
)
row(
    "from_generator",
    "wrong dtype",
    lambda L: L.Dataset.from_generator(lambda: iter([b"a"]), output_signature=L.spec((), np.int64)),
    f"iterate {INVALID}",
    (TypeError, ValueError),
)
row(
    "from_generator",
    "wrong structure",
    lambda L: L.Dataset.from_generator(lambda: iter([(1, 2)]), output_signature=(L.spec((), np.int64),)),
    f"iterate {INVALID}",
    (TypeError, ValueError),
)
row(
    "from_generator",
    "wrong keys",
    lambda L: L.Dataset.from_generator(lambda: iter([{"b": 1}]), output_signature={"a": L.spec((), np.int64)}),
    f"iterate {INVALID}",
    (TypeError, ValueError),
)
row(
    "from_generator",
    "None",
    lambda L: L.Dataset.from_generator(lambda: iter([None]), output_signature=L.spec((), np.int64)),
    f"iterate {INVALID}",
    (TypeError, ValueError),
)
row(
    "from_generator",
    "2.7 as an int",
    lambda L: L.Dataset.from_generator(lambda: iter([2.7]), output_signature=L.spec((), np.int64)),
    ACCEPTED,
    (TypeError, ValueError),
)
row("range", "no arguments", lambda L: L.Dataset.range(), "build ValueError", (ValueError, TypeError))
row("range", "four arguments", lambda L: L.Dataset.range(1, 2, 3, 4), "build ValueError", (ValueError, TypeError))
row("range", "step 0", lambda L: L.Dataset.range(0, 5, 0), f"build {INVALID}")
row("range", "a float", lambda L: L.Dataset.range(2.5), "build TypeError", TypeError)
row("range", "text", lambda L: L.Dataset.range("a"), "build TypeError", TypeError)
row(
    "range",
    "bool output_type",
    lambda L: L.Dataset.range(3, output_type=np.bool_),
    f"iterate {INVALID}",
    (ValueError, TypeError),
)
row("counter", "a float", lambda L: L.Dataset.counter(1.5), "build TypeError", TypeError)
row(
    "list_files",
    "nothing matches",
    lambda L: L.Dataset.list_files("/no/such/*.thing", shuffle=False),
    f"build {INVALID}",
)
row("list_files", "a number", lambda L: L.Dataset.list_files(3), "build TypeError", TypeError)

# One element at a time
row("map", "not callable", lambda L: r(L).map(3), "build ValueError", (TypeError, ValueError))
row("map", "num_parallel_calls 0", lambda L: r(L).map(lambda x: x, num_parallel_calls=0), f"build {INVALID}")
row("map", "num_parallel_calls -3", lambda L: r(L).map(lambda x: x, num_parallel_calls=-3), f"build {INVALID}")
row("map", "returns None", lambda L: r(L).map(lambda x: None), f"build {INVALID}", (TypeError, ValueError))
row("map", "returns no components", lambda L: r(L).map(lambda x: ()), f"build {INVALID}", (TypeError, ValueError))
row("map", "returns an empty dict", lambda L: r(L).map(lambda x: {}), f"build {INVALID}", (TypeError, ValueError))
row("map", "returns any object", lambda L: r(L).map(lambda x: object()), "build TypeError", (TypeError, ValueError))
row("map", "returns a set", lambda L: r(L).map(lambda x: {1, 2}), "build TypeError", (TypeError, ValueError))
row(
    "map",
    "returns a list of unequal lists",
    lambda L: r(L).map(lambda x: (x, [[1], [1, 2]])),
    "build TypeError",
    (TypeError, ValueError),
)
row("filter", "not callable", lambda L: r(L).filter(3), "build ValueError", (TypeError, ValueError))
row("filter", "returns an int", lambda L: r(L).filter(lambda x: x), "build ValueError", (TypeError, ValueError))
row(
    "filter", "returns a vector", lambda L: rows(L).filter(lambda x: x > 1), "build ValueError", (TypeError, ValueError)
)
row(
    "filter",
    "returns a tuple",
    lambda L: r(L).filter(lambda x: (True, True)),
    "build AttributeError",
    (TypeError, ValueError),
)
row("filter", "returns None", lambda L: r(L).filter(lambda x: None), "build ValueError", (TypeError, ValueError))
row(
    "filter",
    "returns a float",
    lambda L: r(L).filter(lambda x: L.cast(x, np.float32)),
    "build ValueError",
    (TypeError, ValueError),
)
row("take_while", "returns an int", lambda L: r(L).take_while(lambda x: x), "build ValueError", (TypeError, ValueError))
row(
    "take_while",
    "returns a vector",
    lambda L: rows(L).take_while(lambda x: x > 1),
    "build ValueError",
    (TypeError, ValueError),
)
row("flat_map", "returns no dataset", lambda L: r(L).flat_map(lambda x: x), "build AttributeError", TypeError)
row("flat_map", "returns two datasets", lambda L: r(L).flat_map(lambda x: (r(L), r(L))), "build TypeError", TypeError)
row(
    "interleave",
    "returns no dataset",
    lambda L: r(L).interleave(lambda x: x, cycle_length=2),
    "build AttributeError",
    TypeError,
)
row("interleave", "cycle_length 0", lambda L: r(L).interleave(lambda x: r(L), cycle_length=0), f"build {INVALID}")
row("interleave", "cycle_length -2", lambda L: r(L).interleave(lambda x: r(L), cycle_length=-2), f"build {INVALID}")
row(
    "interleave",
    "block_length 0",
    lambda L: r(L).interleave(lambda x: r(L), cycle_length=2, block_length=0),
    f"build {INVALID}",
)
row(
    "interleave",
    "block_length -1",
    lambda L: r(L).interleave(lambda x: r(L), cycle_length=2, block_length=-1),
    f"build {INVALID}",
)
row(
    "interleave",
    "num_parallel_calls 0",
    lambda L: r(L).interleave(lambda x: r(L), cycle_length=2, num_parallel_calls=0),
    f"build {INVALID}",
)
row(
    "interleave",
    "more calls than cycle_length",
    lambda L: r(L).interleave(lambda x: r(L), cycle_length=2, num_parallel_calls=5),
    f"build {INVALID}",
)
row(
    "scan",
    "state changes its dtype",
    lambda L: r(L).scan(np.int64(0), lambda s, x: (L.cast(s, np.float32), x)),
    "build TypeError",
    TypeError,
)
row(
    "scan",
    "state changes its structure",
    lambda L: r(L).scan(np.int64(0), lambda s, x: ((s, s), x)),
    f"iterate {INVALID}",
    (TypeError, ValueError),
)
row("scan", "returns one thing", lambda L: r(L).scan(np.int64(0), lambda s, x: s), "build TypeError", TypeError)
row(
    "scan",
    "returns three things",
    lambda L: r(L).scan(np.int64(0), lambda s, x: (s, s, s)),
    "build TypeError",
    TypeError,
)
row(
    "reduce",
    "state changes its dtype",
    lambda L: r(L).reduce(np.int64(0), lambda s, x: L.cast(s, np.float32)),
    "build TypeError",
    TypeError,
)
row(
    "reduce",
    "state changes its structure",
    lambda L: r(L).reduce(np.int64(0), lambda s, x: (s, s)),
    f"build {INVALID}",
    (TypeError, ValueError),
)
row("reduce", "not callable", lambda L: r(L).reduce(np.int64(0), 3), "build ValueError", (TypeError, ValueError))

# Batches
for size in (0, -1):
    row("batch", f"size {size}", lambda L, s=size: r(L).batch(s), f"build {INVALID}")
    row("padded_batch", f"size {size}", lambda L, s=size: r(L).padded_batch(s), f"build {INVALID}")
    row("ragged_batch", f"size {size}", lambda L, s=size: vectors(L).ragged_batch(s), f"build {INVALID}")
    row("sparse_batch", f"size {size}", lambda L, s=size: vectors(L).sparse_batch(s, [3]), f"build {INVALID}")
    row("window", f"size {size}", lambda L, s=size: r(L).window(s), f"build {INVALID}")
    row("window", f"shift {size}", lambda L, s=size: r(L).window(2, shift=s), f"build {INVALID}")
    row("window", f"stride {size}", lambda L, s=size: r(L).window(2, stride=s), f"build {INVALID}")
    row(
        "group_by_window",
        f"window_size {size}",
        lambda L, s=size: r(L).group_by_window(lambda x: x, lambda k, w: w.batch(2), window_size=s),
        f"iterate {INVALID}",
    )
row("batch", "a float", lambda L: r(L).batch(2.5), "build TypeError", TypeError)
row("batch", "text", lambda L: r(L).batch("a"), "build TypeError", TypeError)
row("batch", "num_parallel_calls 0", lambda L: r(L).batch(2, num_parallel_calls=0), HANGS)
row("batch", "unequal shapes", lambda L: vectors(L).batch(2), f"iterate {INVALID}")
row("padded_batch", "shape too small", lambda L: rows(L).padded_batch(2, padded_shapes=[1]), "build ValueError")
row(
    "padded_batch",
    "shape too small for one row",
    lambda L: vectors(L).padded_batch(4, padded_shapes=[2]),
    "iterate DataLossError",
)
row("padded_batch", "shape of wrong rank", lambda L: rows(L).padded_batch(2, padded_shapes=[2, 2]), "build ValueError")
row(
    "padded_batch",
    "shape of wrong rank for scalars",
    lambda L: r(L).padded_batch(2, padded_shapes=[2]),
    "build ValueError",
)
row(
    "padded_batch",
    "shape of wrong rank after map",
    lambda L: vectors(L).padded_batch(4, padded_shapes=[2, 2]),
    "build ValueError",
)
row(
    "padded_batch",
    "shapes of wrong structure",
    lambda L: r(L).padded_batch(2, padded_shapes=([], [])),
    "build ValueError",
    (ValueError, TypeError),
)
row(
    "padded_batch",
    "padding of wrong dtype",
    lambda L: rows(L).padded_batch(2, padded_shapes=[3], padding_values=np.int64(1)),
    "build TypeError",
    TypeError,
)
row(
    "padded_batch",
    "padding of wrong structure",
    lambda L: rows(L).padded_batch(2, padding_values=(np.float32(1), np.float32(1))),
    "build TypeError",
    TypeError,
)
row(
    "padded_batch",
    "padding not a scalar",
    lambda L: rows(L).padded_batch(2, padding_values=np.zeros(2, np.float32)),
    "build ValueError",
)
row(
    "padded_batch",
    "one padding for two dtypes",
    lambda L: L.Dataset.from_tensor_slices((matrix(3, 2), np.arange(3))).padded_batch(2, padding_values=np.float32(1)),
    "build TypeError",
    TypeError,
)
row("padded_batch", "windows", lambda L: r(L).window(2).padded_batch(2), "build TypeError", TypeError)
row("sparse_batch", "row_shape of wrong rank", lambda L: vectors(L).sparse_batch(2, [3, 3]), f"iterate {INVALID}")
row("sparse_batch", "a row too long", lambda L: vectors(L, 5).sparse_batch(5, [3]), "iterate DataLossError")
row(
    "sparse_batch",
    "two components",
    lambda L: L.Dataset.from_tensor_slices((matrix(3, 2), matrix(3, 2))).sparse_batch(2, [2]),
    "build TypeError",
    TypeError,
)
row("unbatch", "scalars", lambda L: r(L).unbatch(), "build ValueError")
row(
    "unbatch",
    "unequal lengths",
    lambda L: L.Dataset.from_tensors((np.arange(3), np.arange(4))).unbatch(),
    "build ValueError",
)
row(
    "unbatch",
    "unequal lengths after map",
    lambda L: r(L).map(lambda x: (L.fill(x, x), L.fill(2, x))).unbatch(),
    f"iterate {INVALID}",
)
row("rebatch", "size 0", lambda L: r(L, 6).batch(3).rebatch(0), HANGS)
row("rebatch", "size -3", lambda L: r(L, 6).batch(3).rebatch(-3), CRASHES)
row("rebatch", "a negative size in a list", lambda L: r(L, 6).batch(3).rebatch([2, -1]), CRASHES)
row("rebatch", "only zeros in a list", lambda L: r(L, 6).batch(3).rebatch([0, 0]), HANGS)
row("rebatch", "scalars", lambda L: r(L).rebatch(2), "build ValueError")
row("rebatch", "an empty list", lambda L: r(L, 6).batch(3).rebatch([]), "build IndexError", (ValueError, IndexError))
row(
    "rebatch", "sizes of rank 2", lambda L: r(L, 6).batch(3).rebatch([[1]]), "build ValueError", (ValueError, TypeError)
)
row("rebatch", "text", lambda L: r(L, 6).batch(3).rebatch("a"), "build TypeError", TypeError)
row(
    "rebatch",
    "unequal lengths",
    lambda L: L.Dataset.from_tensors((np.arange(3), np.arange(4))).rebatch(2),
    "build ValueError",
)

# Groups
row(
    "group_by_window",
    "window_size and window_size_func",
    lambda L: r(L).group_by_window(lambda x: x, lambda k, w: w, window_size=2, window_size_func=lambda k: k),
    "build ValueError",
)
row("group_by_window", "neither size", lambda L: r(L).group_by_window(lambda x: x, lambda k, w: w), "build ValueError")
row(
    "group_by_window",
    "window_size_func gives 0",
    lambda L: r(L).group_by_window(lambda x: x, lambda k, w: w.batch(2), window_size_func=lambda k: k * 0),
    f"iterate {INVALID}",
)
row(
    "group_by_window",
    "a float as key",
    lambda L: r(L).group_by_window(lambda x: L.cast(x, np.float32), lambda k, w: w.batch(2), window_size=2),
    "build ValueError",
    (TypeError, ValueError),
)
row(
    "group_by_window",
    "a vector as key",
    lambda L: r(L).group_by_window(lambda x: L.fill(2, x), lambda k, w: w.batch(2), window_size=2),
    "build ValueError",
    (TypeError, ValueError),
)
row(
    "group_by_window",
    "reduce_func gives no dataset",
    lambda L: r(L).group_by_window(lambda x: x, lambda k, w: k, window_size=2),
    "build TypeError",
    TypeError,
)
row(
    "bucket_by_sequence_length",
    "too few batch sizes",
    lambda L: vectors(L).bucket_by_sequence_length(L.short_length, [2], [2]),
    "build ValueError",
)
row(
    "bucket_by_sequence_length",
    "batch size 0",
    lambda L: vectors(L).bucket_by_sequence_length(L.short_length, [2], [0, 2]),
    f"iterate {INVALID}",
)
row(
    "bucket_by_sequence_length",
    "too long for the last boundary",
    lambda L: vectors(L, 6).bucket_by_sequence_length(L.short_length, [2], [9, 2], pad_to_bucket_boundary=True),
    "iterate InternalError",
)

# Order and number
for size in (0, -1, -3):
    row("shuffle", f"size {size}", lambda L, s=size: r(L).shuffle(s), f"build {INVALID}")
row("shuffle", "a float", lambda L: r(L).shuffle(2.5), "build TypeError", TypeError)
row("shuffle", "text as seed", lambda L: r(L).shuffle(2, seed="a"), "build TypeError", TypeError)
row("repeat", "a float", lambda L: r(L).repeat(1.5), "build TypeError", TypeError)
row("take", "a float", lambda L: r(L).take(1.5), "build TypeError", TypeError)
row("take", "None", lambda L: r(L).take(None), "build ValueError", (TypeError, ValueError))
row("skip", "a float", lambda L: r(L).skip(1.5), "build TypeError", TypeError)
row("skip", "None", lambda L: r(L).skip(None), "build ValueError", (TypeError, ValueError))
row("shard", "no shards", lambda L: r(L).shard(0, 0), f"build {INVALID}")
row("shard", "index too large", lambda L: r(L).shard(2, 2), f"build {INVALID}", (ValueError, IndexError))
row("shard", "index negative", lambda L: r(L).shard(2, -1), f"build {INVALID}", (ValueError, IndexError))
row("shard", "shards negative", lambda L: r(L).shard(-1, 0), "iterate FailedPreconditionError")
row("shard", "a float", lambda L: r(L).shard(2, 1.5), "build TypeError", TypeError)
row("enumerate", "a float", lambda L: r(L).enumerate(1.5), "build TypeError", TypeError)
row("enumerate", "text", lambda L: r(L).enumerate("a"), "build TypeError", TypeError)
row("prefetch", "size -2", lambda L: r(L).prefetch(-2), f"build {INVALID}")
row("prefetch", "text", lambda L: r(L).prefetch("a"), "build TypeError", TypeError)

# Several datasets
row("zip", "nothing", lambda L: L.Dataset.zip(()), f"build {INVALID}", (ValueError, TypeError))
row("zip", "no arguments", lambda L: L.Dataset.zip(), "build TypeError", (ValueError, TypeError))
row("zip", "a list", lambda L: L.Dataset.zip([r(L), r(L)]), "build TypeError", TypeError)
row("zip", "a number among datasets", lambda L: L.Dataset.zip((r(L), 3)), "build TypeError", TypeError)
row(
    "concatenate",
    "other dtype",
    lambda L: r(L).concatenate(L.Dataset.range(3, output_type=np.int32)),
    "build TypeError",
    TypeError,
)
row("concatenate", "other structure", lambda L: r(L).concatenate(r(L).enumerate()), "build TypeError", TypeError)
row(
    "concatenate",
    "other keys",
    lambda L: L.Dataset.from_tensor_slices({"a": np.arange(3)}).concatenate(
        L.Dataset.from_tensor_slices({"b": np.arange(3)})
    ),
    "build TypeError",
    TypeError,
)
row(
    "concatenate",
    "tuple to namedtuple",
    lambda L: L.Dataset.from_tensor_slices(Point(np.arange(3), np.arange(3))).concatenate(
        L.Dataset.from_tensor_slices((np.arange(3), np.arange(3)))
    ),
    "build TypeError",
    TypeError,
)
row("concatenate", "an array", lambda L: r(L).concatenate(np.arange(3)), "build AttributeError", TypeError)
row("sample_from_datasets", "no datasets", lambda L: L.Dataset.sample_from_datasets([]), "build ValueError")
row(
    "sample_from_datasets",
    "too few weights",
    lambda L: L.Dataset.sample_from_datasets([r(L), r(L)], weights=[1.0]),
    "build ValueError",
)
row(
    "sample_from_datasets",
    "other dtype",
    lambda L: L.Dataset.sample_from_datasets([r(L), L.Dataset.range(3, output_type=np.int32)]),
    "build TypeError",
    TypeError,
)
row(
    "sample_from_datasets",
    "other structure",
    lambda L: L.Dataset.sample_from_datasets([r(L), r(L).enumerate()]),
    "build TypeError",
    TypeError,
)
row("choose_from_datasets", "no datasets", lambda L: L.Dataset.choose_from_datasets([], r(L)), "build ValueError")
row(
    "choose_from_datasets",
    "floats as choice",
    lambda L: L.Dataset.choose_from_datasets([r(L)], L.Dataset.from_tensor_slices(np.zeros(3))),
    "build TypeError",
    TypeError,
)
row(
    "choose_from_datasets",
    "vectors as choice",
    lambda L: L.Dataset.choose_from_datasets([r(L)], L.Dataset.from_tensor_slices(np.zeros((3, 1), np.int64))),
    "build TypeError",
    TypeError,
)
row(
    "choose_from_datasets",
    "tuples as choice",
    lambda L: L.Dataset.choose_from_datasets([r(L)], r(L).enumerate()),
    "build TypeError",
    TypeError,
)
row(
    "choose_from_datasets",
    "a list as choice",
    lambda L: L.Dataset.choose_from_datasets([r(L)], [0, 0]),
    "build TypeError",
    TypeError,
)
row(
    "choose_from_datasets",
    "choice out of range",
    lambda L: L.Dataset.choose_from_datasets([r(L)], L.Dataset.range(1, 3)),
    f"iterate {INVALID}",
    (IndexError, ValueError),
)
row(
    "choose_from_datasets",
    "choice negative",
    lambda L: L.Dataset.choose_from_datasets([r(L)], L.Dataset.range(-1, 1)),
    f"iterate {INVALID}",
    (IndexError, ValueError),
)
row(
    "choose_from_datasets",
    "other dtype",
    lambda L: L.Dataset.choose_from_datasets([r(L), L.Dataset.range(3, output_type=np.int32)], r(L)),
    "build TypeError",
    TypeError,
)
row(
    "rejection_resample",
    "a float as class",
    lambda L: r(L).rejection_resample(lambda x: L.cast(x, np.float32), [0.5, 0.5], [0.5, 0.5]),
    "build TypeError",
    TypeError,
)

# Whole datasets
row("get_single_element", "no element", lambda L: r(L, 0).get_single_element(), f"build {INVALID}")
row("get_single_element", "two elements", lambda L: r(L, 2).get_single_element(), f"build {INVALID}")
row("get_single_element", "endless", lambda L: r(L).repeat().get_single_element(), f"build {INVALID}")
row("apply", "returns no dataset", lambda L: r(L).apply(lambda d: 3), "build TypeError", TypeError)
row("apply", "not callable", lambda L: r(L).apply(3), "build TypeError", TypeError)
row("with_options", "no options", lambda L: r(L).with_options(3), "build AttributeError", TypeError)
row("repeat", "len of endless", lambda L: len(r(L).repeat()), "build TypeError", TypeError)
row("filter", "len of unknown", lambda L: len(r(L).filter(lambda x: True)), "build TypeError", TypeError)


def provoked(side: Any, misuse: Misuse) -> tuple[str, Exception] | None:
    """Build and iterate a little: when something was raised, and what."""
    try:
        result = misuse.build(side.L)
    except Exception as error:
        return "build", error
    if isinstance(result, side.L.Dataset):
        try:
            for number, _ in enumerate(result):
                if number > 10:
                    break
        except Exception as error:
            return "iterate", error
    return None


@pytest.mark.parametrize("misuse", [row for row in ROWS if row.tf != "not run"], ids=repr)
def test_tf_data_does_what_the_table_says(misuse: Misuse) -> None:
    raised = provoked(oracle_tf, misuse)
    assert (ACCEPTED if raised is None else f"{raised[0]} {type(raised[1]).__name__}") == misuse.tf


@pytest.mark.parametrize("misuse", ROWS, ids=repr)
def test_penstock_rejects_it(misuse: Misuse) -> None:
    raised = provoked(on_penstock, misuse)
    assert raised is not None, "accepted"
    _, error = raised
    assert isinstance(error, ps.errors.PenstockError), repr(error)
    assert isinstance(error, misuse.kind), repr(error)
    assert misuse.operator in str(error), str(error)
    assert "test_errors_against_tf.py:" in str(error), str(error)


USER_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "map": lambda L: r(L, 5).map(lambda x: L.fail_on(x, 3)),
    "filter": lambda L: r(L, 5).filter(lambda x: L.fail_on(x, 3) >= 0),
    "take_while": lambda L: r(L, 5).take_while(lambda x: L.fail_on(x, 3) >= 0),
    "flat_map": lambda L: r(L, 5).flat_map(lambda x: L.Dataset.range(L.fail_on(x, 3))),
    "interleave": lambda L: r(L, 5).interleave(lambda x: L.Dataset.range(L.fail_on(x, 3)), cycle_length=2),
    "scan": lambda L: r(L, 5).scan(np.int64(0), lambda s, x: (s, L.fail_on(x, 3))),
    "reduce": lambda L: r(L, 5).reduce(np.int64(0), lambda s, x: s + L.fail_on(x, 3)),
    "random_map": lambda L: r(L, 5).random_map(lambda x, rng: L.fail_on(x, 3), seed=1),
    "group_by_window": lambda L: r(L, 5).group_by_window(
        lambda x: L.fail_on(x, 3), lambda k, w: w.batch(2), window_size=2
    ),
    "bucket_by_sequence_length": lambda L: vectors(L, 5).bucket_by_sequence_length(
        lambda v: L.fail_on(L.short_length(v), 3), [2], [2, 2]
    ),
}


@pytest.mark.parametrize("operator", USER_FUNCTIONS)
def test_the_users_own_exception_comes_as_it_is_with_a_note(operator: str) -> None:
    with pytest.raises(Bad) as caught:
        for _ in USER_FUNCTIONS[operator](on_penstock.L):
            pass
    note = "\n".join(caught.value.__notes__)
    assert operator in note
    assert "test_errors_against_tf.py:" in note


def test_wrong_number_of_arguments_is_a_type_error() -> None:
    with pytest.raises(TypeError) as caught:
        list(ps.Dataset.range(3).map(lambda a, b: a))
    assert "test_errors_against_tf.py:" in str(caught.value) + "\n".join(getattr(caught.value, "__notes__", []))
