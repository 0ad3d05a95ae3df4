"""Dataset: what users hold.

A Dataset is an immutable handle on a plan node. Its methods are made from the operators: `take = method("take:Take")`
gives the method the signature and the documentation of the class in `ops/take.py`, which is loaded when it is first
used: that keeps `import penstock` quick. Nothing runs before `run()` or `iter()`.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, ClassVar

from .errors import BadType, BudgetTooSmall, OverBudget, PenstockError
from .observe.explain import Explanation, explain
from .options import Options
from .plan.footprint import Measured
from .plan.node import Node, Origin, caller_origin, located
from .plan.op import Op, argument
from .runtime.epochs import Epochs
from .runtime.run import Run
from .runtime.sample import sizes_in_sample
from .runtime.seen import seen_spec
from .runtime.settings import settings_of
from .spec import INFINITE

__all__ = ["Dataset"]


_NO_OPTIONS = Options()


class _Verb:
    """A method of Dataset that is made of an operator when it is first looked up."""

    def __init__(self, place: str, make: Callable[[type[Op]], Any]) -> None:
        self._module, self._class = place.split(":")
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        op = getattr(import_module(f".{self._module}", __package__), self._class)
        setattr(self._owner, self._name, self._make(op))
        return getattr(owner if instance is None else instance, self._name)


def method(place: str) -> Any:
    """A method that puts an operator on top of the dataset."""

    def make(op: type[Op]) -> Any:
        def wrapper(self: Dataset, *args: Any, name: str | None = None, **kwargs: Any) -> Dataset:
            try:
                node = Node(op(*args, **kwargs), (self.node,), caller_origin(2))
                return Dataset(node, self._options, Epochs((self._epochs,)))
            except (PenstockError, TypeError) as error:
                raise _told(error, op, caller_origin()) from None

        return _documented(wrapper, op, op, ("self",))

    return _Verb(f"ops.{place}", make)


def source(place: str) -> Any:
    """A static method that makes a dataset from a source."""

    def make(op: type[Op]) -> Any:
        def wrapper(*args: Any, name: str | None = None, **kwargs: Any) -> Dataset:
            try:
                return Dataset(Node(op(*args, **kwargs), (), caller_origin(2)))
            except (PenstockError, TypeError) as error:
                raise _told(error, op, caller_origin()) from None

        return staticmethod(_documented(wrapper, op, op, ()))

    return _Verb(f"io.{place}", make)


def combination(place: str) -> Any:
    """A static method that puts an operator on several datasets; the operator's `of` tells which."""

    def make(op: Any) -> Any:
        def wrapper(*args: Any, name: str | None = None, **kwargs: Any) -> Dataset:
            try:
                made, datasets = op.of(*args, **kwargs)
                return _combined(made, datasets, caller_origin())
            except (PenstockError, TypeError) as error:
                raise _told(error, op, caller_origin()) from None

        return staticmethod(_documented(wrapper, op, op.of, ()))

    return _Verb(f"ops.{place}", make)


def combination_method(place: str) -> Any:
    """Likewise a method: the dataset itself is the first one."""

    def make(op: Any) -> Any:
        def wrapper(self: Dataset, *args: Any, name: str | None = None, **kwargs: Any) -> Dataset:
            try:
                made, datasets = op.of(self, *args, **kwargs)
                return _combined(made, datasets, caller_origin())
            except (PenstockError, TypeError) as error:
                raise _told(error, op, caller_origin()) from None

        return _documented(wrapper, op, op.of, ())

    return _Verb(f"ops.{place}", make)


def ending(place: str) -> Any:
    """A method that runs the dataset to its end; its function gets the run and what is known of the elements."""

    def make(function: Any) -> Any:
        def wrapper(self: Dataset, *args: Any, **kwargs: Any) -> Any:
            spec = self.node.spec
            return self._ended(function.__name__, lambda run: function(run, spec, *args, **kwargs))

        method: Any = wrapper
        signature = inspect.signature(function)
        own = list(signature.parameters.values())[2:]
        me = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        method.__signature__ = signature.replace(parameters=[me, *own])
        method.__doc__, method.__name__ = function.__doc__, function.__name__
        method.__qualname__ = f"Dataset.{function.__name__}"
        return method

    return _Verb(f"runtime.{place}", make)


def handing_over(place: str) -> Any:
    """A method that gives the dataset to a framework; its function gets the dataset, and lives in a layer above."""

    def make(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(self: Dataset, *args: Any, **kwargs: Any) -> Any:
            try:
                return function(self, *args, **kwargs)
            except PenstockError as error:
                raise located(error, function.__name__, caller_origin()) from None

        method: Any = wrapper
        signature = inspect.signature(function)
        me, *own = signature.parameters.values()
        method.__signature__ = signature.replace(parameters=[me.replace(name="self"), *own])
        method.__qualname__ = f"Dataset.{function.__name__}"
        return method

    return _Verb(f"adapters.{place}", make)


def _combined(op: Op, datasets: list[Any], origin: Origin) -> Dataset:
    """The dataset of an operator on several others."""
    options = _NO_OPTIONS
    for dataset in datasets:
        if not isinstance(dataset, Dataset):
            raise BadType(f"expected a dataset, got {type(dataset).__name__} {dataset!r:.60}")
        options = options.merged(dataset._options)
    node = Node(op, tuple([dataset.node for dataset in datasets]), origin)
    return Dataset(node, options, Epochs([dataset._epochs for dataset in datasets]))


def _told(error: Exception, op: type[Op], origin: Origin) -> Exception:
    """A mistake in an operator's arguments, told with the operator's name and the user's line."""
    if isinstance(error, PenstockError):
        return located(error, op.verb(), origin)
    if "argument" not in str(error) or type(error) is not TypeError:
        return error
    text = str(error).replace(f"{op.__name__}.__init__()", f"{op.verb()}()")
    return located(BadType(text), op.verb(), origin)


def _documented(wrapper: Any, op: type[Op], signature_of: Any, first: tuple[str, ...]) -> Any:
    """Gives a method the signature and documentation of its operator."""
    hidden = (*getattr(op, "internal", ()), "drawn")
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in first]
    parameters += [p for p in inspect.signature(signature_of).parameters.values() if p.name not in hidden]
    wrapper.__signature__ = inspect.Signature(parameters, return_annotation="Dataset")
    wrapper.__doc__ = op.__doc__
    wrapper.__name__ = op.verb()
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

    _measured: tuple[Measured, ...] = ()  # by explain(sample=…): what each stage gave and held

    def __init__(self, node: Node, options: Options | None = None, epochs: Epochs | None = None) -> None:
        self.node = node
        self._options = _NO_OPTIONS if options is None else options
        self._epochs = Epochs() if epochs is None else epochs
        traits = node.op.traits
        if node.inputs and (traits.runtime != "order" or traits.draws_places):  # others take any input as it is
            node.spec  # noqa: B018  a mistake is found here, at the user's line

    # Sources.
    from_tensor_slices = source("arrays:FromTensorSlices")
    from_tensors = source("arrays:FromTensors")
    from_generator = source("generator:FromGenerator")
    from_csv = source("csv:FromCsv")
    from_json_lines = source("json_lines:FromJsonLines")
    from_tar = source("tar:FromTar")
    from_arrow = source("arrow:FromArrow")
    from_parquet = source("parquet:FromParquet")
    range = source("numbers:Range")
    counter = source("numbers:Counter")
    random = source("numbers:Random")

    # Each element.
    map = method("map:Map")
    random_map = method("random_map:RandomMap")
    filter = method("filter:Filter")
    enumerate = method("enumerate:Enumerate")
    scan = method("scan:Scan")
    take_while = method("take_while:TakeWhile")
    unique = method("unique:Unique")
    ignore_errors = method("ignore_errors:IgnoreErrors")
    assert_cardinality = method("assert_cardinality:AssertCardinality")

    # Which elements, and in which order.
    shuffle = method("shuffle:Shuffle")
    repeat = method("repeat:Repeat")
    take = method("take:Take")
    skip = method("skip:Skip")
    shard = method("shard:Shard")

    # Elements into batches and windows, and out of them.
    batch = method("batch:Batch")
    padded_batch = method("padded_batch:PaddedBatch")
    ragged_batch = method("ragged_batch:RaggedBatch")
    sparse_batch = method("sparse_batch:SparseBatch")
    unbatch = method("unbatch:Unbatch")
    rebatch = method("rebatch:Rebatch")
    window = method("window:Window")
    group_by_window = method("group_by_window:GroupByWindow")
    bucket_by_sequence_length = method("bucket_by_sequence_length:BucketBySequenceLength")

    # Datasets into one.
    flat_map = method("flat_map:FlatMap")
    interleave = method("interleave:Interleave")
    zip = combination("zip:Zip")
    concatenate = combination_method("concatenate:Concatenate")
    sample_from_datasets = combination("sample_from_datasets:SampleFromDatasets")
    choose_from_datasets = combination("choose_from_datasets:ChooseFromDatasets")
    rejection_resample = method("rejection_resample:RejectionResample")

    # When and where.
    prefetch = method("prefetch:Prefetch")
    cache = combination_method("cache:Cache")
    snapshot = combination_method("snapshot:Snapshot")

    # All elements into files.
    save = ending("save:save")
    to_parquet = ending("to_parquet:to_parquet")
    to_tfrecord = ending("to_tfrecord:to_tfrecord")

    # Elements as tensors, for training.
    to_keras = handing_over("keras:to_keras")
    to_tf = handing_over("tensorflow:to_tf")
    to_torch = handing_over("torch:to_torch")
    to_jax = handing_over("jax:to_jax")

    @staticmethod
    def list_files(
        file_pattern: Any, shuffle: bool | None = None, seed: int | None = None, name: str | None = None
    ) -> Dataset:
        """The names of files that match a pattern, or one of several; shuffled unless `shuffle` is False.

        Args:
            file_pattern: A glob pattern, or a list of them.
            shuffle: Whether the names come in random order, another one each time. True unless given.
            seed: The same seed gives the same orders.

        Memory: the names of the files.
        State: one integer.
        """
        from .io.files import ListFiles

        origin = caller_origin()
        try:
            files = Dataset(Node(ListFiles(file_pattern), (), origin))
        except PenstockError as error:
            raise located(error, "list_files", origin) from None
        return files.shuffle(seed=seed) if shuffle or shuffle is None else files

    @staticmethod
    def load(
        path: Any,
        element_spec: Any = None,
        compression: str | None = None,
        reader_func: Callable[[Dataset], Dataset] | None = None,
    ) -> Dataset:
        """The elements of a dataset that was saved, in any order that is asked for: `shuffle` shuffles indices.

        Args:
            path: The directory.
            element_spec: What the elements are like, if more is known than was when they were saved.
            compression: Not needed: files tell.
            reader_func: Gets a dataset of datasets, one for each file, and returns a dataset of elements. None: one
                file after the other, each in the order in which it was saved.

        Memory: an index of 340 bytes for each batch of 128 kB or 256 elements; the batches that were read last, as far
            as an eighth of the budget holds them.
        State: one integer.

        >>> import tempfile, penstock as ps
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ps.Dataset.range(5).save(folder)
        ...     list(ps.Dataset.load(folder).skip(3))
        [np.int64(3), np.int64(4)]
        """
        from .io.saved import Load
        from .runtime.load import loaded

        origin = caller_origin()
        try:
            dataset: Dataset = loaded(Load(path, element_spec, compression), reader_func, Dataset, origin)
            return dataset
        except PenstockError as error:
            raise located(error, "load", origin) from None

    def apply(self, transformation_func: Any) -> Dataset:
        """What a function makes of this dataset; for operators of your own in a chain of calls."""
        origin = caller_origin()
        if not callable(transformation_func):
            got = type(transformation_func).__name__
            raise located(BadType(f"transformation_func: expected a function, got {got}"), "apply", origin)
        result = transformation_func(self)
        if not isinstance(result, Dataset):
            raise located(BadType(f"expected a dataset back, got {type(result).__name__}"), "apply", origin)
        return result

    def reduce(self, initial_state: Any, reduce_func: Callable[..., Any], name: str | None = None) -> Any:
        """Folds all elements into one value: `reduce_func(state, element)` gives the next state.

        >>> import numpy as np, penstock as ps
        >>> ps.Dataset.range(5).reduce(np.int64(0), lambda state, x: state + x)
        np.int64(10)
        """
        from .runtime.terminal import reduce

        return self._ended("reduce", lambda run: reduce(run, initial_state, reduce_func))

    def get_single_element(self, name: str | None = None) -> Any:
        """The only element; an error if there are none or more."""
        from .runtime.terminal import single_element

        return self._ended("get_single_element", single_element)

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
        return Dataset(self.node, self._options.merged(options), Epochs([self._epochs]))

    def run(
        self, memory: int | float | str | None = None, *, epoch: int | None = None, optimize: bool | None = None
    ) -> Run:
        """Opens one pass over the dataset: an iterator that holds no more than `memory`.

        Args:
            memory: The budget: bytes, `"512MB"`, `"2GiB"`, or a fraction of what this process may use.
            epoch: Which epoch this is: it decides the order of shuffles and the numbers of `random_map`. Default: the
                one after the last run of this dataset, or of one made from it.
            optimize: Whether the rules may rewrite the plan; results are the same.
        """
        options = self._options.merged(Options(memory=memory, optimize=optimize))
        if epoch is None:
            epoch = self._epochs.next
        settings = settings_of(options, self._measured)
        run = Run(self.node, settings, epoch, Dataset, self._epochs.begin)
        self._epochs.begin(epoch)
        return run

    @property
    def next_epoch(self) -> int:
        """The number of the next run."""
        return self._epochs.next

    def explain(self, memory: int | float | str | None = None, sample: int = 0) -> Explanation:
        """What a run would do: the plan as written, each rewrite and why, the plan that runs, and what it holds.

        Args:
            memory: The budget, as for `run`.
            sample: Runs until so many elements came out, to measure sizes that are not known otherwise. The dataset
                remembers them: its runs are refused a budget that these sizes do not fit in.
        """
        options = self._options.merged(Options(memory=memory))
        settings = settings_of(options, self._measured)
        if sample:
            number = argument("sample", sample, at_least=1)
            try:
                self._measured = sizes_in_sample(self.node, settings_of(options), number, Dataset)
            except (BudgetTooSmall, OverBudget):  # to say how large it must be takes a larger one
                larger = settings_of(dataclasses.replace(options, memory=None))
                self._measured = sizes_in_sample(self.node, larger, number, Dataset)
            settings = dataclasses.replace(settings, measured=self._measured)
        return explain(self.node, settings, sample)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.run())

    def __repr__(self) -> str:
        return f"<Dataset {self.node.op.describe()}: {self.node.spec}>"


def _first_element(node: Node) -> Any:
    with Run(node, settings_of(_NO_OPTIONS), 0, Dataset) as run:
        return next(run)
