"""Dataset: what users hold.

A Dataset is an immutable handle on a plan node. Its methods are made from the operators: `take = method(Take)` gives
the method the signature and the documentation of the class. Nothing runs before `run()` or `iter()`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from .errors import BadType, PenstockError
from .io.arrays import FromTensors, FromTensorSlices
from .io.files import ListFiles
from .io.generator import FromGenerator
from .io.numbers import Counter, Random, Range
from .memory.limits import available_bytes
from .observe.explain import Explanation, explain
from .ops.assert_cardinality import AssertCardinality
from .ops.batch import Batch
from .ops.bucket_by_sequence_length import BucketBySequenceLength
from .ops.cache import Cache
from .ops.choose_from_datasets import ChooseFromDatasets
from .ops.concatenate import Concatenate
from .ops.enumerate import Enumerate
from .ops.filter import Filter
from .ops.flat_map import FlatMap
from .ops.group_by_window import GroupByWindow
from .ops.ignore_errors import IgnoreErrors
from .ops.interleave import Interleave
from .ops.map import Map
from .ops.padded_batch import PaddedBatch
from .ops.prefetch import Prefetch
from .ops.ragged_batch import RaggedBatch
from .ops.random_map import RandomMap
from .ops.rebatch import Rebatch
from .ops.rejection_resample import RejectionResample
from .ops.repeat import Repeat
from .ops.sample_from_datasets import SampleFromDatasets
from .ops.scan import Scan
from .ops.shard import Shard
from .ops.shuffle import Shuffle
from .ops.skip import Skip
from .ops.sparse_batch import SparseBatch
from .ops.take import Take
from .ops.take_while import TakeWhile
from .ops.unbatch import Unbatch
from .ops.unique import Unique
from .ops.window import Window
from .ops.zip import Zip
from .optimize import optimized
from .options import DEFAULT_MEMORY_FRACTION, Options, parse_memory
from .plan.node import Node, caller_origin, located
from .plan.op import Op
from .runtime import terminal
from .runtime.run import Run
from .runtime.seen import seen_spec
from .spec import INFINITE

__all__ = ["Dataset"]


def method(op: type[Op]) -> Any:
    """A method that puts this operator on top of the dataset."""

    def wrapper(self: Dataset, *args: Any, name: str | None = None, **kwargs: Any) -> Dataset:
        return _made(op, lambda: (op(*args, **kwargs), [self]))

    return _documented(wrapper, op, op, ("self",))


def source(op: type[Op]) -> Any:
    """A static method that makes a dataset from this source."""

    def wrapper(*args: Any, name: str | None = None, **kwargs: Any) -> Dataset:
        return _made(op, lambda: (op(*args, **kwargs), []))

    return staticmethod(_documented(wrapper, op, op, ()))


def combination(op: Any) -> Any:
    """A static method that puts this operator on several datasets; `op.of` tells which."""

    def wrapper(*args: Any, name: str | None = None, **kwargs: Any) -> Dataset:
        return _made(op, lambda: op.of(*args, **kwargs))

    return staticmethod(_documented(wrapper, op, op.of, ()))


def combination_method(op: Any) -> Any:
    """Likewise a method: the dataset itself is the first one."""

    def wrapper(self: Dataset, *args: Any, name: str | None = None, **kwargs: Any) -> Dataset:
        return _made(op, lambda: op.of(self, *args, **kwargs))

    return _documented(wrapper, op, op.of, ())


def _made(op: type[Op], make: Callable[[], tuple[Op, list[Any]]]) -> Dataset:
    """The dataset of an operator on others; a mistake is told with the operator's name and the user's line."""
    origin = caller_origin()
    try:
        made, inputs = make()
        options = Options()
        for dataset in inputs:
            if not isinstance(dataset, Dataset):
                raise BadType(f"expected a dataset, got {type(dataset).__name__} {dataset!r:.60}")
            options = options.merged(dataset.options())
        return Dataset(Node(made, tuple(dataset.node for dataset in inputs), origin), options)
    except PenstockError as error:
        raise located(error, _name_of(op), origin) from None
    except TypeError as error:
        if "argument" not in str(error) or type(error) is not TypeError:
            raise
        text = str(error).replace(f"{op.__name__}.__init__()", f"{_name_of(op)}()")
        raise located(BadType(text), _name_of(op), origin) from None


def _name_of(op: type[Op]) -> str:
    return str(op.name.fget(op.__new__(op)))  # type: ignore[attr-defined]


def _documented(wrapper: Any, op: type[Op], signature_of: Any, first: tuple[str, ...]) -> Any:
    """Gives a method the signature and documentation of its operator."""
    hidden = (*getattr(op, "internal", ()), "drawn")
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in first]
    parameters += [p for p in inspect.signature(signature_of).parameters.values() if p.name not in hidden]
    wrapper.__signature__ = inspect.Signature(parameters, return_annotation="Dataset")
    wrapper.__doc__ = op.__doc__
    wrapper.__name__ = _name_of(op)
    wrapper.__qualname__ = f"Dataset.{wrapper.__name__}"
    return wrapper


class Dataset:
    """A pipeline: a source and operators, in the verbs of tf.data, on NumPy data.

    >>> import numpy as np, penstock as ps
    >>> ds = ps.Dataset.from_tensor_slices(np.arange(6)).map(lambda x: x * 2).batch(4)
    >>> list(ds)
    [array([0, 2, 4, 6]), array([ 8, 10])]
    """

    __penstock_dataset__: ClassVar[bool] = True

    def __init__(self, node: Node, options: Options | None = None) -> None:
        self.node = node
        self._options = options or Options()
        self._next_epoch = 0
        node.spec  # noqa: B018  a mistake is found here, at the user's line

    # Sources.
    from_tensor_slices = source(FromTensorSlices)
    from_tensors = source(FromTensors)
    from_generator = source(FromGenerator)
    range = source(Range)
    counter = source(Counter)
    random = source(Random)

    # Each element.
    map = method(Map)
    random_map = method(RandomMap)
    filter = method(Filter)
    enumerate = method(Enumerate)
    scan = method(Scan)
    take_while = method(TakeWhile)
    unique = method(Unique)
    ignore_errors = method(IgnoreErrors)
    assert_cardinality = method(AssertCardinality)

    # Which elements, and in which order.
    shuffle = method(Shuffle)
    repeat = method(Repeat)
    take = method(Take)
    skip = method(Skip)
    shard = method(Shard)

    # Elements into batches and windows, and out of them.
    batch = method(Batch)
    padded_batch = method(PaddedBatch)
    ragged_batch = method(RaggedBatch)
    sparse_batch = method(SparseBatch)
    unbatch = method(Unbatch)
    rebatch = method(Rebatch)
    window = method(Window)
    group_by_window = method(GroupByWindow)
    bucket_by_sequence_length = method(BucketBySequenceLength)

    # Datasets into one.
    flat_map = method(FlatMap)
    interleave = method(Interleave)
    zip = combination(Zip)
    concatenate = combination_method(Concatenate)
    sample_from_datasets = combination(SampleFromDatasets)
    choose_from_datasets = combination(ChooseFromDatasets)
    rejection_resample = method(RejectionResample)

    # When and where.
    prefetch = method(Prefetch)
    cache = method(Cache)

    @staticmethod
    def list_files(
        file_pattern: Any, shuffle: bool | None = None, seed: int | None = None, name: str | None = None
    ) -> Dataset:
        """The names of files that match a pattern, or one of several; shuffled unless `shuffle` is False.

        Args:
            file_pattern: A glob pattern, or a list of them.
            shuffle: Whether the names come in random order, another one each time. True unless given.
            seed: The same seed gives the same orders.
        """
        files = _made(ListFiles, lambda: (ListFiles(file_pattern), []))
        return files.shuffle(seed=seed) if shuffle or shuffle is None else files

    def apply(self, transformation_func: Callable[[Dataset], Any]) -> Dataset:
        """What a function makes of this dataset; for operators of your own in a chain of calls."""
        result = transformation_func(self)
        if not isinstance(result, Dataset):
            origin = caller_origin()
            raise located(BadType(f"expected a dataset back, got {type(result).__name__}"), "apply", origin)
        return result

    def reduce(self, initial_state: Any, reduce_func: Callable[..., Any], name: str | None = None) -> Any:
        """Folds all elements into one value: `reduce_func(state, element)` gives the next state.

        >>> import numpy as np, penstock as ps
        >>> ps.Dataset.range(5).reduce(np.int64(0), lambda state, x: state + x)
        np.int64(10)
        """
        return self._ended("reduce", lambda run: terminal.reduce(run, initial_state, reduce_func))

    def get_single_element(self, name: str | None = None) -> Any:
        """The only element; an error if there are none or more."""
        return self._ended("get_single_element", terminal.single_element)

    def _ended(self, name: str, consume: Callable[[Run], Any]) -> Any:
        origin = caller_origin()
        with self.run() as run:
            try:
                return consume(run)
            except PenstockError as error:
                raise located(error, name, origin) from None

    def as_numpy_iterator(self) -> Iterator[Any]:
        """An iterator over the elements, which are NumPy values anyhow."""
        return iter(self.run())

    def cardinality(self) -> int:
        """How many elements there are, or `INFINITE`, or `UNKNOWN` where only a run can tell."""
        return self.node.spec.cardinality

    def __len__(self) -> int:
        count = self.cardinality()
        if count < 0:
            why = "it is infinite" if count == INFINITE else "only a run can tell"
            raise TypeError(f"this dataset has no length: {why}")
        return count

    def __bool__(self) -> bool:
        return True  # as tf.data: a dataset is not a container

    @property
    def static_element_spec(self) -> Any:
        """What is known of the elements without calling anything."""
        return self.node.spec.element

    @property
    def element_spec(self) -> Any:
        """Structure, dtypes and shapes of the elements.

        What follows a user's function is found by running the pipeline for its first element, once.
        """
        return seen_spec(self.node, _first_element).element

    def options(self) -> Options:
        """The options fixed on this dataset."""
        return self._options

    def with_options(self, options: Options, name: str | None = None) -> Dataset:
        """This dataset with options fixed on it; later ones win."""
        if type(options) is not Options:
            origin = caller_origin()
            raise located(BadType(f"expected Options, got {type(options).__name__}"), "with_options", origin)
        return Dataset(self.node, self._options.merged(options))

    def run(
        self, memory: int | float | str | None = None, *, epoch: int | None = None, optimize: bool | None = None
    ) -> Run:
        """Opens one pass over the dataset: an iterator that holds no more than `memory`.

        Args:
            memory: The budget: bytes, `"512MB"`, `"2GiB"`, or a fraction of what this process may use.
            epoch: Which epoch this is: it decides the order of shuffles and the numbers of `random_map`. Default: the
                one after the last run of this dataset.
            optimize: Whether the rules may rewrite the plan; results are the same.
        """
        options = self._options.merged(Options(memory=memory, optimize=optimize))
        if epoch is None:
            epoch = self._next_epoch
        self._set_epoch(epoch)
        return Run(
            self.node,
            None if options.optimize is False else optimized,
            _budget_bytes(options),
            options.deterministic is not False,
            epoch,
            Dataset,
            self._set_epoch,
        )

    def _set_epoch(self, epoch: int) -> None:
        self._next_epoch = epoch + 1

    def explain(self, memory: int | float | str | None = None) -> Explanation:
        """What a run would do: the plan as written, each rewrite and why, the plan that runs, and what it holds."""
        options = self._options.merged(Options(memory=memory))
        return explain(self.node, _budget_bytes(options), options.optimize is not False)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.run())

    def __repr__(self) -> str:
        return f"<Dataset {self.node.op.describe()}: {self.node.spec}>"


def _first_element(node: Node) -> Any:
    with Run(node, optimized, _budget_bytes(Options()), True, 0, Dataset) as run:
        return next(run)


def _budget_bytes(options: Options) -> int:
    memory = DEFAULT_MEMORY_FRACTION if options.memory is None else options.memory
    return parse_memory(memory, available_bytes())
