"""Dataset: what users hold.

A Dataset is an immutable handle on a plan node. Its methods are made from the operators (`verbs.py`):
`take = method("take:Take")` gives the method the signature and the documentation of the class in `ops/take.py`. Nothing
runs before `run()` or `iter()`.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from .errors import BadType, BudgetTooSmall, OverBudget, PenstockError
from .observe.explain import Explanation, explain
from .options import AUTOTUNE, Options, flag
from .plan.even import check_equal_parts
from .plan.footprint import Measured
from .plan.node import Node, caller_origin, located
from .plan.op import argument
from .plan.seeds import drawn_seeds, reseeded
from .runtime.epochs import Epochs
from .runtime.run import Run
from .runtime.sample import Sample, sample_of
from .runtime.seen import seen_spec
from .runtime.settings import settings_of
from .spec import INFINITE
from .verbs import combination, combination_method, ending, handing_over, method, source

__all__ = ["Dataset", "seeded_node"]


_NO_OPTIONS = Options()


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
        if node.inputs:
            traits = node.op.traits
            if traits.runtime != "order" or traits.draws_places:  # others take any input as it is
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
    distribute = method("distribute:Distribute")

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
    distribute_for = handing_over("ranks:distribute_for")

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
            shuffles = flag("shuffle", shuffle) is not False
            files = Dataset(Node(ListFiles(file_pattern), (), origin))
        except PenstockError as error:
            raise located(error, "list_files", origin) from None
        return files.shuffle(seed=seed) if shuffles else files

    @staticmethod
    def from_image_folder(
        root: Any,
        image_size: Any = None,
        *,
        class_names: Any = None,
        channels: int = 3,
        interpolation: str = "bilinear",
        decode: bool = True,
        extensions: Any = None,
        follow_links: bool = False,
        num_parallel_calls: int | None = AUTOTUNE,
        on_error: str = "raise",
        name: str | None = None,
    ) -> Dataset:
        """Images and labels from a folder with a folder for each class; `class_names` of the dataset has their names.

        Args:
            root: The folder, as a path or a URI. Images may lie in folders within those of the classes.
            image_size: (height, width) to resize to, which gives float32. None: uint8, each of its own size.
            class_names: The classes to read, in the order of their labels. None: all, sorted by name.
            channels: 3 for RGB, 1 for grey, 4 for RGBA, 0 for those of the file.
            interpolation: "bilinear", "nearest" (which keeps uint8) or "area".
            decode: False gives the bytes of the files instead of images.
            extensions: How the names of images end, in any case. None: `.bmp`, `.gif`, `.jpeg`, `.jpg`, `.png`.
            follow_links: Whether folders within those of the classes may be links.
            num_parallel_calls: Threads that load images.
            on_error: "skip" leaves out what cannot be read or decoded; `run.stats()` says how much, by file.

        Memory: the names of the files, and the images on their way.
        State: one integer.
        """
        from .io.image_folder import IMAGE_EXTENSIONS, FromImageFolder
        from .runtime.image_folder import image_folder_plan

        origin = caller_origin()
        try:
            links = bool(flag("follow_links", follow_links))
            source = FromImageFolder(root, class_names, extensions or IMAGE_EXTENSIONS, links)
            loading = (image_size, channels, interpolation, bool(flag("decode", decode)), num_parallel_calls, on_error)
            return Dataset(image_folder_plan(source, *loading, origin))
        except PenstockError as error:
            raise located(error, "from_image_folder", origin) from None

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes, in the order of their labels, where elements come from folders of classes."""
        found = {tuple(names) for node in self.node.walk() if (names := node.op.class_names) is not None}
        if len(found) != 1:
            why = "several sources with other classes each" if found else "no source with classes"
            raise AttributeError(f"this dataset has no class names: {why}", name="class_names", obj=self)
        return found.pop()

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
            why = "it is infinite" if count == INFINITE else "only a run can tell; assert_cardinality(n) says it"
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
        check_equal_parts(self.node)
        try:
            options = self._options.merged(Options(memory=memory, optimize=optimize))
            epoch = self._epochs.next if epoch is None else argument("epoch", epoch, at_least=0)
            settings = settings_of(options, self._measured)
        except PenstockError as error:
            raise located(error, "run", caller_origin()) from None
        run = Run(seeded_node(self), settings, epoch, Dataset, self._loaded)
        self._epochs.begin(epoch)
        return run

    def _loaded(self, epoch: int, seeds: list[int]) -> None:
        """Goes on from a saved position: with its epoch, and with what was drawn where nobody chose a seed."""
        self._epochs.begin(epoch)
        self._epochs.load(dict(zip(drawn_seeds(self.node), seeds, strict=True)))

    @property
    def next_epoch(self) -> int:
        """The number of the next run."""
        return self._epochs.next

    def explain(self, memory: int | float | str | None = None, sample: int = 0) -> Explanation:
        """What a run would do: the plan as written, each rewrite and why, the plan that runs, and what it holds.

        Args:
            memory: The budget, as for `run`.
            sample: Runs until so many elements came out, to measure sizes that are not known otherwise. The dataset
                remembers them: its runs are refused a budget that these sizes do not fit in. Elements that fail are
                passed over; if as many did and none came out, the first error is raised.
        """
        try:
            options = self._options.merged(Options(memory=memory))
            number = argument("sample", sample, at_least=0)
            settings = settings_of(options, self._measured)
        except PenstockError as error:
            raise located(error, "explain", caller_origin()) from None
        taken = Sample()
        if number:
            taken = self._sample(options, number)
            self._measured = taken.measured
            settings = dataclasses.replace(settings, measured=self._measured)
        return explain(self.node, settings, taken.num_elements, taken.num_failed)

    def _sample(self, options: Options, num_elements: int) -> Sample:
        with contextlib.suppress(BudgetTooSmall, OverBudget):
            return sample_of(self.node, settings_of(options), num_elements, Dataset)
        larger = dataclasses.replace(options, memory=None)  # to say how large it must be takes a larger one
        return sample_of(self.node, settings_of(larger), num_elements, Dataset)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.run())

    def __repr__(self) -> str:
        return f"<Dataset {self.node.op.describe()}: {self.node.spec}>"


def _first_element(node: Node) -> Any:
    with Run(node, settings_of(_NO_OPTIONS), 0, Dataset) as run:
        return next(run)


def seeded_node(dataset: Dataset) -> Node:
    """The plan that runs: with seeds of a position that was loaded, for operators which the user gave none."""
    loaded = dataset._epochs.loaded_seeds()
    if not loaded:
        return dataset.node
    return reseeded(dataset.node, [loaded.get(seed, seed) for seed in drawn_seeds(dataset.node)])
