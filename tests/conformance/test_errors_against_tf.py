"""Misuse: what tf.data rejects, penstock rejects too, naming the operator and the user's own line.

Rows stand under what the real tf.data does: whether it raises while building or while iterating, and what. Rows under
NOT_RUN would hang it or end its process, and those under ACCEPTED pass silently there; penstock refuses them all.
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

NOT_RUN = "not run"
ACCEPTED = "accepted"
EITHER = (ValueError, TypeError)
INDEX = (ValueError, IndexError)

Build = Callable[[Any], Any]
Kind = type[Exception] | tuple[type[Exception], ...]


@dataclass(frozen=True)
class Misuse:
    name: str
    build: Build
    tf: str
    """When and what tf.data raises: "build ValueError", "iterate InvalidArgumentError"."""
    kind: Kind
    """What penstock's exception is, besides a PenstockError."""

    @property
    def operator(self) -> str:
        return self.name.partition(":")[0]

    def __repr__(self) -> str:
        return self.name


ROWS: list[Misuse] = []


def rejected(tf: str, kind: Kind, builds: dict[str, Build]) -> None:
    ROWS.extend(Misuse(name, build, tf, kind) for name, build in builds.items())


def r(L: Any, n: int = 3) -> Any:
    return L.Dataset.range(n)


def slices(L: Any, *parts: Any) -> Any:
    return L.Dataset.from_tensor_slices(parts if len(parts) > 1 else parts[0])


def vectors(L: Any, n: int = 4) -> Any:
    return L.Dataset.range(n).map(lambda x: L.fill(x, x))


def rows(L: Any) -> Any:
    return L.Dataset.from_tensor_slices(matrix(3, 2))


def generated(L: Any, value: Any, signature: Any = None) -> Any:
    signature = L.spec((), np.int64) if signature is None else signature
    return L.Dataset.from_generator(lambda: iter([value]), output_signature=signature)


def grouped(L: Any, key: Any = None, reduce: Any = None, **size: Any) -> Any:
    return r(L).group_by_window(key or (lambda x: x), reduce or (lambda k, w: w.batch(2)), **size)


rejected(
    "build ValueError",
    ValueError,
    {
        "from_tensor_slices: scalar": lambda L: slices(L, np.int64(3)),
        "from_tensor_slices: unequal lengths": lambda L: slices(L, np.arange(3), np.arange(4)),
        "from_tensor_slices: unequal lengths in a dict": lambda L: slices(L, {"a": np.arange(3), "b": np.arange(4)}),
        "from_tensor_slices: a scalar among arrays": lambda L: slices(L, np.arange(3), np.int64(1)),
        "padded_batch: shape too small": lambda L: rows(L).padded_batch(2, padded_shapes=[1]),
        "padded_batch: shape of wrong rank": lambda L: rows(L).padded_batch(2, padded_shapes=[2, 2]),
        "padded_batch: shape of wrong rank for scalars": lambda L: r(L).padded_batch(2, padded_shapes=[2]),
        "padded_batch: shape of wrong rank after map": lambda L: vectors(L).padded_batch(4, padded_shapes=[2, 2]),
        "padded_batch: padding not a scalar": lambda L: rows(L).padded_batch(2, padding_values=np.zeros(2, np.float32)),
        "unbatch: scalars": lambda L: r(L).unbatch(),
        "unbatch: unequal lengths": lambda L: L.Dataset.from_tensors((np.arange(3), np.arange(4))).unbatch(),
        "rebatch: scalars": lambda L: r(L).rebatch(2),
        "rebatch: unequal lengths": lambda L: L.Dataset.from_tensors((np.arange(3), np.arange(4))).rebatch(2),
        "group_by_window: window_size and window_size_func": lambda L: grouped(
            L, window_size=2, window_size_func=lambda k: k
        ),
        "group_by_window: neither size": lambda L: grouped(L),
        "bucket_by_sequence_length: too few batch sizes": lambda L: vectors(L).bucket_by_sequence_length(
            L.short_length, [2], [2]
        ),
        "sample_from_datasets: no datasets": lambda L: L.Dataset.sample_from_datasets([]),
        "sample_from_datasets: too few weights": lambda L: L.Dataset.sample_from_datasets([r(L), r(L)], weights=[1.0]),
        "choose_from_datasets: no datasets": lambda L: L.Dataset.choose_from_datasets([], r(L)),
    },
)
rejected(
    "build ValueError",
    EITHER,
    {
        "from_tensor_slices: no components": lambda L: slices(L, ()),
        "from_tensor_slices: no components in a dict": lambda L: slices(L, {}),
        "from_tensor_slices: a list of unequal lists": lambda L: slices(L, [[1], [1, 2]]),
        "from_tensor_slices: None": lambda L: slices(L, None),
        "from_tensor_slices: any object": lambda L: slices(L, object()),
        "from_tensor_slices: an array of objects": lambda L: slices(L, np.array([object()] * 2, object)),
        "from_tensors: any object": lambda L: L.Dataset.from_tensors(object()),
        "range: no arguments": lambda L: L.Dataset.range(),
        "range: four arguments": lambda L: L.Dataset.range(1, 2, 3, 4),
        "map: not callable": lambda L: r(L).map(3),
        "filter: not callable": lambda L: r(L).filter(3),
        "filter: returns an int": lambda L: r(L).filter(lambda x: x),
        "filter: returns a vector": lambda L: rows(L).filter(lambda x: x > 1),
        "filter: returns None": lambda L: r(L).filter(lambda x: None),
        "filter: returns a float": lambda L: r(L).filter(lambda x: L.cast(x, np.float32)),
        "take_while: returns an int": lambda L: r(L).take_while(lambda x: x),
        "take_while: returns a vector": lambda L: rows(L).take_while(lambda x: x > 1),
        "reduce: not callable": lambda L: r(L).reduce(np.int64(0), 3),
        "padded_batch: shapes of wrong structure": lambda L: r(L).padded_batch(2, padded_shapes=([], [])),
        "rebatch: sizes of rank 2": lambda L: r(L, 6).batch(3).rebatch([[1]]),
        "group_by_window: a float as key": lambda L: grouped(L, lambda x: L.cast(x, np.float32), window_size=2),
        "group_by_window: a vector as key": lambda L: grouped(L, lambda x: L.fill(2, x), window_size=2),
        "take: None": lambda L: r(L).take(None),
        "skip: None": lambda L: r(L).skip(None),
    },
)
rejected(
    "build InvalidArgumentError",
    ValueError,
    {
        "range: step 0": lambda L: L.Dataset.range(0, 5, 0),
        "list_files: nothing matches": lambda L: L.Dataset.list_files("/no/such/*.thing", shuffle=False),
        "map: num_parallel_calls 0": lambda L: r(L).map(lambda x: x, num_parallel_calls=0),
        "map: num_parallel_calls -3": lambda L: r(L).map(lambda x: x, num_parallel_calls=-3),
        "interleave: cycle_length 0": lambda L: r(L).interleave(lambda x: r(L), cycle_length=0),
        "interleave: cycle_length -2": lambda L: r(L).interleave(lambda x: r(L), cycle_length=-2),
        "interleave: block_length 0": lambda L: r(L).interleave(lambda x: r(L), cycle_length=2, block_length=0),
        "interleave: block_length -1": lambda L: r(L).interleave(lambda x: r(L), cycle_length=2, block_length=-1),
        "interleave: num_parallel_calls 0": lambda L: r(L).interleave(
            lambda x: r(L), cycle_length=2, num_parallel_calls=0
        ),
        "interleave: more calls than cycle_length": lambda L: r(L).interleave(
            lambda x: r(L), cycle_length=2, num_parallel_calls=5
        ),
        "shard: no shards": lambda L: r(L).shard(0, 0),
        "prefetch: size -2": lambda L: r(L).prefetch(-2),
        "get_single_element: no element": lambda L: r(L, 0).get_single_element(),
        "get_single_element: two elements": lambda L: r(L, 2).get_single_element(),
        "get_single_element: endless": lambda L: r(L).repeat().get_single_element(),
    },
)
rejected(
    "build TypeError",
    TypeError,
    {
        "from_generator: not callable": lambda L: L.Dataset.from_generator([1], output_signature=L.spec((), np.int64)),
        "from_generator: signature of no specs": lambda L: generated(L, 1, np.int64),
        "range: a float": lambda L: L.Dataset.range(2.5),
        "range: text": lambda L: L.Dataset.range("a"),
        "counter: a float": lambda L: L.Dataset.counter(1.5),
        "list_files: a number": lambda L: L.Dataset.list_files(3),
        "flat_map: returns two datasets": lambda L: r(L).flat_map(lambda x: (r(L), r(L))),
        "scan: state changes its dtype": lambda L: r(L).scan(np.int64(0), lambda s, x: (L.cast(s, np.float32), x)),
        "scan: returns one thing": lambda L: r(L).scan(np.int64(0), lambda s, x: s),
        "scan: returns three things": lambda L: r(L).scan(np.int64(0), lambda s, x: (s, s, s)),
        "reduce: state changes its dtype": lambda L: r(L).reduce(np.int64(0), lambda s, x: L.cast(s, np.float32)),
        "batch: a float": lambda L: r(L).batch(2.5),
        "batch: text": lambda L: r(L).batch("a"),
        "padded_batch: padding of wrong dtype": lambda L: rows(L).padded_batch(
            2, padded_shapes=[3], padding_values=np.int64(1)
        ),
        "padded_batch: padding of wrong structure": lambda L: rows(L).padded_batch(
            2, padding_values=(np.float32(1), np.float32(1))
        ),
        "padded_batch: one padding for two dtypes": lambda L: slices(L, matrix(3, 2), np.arange(3)).padded_batch(
            2, padding_values=np.float32(1)
        ),
        "padded_batch: windows": lambda L: r(L).window(2).padded_batch(2),
        "sparse_batch: two components": lambda L: slices(L, matrix(3, 2), matrix(3, 2)).sparse_batch(2, [2]),
        "rebatch: text": lambda L: r(L, 6).batch(3).rebatch("a"),
        "group_by_window: reduce_func gives no dataset": lambda L: grouped(L, reduce=lambda k, w: k, window_size=2),
        "shuffle: a float": lambda L: r(L).shuffle(2.5),
        "shuffle: text as seed": lambda L: r(L).shuffle(2, seed="a"),
        "repeat: a float": lambda L: r(L).repeat(1.5),
        "take: a float": lambda L: r(L).take(1.5),
        "skip: a float": lambda L: r(L).skip(1.5),
        "shard: a float": lambda L: r(L).shard(2, 1.5),
        "enumerate: a float": lambda L: r(L).enumerate(1.5),
        "enumerate: text": lambda L: r(L).enumerate("a"),
        "prefetch: text": lambda L: r(L).prefetch("a"),
        "zip: a list": lambda L: L.Dataset.zip([r(L), r(L)]),
        "zip: a number among datasets": lambda L: L.Dataset.zip((r(L), 3)),
        "concatenate: other dtype": lambda L: r(L).concatenate(L.Dataset.range(3, output_type=np.int32)),
        "concatenate: other structure": lambda L: r(L).concatenate(r(L).enumerate()),
        "concatenate: other keys": lambda L: slices(L, {"a": np.arange(3)}).concatenate(slices(L, {"b": np.arange(3)})),
        "concatenate: tuple to namedtuple": lambda L: slices(L, Point(np.arange(3), np.arange(3))).concatenate(
            slices(L, np.arange(3), np.arange(3))
        ),
        "sample_from_datasets: other dtype": lambda L: L.Dataset.sample_from_datasets(
            [r(L), L.Dataset.range(3, output_type=np.int32)]
        ),
        "sample_from_datasets: other structure": lambda L: L.Dataset.sample_from_datasets([r(L), r(L).enumerate()]),
        "choose_from_datasets: floats as choice": lambda L: L.Dataset.choose_from_datasets(
            [r(L)], slices(L, np.zeros(3))
        ),
        "choose_from_datasets: vectors as choice": lambda L: L.Dataset.choose_from_datasets(
            [r(L)], slices(L, np.zeros((3, 1), np.int64))
        ),
        "choose_from_datasets: tuples as choice": lambda L: L.Dataset.choose_from_datasets([r(L)], r(L).enumerate()),
        "choose_from_datasets: a list as choice": lambda L: L.Dataset.choose_from_datasets([r(L)], [0, 0]),
        "choose_from_datasets: other dtype": lambda L: L.Dataset.choose_from_datasets(
            [r(L), L.Dataset.range(3, output_type=np.int32)], r(L)
        ),
        "rejection_resample: a float as class": lambda L: r(L).rejection_resample(
            lambda x: L.cast(x, np.float32), [0.5, 0.5], [0.5, 0.5]
        ),
        "apply: returns no dataset": lambda L: r(L).apply(lambda d: 3),
        "apply: not callable": lambda L: r(L).apply(3),
    },
)
rejected(
    "iterate InvalidArgumentError",
    TypeError,
    {
        "from_generator: not iterable": lambda L: L.Dataset.from_generator(
            lambda: 3, output_signature=L.spec((), np.int64)
        ),
    },
)
rejected(
    "iterate InvalidArgumentError",
    EITHER,
    {
        "from_generator: wrong shape": lambda L: generated(L, np.zeros(2, np.int64)),
        "from_generator: wrong dtype": lambda L: generated(L, b"a"),
        "from_generator: wrong structure": lambda L: generated(L, (1, 2), (L.spec((), np.int64),)),
        "from_generator: wrong keys": lambda L: generated(L, {"b": 1}, {"a": L.spec((), np.int64)}),
        "from_generator: None": lambda L: generated(L, None),
        "range: bool output_type": lambda L: L.Dataset.range(3, output_type=np.bool_),
        "scan: state changes its structure": lambda L: r(L).scan(np.int64(0), lambda s, x: ((s, s), x)),
    },
)
rejected(
    ACCEPTED,
    EITHER,
    {
        "from_generator: 2.7 as an int": lambda L: generated(L, 2.7),
    },
)
rejected(
    "build InvalidArgumentError",
    EITHER,
    {
        "from_tensors: no components": lambda L: L.Dataset.from_tensors(()),
        "from_tensors: no components in a dict": lambda L: L.Dataset.from_tensors({}),
        "map: returns None": lambda L: r(L).map(lambda x: None),
        "map: returns no components": lambda L: r(L).map(lambda x: ()),
        "map: returns an empty dict": lambda L: r(L).map(lambda x: {}),
        "reduce: state changes its structure": lambda L: r(L).reduce(np.int64(0), lambda s, x: (s, s)),
        "zip: nothing": lambda L: L.Dataset.zip(()),
    },
)
rejected(
    "build TypeError",
    EITHER,
    {
        "map: returns any object": lambda L: r(L).map(lambda x: object()),
        "map: returns a set": lambda L: r(L).map(lambda x: {1, 2}),
        "map: returns a list of unequal lists": lambda L: r(L).map(lambda x: (x, [[1], [1, 2]])),
        "zip: no arguments": lambda L: L.Dataset.zip(),
    },
)
rejected(
    "build AttributeError",
    EITHER,
    {
        "filter: returns a tuple": lambda L: r(L).filter(lambda x: (True, True)),
    },
)
rejected(
    "build AttributeError",
    TypeError,
    {
        "flat_map: returns no dataset": lambda L: r(L).flat_map(lambda x: x),
        "interleave: returns no dataset": lambda L: r(L).interleave(lambda x: x, cycle_length=2),
        "concatenate: an array": lambda L: r(L).concatenate(np.arange(3)),
        "with_options: no options": lambda L: r(L).with_options(3),
    },
)
rejected(
    NOT_RUN,
    ValueError,
    {
        "batch: num_parallel_calls 0": lambda L: r(L).batch(2, num_parallel_calls=0),
        "rebatch: size 0": lambda L: r(L, 6).batch(3).rebatch(0),
        "rebatch: only zeros in a list": lambda L: r(L, 6).batch(3).rebatch([0, 0]),
    },
)
rejected(
    "iterate InvalidArgumentError",
    ValueError,
    {
        "batch: unequal shapes": lambda L: vectors(L).batch(2),
        "sparse_batch: row_shape of wrong rank": lambda L: vectors(L).sparse_batch(2, [3, 3]),
        "unbatch: unequal lengths after map": lambda L: r(L).map(lambda x: (L.fill(x, x), L.fill(2, x))).unbatch(),
        "group_by_window: window_size_func gives 0": lambda L: grouped(L, window_size_func=lambda k: k * 0),
        "bucket_by_sequence_length: batch size 0": lambda L: vectors(L).bucket_by_sequence_length(
            L.short_length, [2], [0, 2]
        ),
    },
)
rejected(
    "iterate DataLossError",
    ValueError,
    {
        "padded_batch: shape too small for one row": lambda L: vectors(L).padded_batch(4, padded_shapes=[2]),
        "sparse_batch: a row too long": lambda L: vectors(L, 5).sparse_batch(5, [3]),
    },
)
rejected(
    NOT_RUN,
    ValueError,
    {
        "rebatch: size -3": lambda L: r(L, 6).batch(3).rebatch(-3),
        "rebatch: a negative size in a list": lambda L: r(L, 6).batch(3).rebatch([2, -1]),
    },
)
rejected(
    "build IndexError",
    INDEX,
    {
        "rebatch: an empty list": lambda L: r(L, 6).batch(3).rebatch([]),
    },
)
rejected(
    "iterate InternalError",
    ValueError,
    {
        "bucket_by_sequence_length: too long for the last boundary": lambda L: vectors(L, 6).bucket_by_sequence_length(
            L.short_length, [2], [9, 2], pad_to_bucket_boundary=True
        ),
    },
)
rejected(
    "build InvalidArgumentError",
    INDEX,
    {
        "shard: index too large": lambda L: r(L).shard(2, 2),
        "shard: index negative": lambda L: r(L).shard(2, -1),
    },
)
rejected(
    "iterate FailedPreconditionError",
    ValueError,
    {
        "shard: shards negative": lambda L: r(L).shard(-1, 0),
    },
)
rejected(
    "iterate InvalidArgumentError",
    INDEX,
    {
        "choose_from_datasets: choice out of range": lambda L: L.Dataset.choose_from_datasets(
            [r(L)], L.Dataset.range(1, 3)
        ),
        "choose_from_datasets: choice negative": lambda L: L.Dataset.choose_from_datasets(
            [r(L)], L.Dataset.range(-1, 1)
        ),
    },
)

for size in (0, -1):
    rejected(
        "build InvalidArgumentError",
        ValueError,
        {
            f"batch: size {size}": lambda L, s=size: r(L).batch(s),
            f"padded_batch: size {size}": lambda L, s=size: r(L).padded_batch(s),
            f"ragged_batch: size {size}": lambda L, s=size: vectors(L).ragged_batch(s),
            f"sparse_batch: size {size}": lambda L, s=size: vectors(L).sparse_batch(s, [3]),
            f"window: size {size}": lambda L, s=size: r(L).window(s),
            f"window: shift {size}": lambda L, s=size: r(L).window(2, shift=s),
            f"window: stride {size}": lambda L, s=size: r(L).window(2, stride=s),
        },
    )
    rejected(
        "iterate InvalidArgumentError",
        ValueError,
        {f"group_by_window: window_size {size}": lambda L, s=size: grouped(L, window_size=s)},
    )
for size in (0, -1, -3):
    rejected("build InvalidArgumentError", ValueError, {f"shuffle: size {size}": lambda L, s=size: r(L).shuffle(s)})


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


@pytest.mark.parametrize("misuse", [row for row in ROWS if row.tf != NOT_RUN], ids=repr)
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


@pytest.mark.parametrize("side", [oracle_tf, on_penstock], ids=["tf.data", "penstock"])
def test_len_of_what_has_no_length_is_a_type_error(side: Any) -> None:
    assert len(r(side.L).batch(2)) == 2
    with pytest.raises(TypeError, match="infinite"):
        len(r(side.L).repeat())
    with pytest.raises(TypeError):
        len(r(side.L).filter(lambda x: True))
