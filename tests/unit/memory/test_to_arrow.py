"""NumPy's values as Arrow arrays: those that pyarrow makes of them."""

import numpy as np
import pyarrow as pa
import pytest

from penstock.memory.to_arrow import numbers, strings

NUMBERS = [f"{kind}{size}" for kind, sizes in {"i": "1248", "u": "1248", "f": "248"}.items() for size in sizes]
TIMES = ["M8[D]", *(f"{kind}8[{unit}]" for kind in "mM" for unit in ("s", "ms", "us", "ns"))]


@pytest.mark.parametrize("count", [0, 1, 7, 8, 30])
@pytest.mark.parametrize("dtype", ["?", *NUMBERS, *TIMES])
def test_numbers_are_those_of_pyarrow(dtype: str, count: int) -> None:
    drawn = np.random.default_rng(count).integers(0, 100, count)
    values = (drawn % 3 == 0) if dtype == "?" else drawn.astype(dtype)
    found = numbers(values)
    found.validate(full=True)
    assert found.equals(pa.array(values))
    assert numbers(values[::2]).equals(pa.array(values[::2]))


def test_numbers_are_not_copied() -> None:
    values = np.arange(10.0)
    assert numbers(values).buffers()[1].address == values.ctypes.data


@pytest.mark.parametrize("items", [[], [b""], [b"a\0", b"", b"bc"]])
def test_strings_are_those_of_pyarrow(items: list[bytes]) -> None:
    found = strings(items)
    found.validate(full=True)
    assert found.equals(pa.array(items, pa.large_binary()))
