"""Kernels over buffers, written in C++ (see `native/`): no state, no threads, no policy; and memory for arrays.

Arrays of numbers are one-dimensional, int64, C-contiguous and in the machine's byte order. Anything else is a
`TypeError`, never a silent copy; an unaligned array is a `ValueError`. The kernels release the GIL, except for some kB.
Those for orders allocate nothing; what they compute depends on their arguments alone, on every machine, and is part of
the meaning of a saved state. Those that read records may be given any bytes: they never look behind them, and set
nothing aside by a number that the bytes claim.
"""

from collections.abc import Sequence
from mmap import mmap
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

def permute(n: int, key: int, start: int, out: NDArray[np.int64]) -> None:
    """Writes `out[i] = P(start + i)`, where P is a bijection of [0, n) chosen by `key`.

    Args:
        n: Size of the domain, 1 to 2**63 - 1.
        key: Chooses P, 0 to 2**64 - 1.
        start: First position; `start + len(out)` must not exceed `n`.
        out: Receives the result.

    Raises:
        ValueError: `n` or `key` is out of its range.
        IndexError: A position is outside [0, n). `out` is untouched.
    """

def permute_at(n: int, key: int, index: NDArray[np.int64], out: NDArray[np.int64]) -> None:
    """Writes `out[i] = P(index[i])`, with the P of `permute`. `out` may be `index` itself.

    Raises:
        ValueError: `n` or `key` is out of its range, the lengths differ, or the arrays overlap in part.
        IndexError: An index is outside [0, n). The entries of `out` before it are written already.
    """

def random_numbers(key: int, index: NDArray[np.int64], out: NDArray[np.int64]) -> None:
    """Writes numbers in [0, 2**32), each of which follows from `key` and one index. `out` may be `index` itself.

    Raises:
        ValueError: `key` is not within [0, 2**64), the lengths differ, or the arrays overlap in part.
    """

def window_shuffle(
    slots: NDArray[np.int64],
    filled: int,
    incoming: NDArray[np.int64],
    draining: bool,
    key: int,
    step: int,
    out: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Advances a shuffle buffer of `len(slots)` indices as far as `incoming` and `out` allow.

    First the free slots are filled from `incoming`. Then each step t emits the content of a slot drawn by a
    hash of `(key, t)` and puts the next incoming index in its place; a step is taken only when that next
    index is there. With `draining`, nothing comes after `incoming`: once it is used up, a step puts the last
    filled slot in the place of the drawn one, until the buffer is empty.

    The sequence emitted does not depend on how `incoming` and `out` are cut into calls, provided that the
    caller carries `slots`, `filled` and the unconsumed rest of `incoming` from call to call, adds `produced`
    to `step`, and passes `draining` only from the call that has the last of the incoming indices on.

    Args:
        slots: The buffer, changed in place; only `slots[:filled]` has meaning.
        filled: Number of slots in use.
        incoming: The next indices.
        draining: Whether `incoming` is the last there is.
        key: Chooses the sequence of draws, 0 to 2**64 - 1.
        step: Number of indices emitted before this call.
        out: Receives what is emitted, at most `len(out)` indices.

    Returns:
        `(consumed, produced, filled)`: how many of `incoming` were used, how many entries of `out` were
            written, and the new number of slots in use.

    Raises:
        ValueError: `slots` is empty, a number is out of its range, or arrays share memory.
            Nothing is changed.
    """

def gather(rows: NDArray[Any], index: NDArray[np.int64], start: int, out: NDArray[Any]) -> None:
    """Writes `out[i] = rows[index[start + i]]` for each row of `out`, byte by byte.

    The indices behind those are taken to be picked next: their rows are asked for, so that they are in the cache by
    then. They need not name rows at all.

    Args:
        rows: Any shape with a first axis, any dtype without Python objects, C-contiguous; may be read-only.
        index: Row numbers.
        start: Where in `index` to begin.
        out: C-contiguous and writeable, with rows of as many bytes as those of `rows`. Must not share memory with it.

    Raises:
        ValueError: The sizes do not fit, or an array has another layout.
        IndexError: An index names no row. `out` is untouched.
    """

Buffer: TypeAlias = bytes | bytearray | memoryview | mmap | NDArray[Any]
#: `bytes` of each record, or (buffer, offsets, lengths).
Records: TypeAlias = Sequence[bytes] | tuple[Buffer, NDArray[np.int64], NDArray[np.int64]]
#: (key, kind, values, row splits, values per row where there are no splits). Kinds: 1 bytes, 2 float32, 3 int64.
#: Values are a C-contiguous array, or a list of bytes. Of kind 0, a Feature without a list, there are none.
EncodedColumn: TypeAlias = tuple[bytes, int, NDArray[Any] | list[bytes], NDArray[np.int64] | None, int]

def crc32c(data: Buffer) -> int:
    """The CRC-32C (Castagnoli) of some bytes, not masked. Uses the processor's instruction where it has one."""

def crc32c_portable(data: Buffer) -> int:
    """The same by table."""

def scan_records(
    buffer: Buffer,
    start: int,
    check_length: bool,
    check_data: bool,
    offsets: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> tuple[int, int, int, int, int]:
    """Finds the records of a TFRecord file that lie whole in a buffer.

    Args:
        buffer: Bytes of the file.
        start: Where in the buffer a record begins.
        check_length: Whether the checksums of lengths are compared.
        check_data: Whether the checksums of data are compared.
        offsets: Receives where the data of each record begins in the buffer; at most this many are looked for.
        lengths: Receives the bytes of data of each record.

    Returns:
        `(num_records, offset, stop, expected, got)`. `offset` is where in the buffer the record behind those
            found begins; `stop` says why it is not among them:

            0. The buffer ends there, or `offsets` is full.
            1. Fewer than 12 bytes are left, `got`.
            2. Its data, of `expected` bytes, and the 4 bytes behind it do not end in the buffer, which has `got` bytes
               behind the header. Lengths up to 2**64 - 1 come as they are.
            3. The masked checksum of its length is stored as `expected` and computed as `got`.
            4. The same of its data.

    Raises:
        IndexError: `start` is behind the buffer.
        ValueError: A number is negative, or `offsets` and `lengths` are of two lengths.
    """

def check_records(buffer: Buffer, offsets: NDArray[np.int64], lengths: NDArray[np.int64]) -> tuple[int, int, int, int]:
    """Checks both checksums of records whose places are known.

    Args:
        buffer: Bytes of a file, or of parts of it.
        offsets: Where the data of each record begins in the buffer.
        lengths: The bytes of data that each is expected to have.

    Returns:
        `(number, stop, expected, got)` of the first record that is not as it should be, `stop` as in `scan_records`;
            2 says that its length is another than was expected. With 0 all are fine.
    """

def is_aligned(array: NDArray[Any], alignment: int) -> bool:
    """Whether an array lies in one piece, in C's order, and begins at a multiple of so many bytes."""

def write_row(columns: tuple[NDArray[Any], ...], types: tuple[type, ...], row: int, leaves: tuple[Any, ...]) -> bool:
    """Writes the leaves of one element to their row of columns, if each is like what its column holds.

    Args:
        columns: Arrays of any dtype without objects.
        types: The type that the leaf of each column has: an array, or a NumPy scalar.
        row: Which row.
        leaves: What is written.

    Returns:
        False for a leaf of another type, shape or dtype; those before it were written.

    Raises:
        IndexError: There is no such row.
    """

def cut_records(records: Records) -> list[bytes]:
    """Copies records out of their buffer."""

def read_records(
    file: int,
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    targets: NDArray[np.int64],
    memory: NDArray[np.uint8],
    used: int,
) -> tuple[list[int], int]:
    """Reads parts of a file, each to its place in memory. Not on Windows.

    Args:
        file: A descriptor.
        begins, ends: Where each part is in the file; in any order, also one twice.
        targets: Where in memory each goes.
        memory: Its first `used` bytes receive the parts; what lies behind them is room to read neighbours at once.
            There need not be any.
        used: See there.

    Returns:
        The numbers of the parts that could not be read, and where the file ended, or minus the number of an error.

    Raises:
        ValueError: A part would not lie in the first `used` bytes.
    """

def frame_records(records: Records, out: bytearray | memoryview | NDArray[Any], start: int) -> int:
    """Writes records as they are in a TFRecord file, 16 bytes more than their data each.

    Args:
        records: What to write.
        out: Receives it.
        start: Where in `out` to begin.

    Returns:
        The end of what was written.

    Raises:
        ValueError: `out` is too small. It is untouched.
        IndexError: A record lies outside of its buffer.
    """

class RecordBuffer:
    """Room for framed records. `memory` cannot change its size meanwhile."""

    def __init__(self, memory: bytearray) -> None: ...
    def add(self, record: object) -> bool:
        """Frames a record behind those before it; False, and nothing happens, unless it is `bytes` and fits."""

    def take(self) -> int:
        """How many bytes of the memory are filled. The next record comes to its beginning again."""

def frame_record(record: bytes, out: bytearray | memoryview | NDArray[Any], start: int) -> int:
    """The same for one record."""

class ExampleFeatures:
    """Features to find in records, made once and used for many.

    Args:
        keys: Their keys, each once.
        kinds: 1 bytes, 2 float32, 3 int64.
        num_values: How many values a record must have; None where any number will do.
        defaults: Values for records without the feature: the bytes of an array, or a tuple of bytes; else None. In
            feature lists it only says that a list may be missing.
        empty_replaces: Of a key that an Example has twice, whether the last counts even if it has no values at all.
    """

    def __init__(
        self,
        keys: list[bytes],
        kinds: list[int],
        num_values: list[int | None],
        defaults: list[bytes | tuple[bytes, ...] | None],
        empty_replaces: list[bool],
    ) -> None: ...
    def parse(
        self, records: Records, layout: int, outputs: list[NDArray[Any]]
    ) -> FoundFeatures | tuple[int, int, int, int, int]:
        """Parses records as TensorFlow does.

        Args:
            records: Serialized messages; they are kept until the result is gone.
            layout: 0: Examples, as of `tf.io.parse_example`. 1: one Example, as of `tf.io.parse_single_example`, which
                lets no empty Feature replace an earlier one of its key. 2: contexts of
                SequenceExamples. 3: their feature lists.
            outputs: One array for each feature: where `num_values` is given, and the layout is not 3, for all values of
                all records (float32, int64, or objects that become bytes); else int64 for row splits, one more than
                there are records: of values, or, for layout 3, of steps.

        Returns:
            What `fill` needs; or `(flaw, record, feature, number, step)` where a record is not as it should be. Flaws:
                1 it is not the message; 2 its feature is no list; 3 one of kind `number`; 4 it is missing; 5 it has
                `number` values. `step` is -1 except for layout 3. Outputs are then written in part.

        Raises:
            ValueError: The outputs do not fit the features or the number of records.
        """

class FoundFeatures:
    """Features as they were found in some records."""

    def fill(self, feature: int, out: NDArray[Any], row_stride: int) -> None:
        """Writes the values of a feature of all records, one record after the other.

        Args:
            feature: Its number.
            out: Receives them: float32, int64, or objects that become bytes.
            row_stride: Each record begins so many values behind the one before; 0: right behind it.

        Raises:
            ValueError: `out`, or a row of it, is too small.
        """

    def count_steps(self, feature: int, out: NDArray[np.int64]) -> None:
        """Writes the number of values of each step of a feature list, of all records.

        Raises:
            ValueError: `out` has fewer numbers than there are steps.
        """

def encode_examples(columns: list[EncodedColumn], framed: bool, lengths: NDArray[np.int64]) -> bytes:
    """Serializes Examples, one for each entry of `lengths`, which receives their bytes without frames.

    Features come in the order of the columns.
    """

def encode_feature_lists(columns: list[EncodedColumn], num_steps: list[int]) -> bytes:
    """Serializes the feature lists of one SequenceExample: each row of a column is a step."""

def encode_plain_example(features: Any) -> bytes | None:
    """Serializes one Example of plain values: numbers, strings, flat lists of one kind, C-contiguous arrays.

    Keys are sorted by their bytes. None if it is no dict, a value or key is not plain, or does not fit.
    """

def resize_bilinear(image: NDArray[Any], out: NDArray[np.float32]) -> None:
    """Writes an image in the size of `out`, bilinear with pixels at halves, to the last bit as TensorFlow does.

    Args:
        image: (height, width, channels), of 8 or 16 bits, int32, float32 or float64; each row contiguous.
        out: (new_height, new_width, channels), C-contiguous and writeable. Must not share memory with `image`.

    Raises:
        ValueError: Something about the arrays is different.
    """

def array_memory(mapped_from_bytes: int, counted_to_bytes: int) -> object:
    """Memory for NumPy's arrays, to be used with `use_array_memory`.

    Arrays of so many bytes or more are mapped: they go back to the system when they are freed, and begin at a multiple
    of 64 bytes. Others, and those for which the system has no mapping left, are malloc's. It lives as long as any array
    in it. `mapped_so_far` counts those of up to `counted_to_bytes`.
    """

def use_array_memory(memory: object) -> object:
    """Has NumPy take memory for arrays from there, in this thread; returns where it took it from before."""

def used_array_memory() -> object:
    """Where NumPy takes memory for arrays from, in this thread."""

def keep_arrays(memory: object, nbytes: int) -> None:
    """Has so many bytes of mapped arrays, at most, stay with the process when they are freed, for the next ones."""

def mapped_so_far(memory: object) -> tuple[int, int]:
    """Bytes of arrays that were mapped so far, but for those that were at hand; and of the largest."""
