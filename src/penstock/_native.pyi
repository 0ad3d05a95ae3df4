"""Kernels over buffers, written in C++ (see `native/`): no state, no threads, no policy.

Arrays of numbers are one-dimensional, int64, C-contiguous and in the machine's byte order. Anything else is a
`TypeError`, never a silent copy; an unaligned array is a `ValueError`. The kernels release the GIL, except for a gather
of a few kB, and allocate nothing. What they compute depends on their arguments alone, on every machine, and is part of
the meaning of a saved state.
"""

from typing import Any

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
