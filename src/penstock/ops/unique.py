"""unique: each element once."""

from __future__ import annotations

import dataclasses
import hashlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..block import Block
from ..cursor import Cursor, State, UnaryCursor, expect_list
from ..element import Failed, Structure
from ..errors import BadType, PenstockError, StateError
from ..leaf import Ragged, Sparse, is_dataset
from ..memory.lease import nothing_expected
from ..plan.footprint import Footprint, Sizes
from ..plan.op import Context, Op
from ..spec import UNKNOWN, DatasetSpec, Spec, spec_leaves
from .few_at_a_time import FewAtATime
from .richness import Richness

__all__ = ["Unique"]

# Longer keys are replaced by a digest of this size: among 2³² elements two would meet with a chance of 2⁻⁶⁴.
_DIGEST_BYTES = 16
_LONGEST_KEY = 32
# What of an array is looked at together.
_PIECE_VALUES = 8192
# A set keeps a hash and a pointer for each key, and is between a fifth and three fifths full.
_ENTRY_BYTES = 80
_KEY_BYTES = 80
# So many that are still to come have room set aside for them: who works ahead would take it, and not give it back.
_KEYS_AHEAD = 8
# As long as there are few, a saved position holds the keys; else it says how many elements to look at again.
_SAVED_KEYS = 256

Key = int | bytes


@dataclasses.dataclass(frozen=True)
class Unique(Op):
    """Leaves out elements that came before.

    Elements are equal if all their parts are: dtype, shape and values; of elements that are single whole numbers only
    the values count. Works for every dtype and structure; as values 0.0 and -0.0 are equal, and so are two NaN.

    Memory: up to 160 bytes for each distinct element.
    State: up to 256 distinct elements and its input's; with more, one integer, and elements are read again.

    >>> import numpy as np, penstock as ps
    >>> [int(x) for x in ps.Dataset.from_tensor_slices(np.array([3, 1, 3, 2, 1])).unique()]
    [3, 1, 2]
    """

    def spec(self, inputs: Sequence[Spec]) -> Spec:
        (spec,) = inputs
        if spec.seen and any(isinstance(leaf, DatasetSpec) for leaf in spec_leaves(spec.element)):
            raise BadType("expected arrays, numbers or strings, got datasets, which cannot be compared")
        return spec.with_cardinality(UNKNOWN)

    def footprint(self, sizes: Sizes) -> Footprint:
        held = None if sizes.count < 0 else sizes.count * (_ENTRY_BYTES + _KEY_BYTES)
        return Footprint(held, "a key for each distinct element, up to 160 bytes", sizes.at_least_as_seen(0))

    def open(self, context: Context) -> Cursor:
        return _UniqueCursor(context)


class _UniqueCursor(UnaryCursor):
    __slots__ = ("_context", "_few", "_held_bytes", "_keys", "_read", "_richness", "_structure")

    def __init__(self, context: Context) -> None:
        super().__init__(FewAtATime(context.input()))
        self._context = context
        self._structure: Structure | None = None
        self._keys: set[Key] = set()
        self._few: list[int | str] = []
        self._held_bytes = 0
        self._read = 0
        self._richness = Richness(context.node.input.spec.cardinality)
        context.share.expects = self._expected_bytes
        context.share.remark = self._remark
        self._set_aside()

    def _expected_bytes(self) -> int:
        expected = self._richness.expected()
        # Where nobody can tell, twice what was enough until now, of which who asks makes a quarter more.
        return 2 * self._held_bytes if expected is None else expected * self._each_bytes

    @property
    def _each_bytes(self) -> int:
        return self._held_bytes // len(self._keys) if self._keys else _ENTRY_BYTES + _KEY_BYTES

    def _remark(self) -> str:
        expected = self._richness.expected()
        enough = "twice as many" if expected is None else f"{expected:,} distinct elements in all"
        return (
            f"{self._richness.summary}, each of which takes {self._each_bytes} B; what follows, only the data can "
            f"tell: this is for {enough}"
        )

    def pull(self, n: int) -> Block | None:
        while True:
            block = self.input.pull(n)
            if block is None:
                return None
            rows = self._new_rows(block)
            if rows:
                return Block.of_rows(rows)
            del block  # or it would still be held while the next one is made

    def _new_rows(self, block: Block) -> list[Any]:
        """The elements that did not come before, and the failures."""
        rows: list[Any] = []
        fresh: dict[Key, None] = {}
        for row in block.rows():
            if type(row) is not Failed:
                try:
                    key = self._key(row)
                except PenstockError as error:
                    row = Failed(self._context.located(error))
                else:
                    if key in self._keys or key in fresh:
                        continue
                    fresh[key] = None
            rows.append(row)
        # Before they are remembered, which may be refused: what is named then follows from them too.
        self._richness.note(self._read + block.size, len(self._keys) + len(fresh))
        self._remember(fresh)
        self._read += block.size
        return rows

    def _key(self, row: Any) -> Key:
        if type(row) is bytes and len(row) <= _LONGEST_KEY:
            return row
        if isinstance(row, np.generic) and row.dtype.kind in "iu":
            return int(row)
        if self._structure is None:
            self._structure = Structure.of(row)
        text = _Text()
        for leaf in self._structure.flatten(row):
            _describe_leaf(leaf, text)
        return text.key()

    def _remember(self, keys: Iterable[Key]) -> None:
        nbytes = sum(sys.getsizeof(key) + _ENTRY_BYTES for key in keys)
        self._context.share.charge(nbytes)
        self._held_bytes += nbytes
        self._set_aside()
        self._keys.update(keys)
        if len(self._keys) <= _SAVED_KEYS:
            self._few += [key if isinstance(key, int) else key.hex() for key in keys]

    def _set_aside(self) -> None:
        share, ahead_bytes = self._context.share, _KEYS_AHEAD * (_ENTRY_BYTES + _KEY_BYTES)
        if share.floor_bytes < share.charged_bytes + ahead_bytes // 2:
            share.raise_floor(share.charged_bytes + ahead_bytes)

    def state(self) -> State:
        if len(self._keys) <= _SAVED_KEYS:
            return [self._read, list(self._few), self.input.state()]
        return [self._read, None, None]

    def restore(self, state: State) -> None:
        read, few, below = expect_list(state, 3)
        if few is not None:
            self._remember([key if isinstance(key, int) else bytes.fromhex(key) for key in few])
            self.input.restore(below)
            self._read = read
        while self._read < read:
            block = self.input.pull(read - self._read)
            if block is None:
                raise StateError(f"the saved position is after {read} elements, and there are only {self._read}")
            self._new_rows(block)
            del block

    def close(self) -> None:
        self._context.share.expects = nothing_expected
        self._context.share.remark = lambda: ""
        self._keys.clear()
        self._context.share.discharge(self._held_bytes)
        self._held_bytes = 0
        self.input.close()


class _Text:
    """What describes an element: as it is where that is short, else a digest of it, for which it is never all there."""

    __slots__ = ("_digest", "_parts", "_size")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._digest: hashlib.blake2b | None = None

    def add(self, *parts: bytes) -> None:
        for part in parts:
            if self._digest is not None:
                self._digest.update(part)
                continue
            self._parts.append(part)
            self._size += len(part)
            if self._size > _LONGEST_KEY:
                self._digest = hashlib.blake2b(b"".join(self._parts[:-1]), digest_size=_DIGEST_BYTES)
                self._digest.update(part)

    def key(self) -> bytes:
        return b"".join(self._parts) if self._digest is None else self._digest.digest()


def _describe_leaf(leaf: Any, text: _Text) -> None:
    """Bytes that are equal for equal leaves, and no prefix of one another's."""
    if leaf is None:
        text.add(b"-")
    elif type(leaf) is bytes:
        text.add(b"b%d:" % len(leaf), leaf)
    elif isinstance(leaf, Ragged):
        text.add(b"r")
        _describe_leaf(leaf.values, text)
        _describe_leaf(leaf.row_splits, text)
    elif isinstance(leaf, Sparse):
        text.add(b"s")
        for array in (leaf.indices, leaf.values, leaf.dense_shape):
            _describe_leaf(array, text)
    elif is_dataset(leaf):
        raise BadType("expected arrays, numbers or strings, got a dataset, which cannot be compared")
    else:
        array = np.asarray(leaf)
        text.add(f"{array.dtype.str}{array.shape}".encode())
        for part in _pieces(array):
            if array.dtype.kind == "O":
                for item in part.tolist():
                    _describe_leaf(item, text)
            else:
                text.add(_canonical(part).tobytes())


def _pieces(array: np.ndarray) -> Iterator[np.ndarray]:
    """An array's values in their order, some at a time: there may be no room for a copy of all."""
    if array.size <= _PIECE_VALUES:
        yield array.reshape(-1)
        return
    flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
    for start in range(0, array.size, _PIECE_VALUES):
        yield flat[start : start + _PIECE_VALUES]


def _canonical(array: np.ndarray) -> np.ndarray:
    """The array with one form for all that is equal."""
    if array.dtype.kind not in "fc":
        return array
    array = array + array.dtype.type(0)  # -0.0 becomes 0.0
    missing = np.isnan(array)
    return np.where(missing, array.dtype.type(np.nan), array) if missing.any() else array
