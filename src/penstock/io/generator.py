"""A Python generator as a source."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ..block import Block
from ..cursor import Cursor, State, expect_list
from ..element import Failed, Structure, has_dataset, nbytes_of, normalize
from ..ending import Ended
from ..errors import BadType, SpecMismatch, StateError
from ..leaf import Ragged, Sparse, as_leaf, string
from ..plan.carried import note_made
from ..plan.footprint import Footprint, Sizes, one_element
from ..plan.op import Context, Op, show
from ..plan.traits import Traits
from ..signature import check_element, own_signature
from ..spec import UNSEEN, Spec, TensorSpec, describe

__all__ = ["FromGenerator"]

_log = logging.getLogger("penstock")


_TRAITS = Traits(live=True)


@dataclasses.dataclass(frozen=True, eq=False)
class FromGenerator(Op):
    """The values of an iterable that `generator` returns, which is called anew for each iteration.

    A value that does not fit the signature is an error in its place, and the next one follows. Arrays are copied: the
    generator may use its own again.

    Args:
        generator: A function that returns an iterable: a generator function, for example.
        output_signature: A nest of `TensorSpec`, `RaggedSpec` and `SparseSpec`, or of TensorFlow's, that all values
            must fit. They are converted to its dtypes where that loses nothing, and ragged and sparse tensors of
            TensorFlow's to `Ragged` and `Sparse`. None: values are taken as they come.
        args: Arguments for `generator`; it gets them as NumPy values.
        output_types: A nest of dtypes, as an older way to write the signature.
        output_shapes: A nest of shapes to go with `output_types`.

    Memory: nothing but the values asked for.
    State: one integer; the generator runs again, and as many values are dropped.

    >>> import penstock as ps
    >>> def squares(n):
    ...     for i in range(n):
    ...         yield i * i
    >>> list(ps.Dataset.from_generator(squares, ps.TensorSpec((), "int32"), args=[3]))
    [np.int32(0), np.int32(1), np.int32(4)]
    """

    generator: Callable[..., Any]
    output_signature: Any = None
    args: Sequence[Any] | None = None
    output_types: Any = dataclasses.field(default=None, kw_only=True)
    output_shapes: Any = dataclasses.field(default=None, kw_only=True)
    gives_own: bool = dataclasses.field(default=False, kw_only=True)  # whether its arrays are never used again
    made_by: str = dataclasses.field(default="from_generator", kw_only=True)
    # Adds a value to a checksum: values that another iteration may not repeat are compared when a position is restored.
    checksum: Callable[[Any, int], int] | None = dataclasses.field(default=None, kw_only=True)
    internal: ClassVar[tuple[str, ...]] = ("gives_own", "made_by", "checksum")
    _signature: Any = dataclasses.field(init=False, repr=False)
    _args: tuple[Any, ...] = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        generator: Any = self.generator
        if not callable(generator):
            kind = type(generator).__name__
            raise BadType(f"generator: expected a function that returns an iterable, got {kind} {generator!r:.60}")
        if self.output_types is None and self.output_shapes is not None:
            raise BadType("output_shapes: expected output_types with it")
        if self.output_types is not None and self.output_signature is not None:
            raise BadType("output_types: expected either this or output_signature, got both")
        signature = UNSEEN
        if self.output_types is not None:
            signature = _typed(self.output_types, self.output_shapes)
        elif self.output_signature is not None:
            signature = own_signature(self.output_signature)
        if self.args is not None and not isinstance(self.args, (tuple, list)):
            raise BadType(f"args: expected a tuple of arguments, got {type(self.args).__name__} {self.args!r:.60}")
        object.__setattr__(self, "_signature", signature)
        object.__setattr__(self, "_args", tuple(as_leaf(value) for value in self.args or ()))

    @property
    def name(self) -> str:
        return self.made_by

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        return Spec(self._signature)

    @property
    def traits(self) -> Traits:
        return _TRAITS

    def footprint(self, sizes: Sizes) -> Footprint:
        return one_element(sizes.output, "element")

    def open(self, context: Context) -> Cursor:
        def make() -> Any:
            return self.generator(*self._args)

        return _GeneratorCursor(context, make, self._signature, self.gives_own, self.checksum)

    def describe(self) -> str:
        signature = "" if self._signature is UNSEEN else f", {describe(self._signature)}"
        args = "" if not self._args else f", args={show(self._args)}"
        return f"{self.name}({show(self.generator)}{signature}{args})"


def _typed(types: Any, shapes: Any) -> Any:
    """The nest of specs of a nest of dtypes and one of shapes."""
    if isinstance(types, tuple):
        if shapes is not None and (not isinstance(shapes, (tuple, list)) or len(shapes) != len(types)):
            raise SpecMismatch(f"output_shapes: expected {len(types)} shapes, as many as types, got {shapes!r:.60}")
        pairs = zip(types, shapes if shapes is not None else [None] * len(types), strict=True)
        parts = [_typed(*pair) for pair in pairs]
        return type(types)(*parts) if hasattr(types, "_fields") else tuple(parts)
    if isinstance(types, dict):
        if shapes is not None and (not isinstance(shapes, dict) or shapes.keys() != types.keys()):
            raise SpecMismatch(f"output_shapes: expected shapes for the keys {list(types)}, got {shapes!r:.60}")
        return {key: _typed(part, None if shapes is None else shapes[key]) for key, part in types.items()}
    try:
        return TensorSpec(shapes, types)
    except TypeError as error:
        raise BadType(f"output_types: expected dtypes and shapes, got {types!r:.60} and {shapes!r:.60}") from error


class _GeneratorCursor(Cursor):
    """The generator starts with the first pull."""

    __slots__ = (
        *("_checksum", "_context", "_ended", "_gives_own", "_make", "_scalar", "_signature", "_sum", "_taken"),
        *("_transit", "_values"),
    )

    def __init__(
        self,
        context: Context,
        make: Callable[[], Any],
        signature: Any,
        gives_own: bool,
        checksum: Callable[[Any, int], int] | None,
    ) -> None:
        self._context = context
        self._checksum = checksum
        self._sum = 0  # of all values that were taken
        self._gives_own = gives_own
        self._make = make
        self._signature = signature
        # Most values are of one kind and need no second look.
        plain = type(signature) is TensorSpec and signature.shape in ((), None) and signature.dtype != string
        self._scalar = signature.dtype.type if plain else None
        self._values: Iterator[Any] | None = None
        self._taken = 0
        self._ended = False
        self._transit = context.transit

    def pull(self, n: int) -> Block | None:
        rows: list[Any] = []
        n = self._transit.begin(n)
        room = True
        while len(rows) < n and room:
            value = self._next()
            if value is _END:
                break
            row = value if type(value) is Failed else self._checked(value)
            rows.append(row)
            if type(row) is not self._scalar:
                room = self._transit.add(nbytes_of(row))
        return Block.of_rows(rows) if rows else None

    def _next(self) -> Any:
        """The next value as the generator gives it, the error that it raised, or `_END`."""
        if self._ended:
            return _END
        if self._context.share.ending.is_near:
            raise Ended
        started = self._values is not None
        try:
            if self._values is None:
                self._values = _iterator(self._make())
                started = True
            value = next(self._values)
        except StopIteration:
            self._ended = True
            return _END
        except Exception as error:
            # A generator that raised has ended, as its next call will tell; another iterator may go on.
            self._ended = not started
            value = self._failed(error)
        self._taken += 1
        if self._checksum is not None:
            self._sum = self._checksum(value, self._sum)
        return value

    def _checked(self, value: Any) -> Any:
        try:
            if type(value) in (int, float):
                value = as_leaf(value)
            if type(value) is self._scalar:
                return value
            element = normalize(value) if self._signature is UNSEEN else check_element(self._signature, value)
            if isinstance(element, np.generic) or type(element) is bytes:
                return element
            if has_dataset(element):
                note_made(value, element)
            structure = Structure.of(element)
            if not structure.num_leaves:
                raise BadType("expected at least one component, got none: an element must hold something")
            return element if self._gives_own else structure.map(_copied, element)
        except Exception as error:
            return self._failed(error, self._taken - 1)

    def _failed(self, error: Exception, place: int | None = None) -> Failed:
        return Failed(self._context.noted(error, self._taken if place is None else place))

    def skip(self, n: int) -> int:
        skipped = 0
        while skipped < n and self._next() is not _END:
            skipped += 1
        return skipped

    def state(self) -> State:
        position = [self._taken, int(self._ended)]
        return position if self._checksum is None else [*position, self._sum]

    def restore(self, state: State) -> None:
        taken, ended, *sums = expect_list(state, 2 if self._checksum is None else 3)
        if ended:
            self._taken, self._ended = taken, True
            self._sum = sums[0] if sums else 0
        elif self.skip(taken) != taken:
            raise StateError(f"the saved position is after {taken} values, and the generator gave only {self._taken}")
        elif sums and sums[0] != self._sum:
            raise StateError(
                f"{self._context.node.op.name}: the saved position is after {taken} elements; iterated again, the "
                "dataset gives other elements than before, or in another order. To resume, it must repeat itself: in "
                "tf.data, shuffle(…, seed=…, reshuffle_each_iteration=False), and no random numbers without fixed seeds"
            )

    def close(self) -> None:
        values, self._values = self._values, None
        self._ended = True
        close = getattr(values, "close", None)
        # Who closes the run within the generator has it end by itself, as nobody asks it for more.
        if close is not None and not getattr(values, "gi_running", False):
            try:
                close()
            except Exception:
                _log.warning("%s: closing the generator raised", self._context.node.op.describe(), exc_info=True)


_END = object()


def _iterator(values: Any) -> Iterator[Any]:
    try:
        return iter(values)
    except TypeError:
        kind = type(values).__name__
        raise BadType(f"generator: expected it to return an iterable, got {kind} {values!r:.60}") from None


def _copied(leaf: Any) -> Any:
    if isinstance(leaf, Ragged):
        return Ragged(_copied(leaf.values), _copied(leaf.row_splits))
    if isinstance(leaf, Sparse):
        return Sparse(_copied(leaf.indices), _copied(leaf.values), _copied(leaf.dense_shape))
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf
