"""map_fn with jit: results of both compilers are those of the function itself, or a warning says why there is none."""

import collections
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import penstock as ps
from penstock.mapping import jit as jit_module
from penstock.mapping import programs
from penstock.mapping.recent import Recent
from penstock.mapping.with_jax import JaxChunks, context
from penstock.runtime.temporaries import call_measured

MB = 1_000_000
ROWS = np.random.default_rng(1).normal(size=(5000, 4))


@pytest.fixture(autouse=True)
def no_program_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_recent", Recent())
    monkeypatch.setattr(programs, "_functions", Recent())


@pytest.fixture
def sizes_called(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of how many elements the chunks were that JAX's programs were called with."""
    sizes: list[int] = []

    def noted(self: JaxChunks, columns: Any) -> Any:
        sizes.append(len(columns))
        return called(self, columns)

    called = JaxChunks.__call__
    monkeypatch.setattr(JaxChunks, "__call__", noted)
    return sizes


def repeat_and_sum(x: Any) -> Any:
    return np.repeat(x, 10_000).sum()


@pytest.mark.parametrize("compiler", ["jax", "numba"])
@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.float64])
def test_the_function_of_the_question(compiler: Any, dtype: Any) -> None:
    elems = np.arange(300).astype(dtype)
    told: list[str] = []
    found = ps.map_fn(repeat_and_sum, elems, jit=compiler, report=told.append)
    expected = np.array([repeat_and_sum(x) for x in elems])
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype is np.float32 else 1e-12)
    assert told[0].startswith(f"map_fn: fn compiled with {compiler}, ")


def of_pair(pair: Any) -> Any:
    return pair[0].sum() + pair[1], pair[0] * pair[1]


@pytest.mark.parametrize("compiler", ["jax", "numba"])
@pytest.mark.parametrize("num_elements", [1, 2, 5000])
def test_nests_and_arrays(compiler: Any, num_elements: int) -> None:
    rows, factors = ROWS[:num_elements], np.arange(num_elements)
    total, scaled = ps.map_fn(of_pair, (rows, factors), jit=compiler)
    np.testing.assert_allclose(total, rows.sum(1) + factors, rtol=1e-12)
    np.testing.assert_array_equal(scaled, rows * factors[:, None])


def test_jax_takes_functions_of_its_own_and_any_nest() -> None:
    told: list[str] = []
    found = ps.map_fn(
        lambda d: [jnp.sort(d["x"]), {"n": d["n"] + 1}],
        {"x": ROWS, "n": np.arange(5000)},
        jit=True,
        report=told.append,
    )
    assert "jax" in told[0]
    assert type(found) is list
    assert (found[0].dtype, found[1]["n"].dtype) == (np.float64, np.int64)
    np.testing.assert_array_equal(found[0], np.sort(ROWS, 1))
    np.testing.assert_array_equal(found[1]["n"], np.arange(5000) + 1)


def test_what_jax_does_not_take_numba_may() -> None:
    def count_steps(n: Any) -> Any:
        steps = 0
        while n > 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        return steps

    told: list[str] = []
    elems = np.arange(1, 2000)
    found = ps.map_fn(count_steps, elems, jit=True, num_parallel_calls=2, report=told.append)
    assert "numba" in told[0]
    assert found.tolist() == [count_steps(int(n)) for n in elems]


def test_datasets_and_out() -> None:
    numbers = ps.Dataset.range(10_000).filter(lambda x: x % 3 == 0)
    expected = np.arange(0, 10_000, 3) * 2.5
    out = np.empty(len(expected))
    assert ps.map_fn(lambda x: x * 2.5, numbers, jit=True, out=out) is out
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(ps.map_fn(lambda x: x * 2.5, numbers, jit="numba"), expected)


@pytest.mark.parametrize("compiler", ["jax", "numba"])
@pytest.mark.parametrize("fn, elems", [
    (lambda x: x + 1, np.arange(40, dtype=">i4")),
    (lambda x: x * 2.5, ROWS[:40].astype(">f8")),
    (lambda pair: pair[0] - pair[1], (np.arange(40, dtype=">u2"), np.arange(40.0))),
])  # fmt: skip
def test_numbers_of_another_byte_order(compiler: Any, fn: Any, elems: Any) -> None:
    told: list[str] = []
    np.testing.assert_array_equal(ps.map_fn(fn, elems, jit=compiler, report=told.append), ps.map_fn(fn, elems))
    assert f"compiled with {compiler}" in told[0]


@pytest.mark.parametrize("compiler", ["jax", "numba"])
def test_elements_unlike_those_it_was_compiled_for_are_taken_as_without_a_compiler(compiler: Any) -> None:
    batches = ps.Dataset.range(100).batch(3)  # the last of which is of one
    np.testing.assert_array_equal(ps.map_fn(lambda x: x.sum(), batches, jit=compiler), [*range(3, 298, 9), 99])
    with pytest.raises(ps.errors.SpecMismatch, match="fn returned 1 int64 for element 33, and 3 int64 for the first"):
        ps.map_fn(lambda x: x * 2, batches, jit=compiler)
    numbers = ps.Dataset.from_generator(lambda: iter([*range(50), 0.5]))
    with pytest.raises(ps.errors.SpecMismatch, match="fn returned float64 for element 50, and int64 for the first"):
        ps.map_fn(lambda x: x * 3, numbers, jit=compiler)


def test_elements_unlike_others_are_computed_in_64_bits_too() -> None:
    batches = ps.Dataset.range(100).map(lambda x: x / 3).batch(3)
    found = ps.map_fn(lambda x: jnp.sum(x), batches, jit="jax")
    assert (found.dtype, found[-1]) == (np.float64, 33.0)


def random_shift(x: Any) -> Any:
    return x + np.random.normal()


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize("fn, elems, compiler, why", [
    (random_shift, np.arange(5.0), True, "jax: compiled it returns other values .*; numba: compiled it returns other"),
    (lambda x: 1.0 if x > 2 else 0.0, np.arange(5.0), "jax", "jax: TracerBoolConversionError"),
    (lambda x: str(x), np.arange(5), True, "fn returns string, and only numbers can be compiled"),
    (lambda x: len(x), np.array([b"a", b"bc"]), True, "elements are string, and only numbers"),
    (lambda d: d["a"], {"a": np.arange(3)}, "numba", "only arrays and tuples of arrays can be compiled"),
    (lambda x: x / 2, np.ones((5, 3), np.int8), "jax", "jax: compiled it returns 3 float32, and else 3 float64"),
    (lambda x: np.linalg.norm(x), ROWS[:9], "jax", "jax: TracerArrayConversionError"),
])  # fmt: skip
def test_what_cannot_be_compiled_is_called_as_it_is_and_said(fn: Any, elems: Any, compiler: Any, why: str) -> None:
    told: list[str] = []
    with pytest.warns(RuntimeWarning, match=f"fn is called as it is, jit was of no use: .*{why}") as caught:
        found = ps.map_fn(fn, elems, jit=compiler, report=told.append)
    assert caught[0].filename == __file__
    assert "fn as it is" in told[0]
    assert len(found) == len(elems["a"] if isinstance(elems, dict) else elems)


def test_a_compiler_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit_module, "find_spec", lambda name: None)
    with pytest.warns(RuntimeWarning, match="jax is not installed; numba is not installed"):
        assert ps.map_fn(lambda x: x, np.arange(3), jit=True).tolist() == [0, 1, 2]


def test_a_fraction_that_numba_would_cut_off_is_an_error() -> None:
    elems = np.arange(1000)  # of which the one that differs is not tried
    with (
        pytest.warns(RuntimeWarning, match="numba: compiled it returns float64, and else int64"),
        pytest.raises(ps.errors.SpecMismatch, match="fn returned float64 for element 30, and int64 for the first"),
    ):
        ps.map_fn(lambda x: 0.5 if x == 30 else 1, elems, jit="numba")


def test_a_row_that_numba_would_fill_up_is_an_error() -> None:
    def row(x: Any) -> Any:
        return np.ones(1) if x == 30 else np.full(3, x * 1.0)

    with pytest.raises(ps.errors.SpecMismatch, match="fn returned results of different shapes") as caught:
        ps.map_fn(row, np.arange(1000), jit="numba", num_parallel_calls=None)
    assert "element" in caught.value.__notes__[0]


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float32])
def test_what_numba_computes_with_more_bits_is_of_numpys_dtype(dtype: Any) -> None:
    elems = np.arange(40, dtype=dtype)
    np.testing.assert_array_equal(ps.map_fn(lambda x: x * 2, elems, jit="numba"), elems * 2, strict=True)


def test_an_error_in_compiled_code_has_its_place() -> None:
    def fails(x: Any) -> Any:
        if x == 1234:
            raise ValueError("this one")
        return x

    out = np.full(3000, -1)
    with pytest.raises(ValueError, match="this one") as caught:
        ps.map_fn(fails, np.arange(3000), jit="numba", num_parallel_calls=None, out=out)
    assert caught.value.__notes__[0].endswith("element 1234")
    assert out[:1234].tolist() == list(range(1234))


def look_up(x: Any) -> Any:
    return np.array([10, 20, 30])[x]


@pytest.mark.parametrize("place", [3, 10**9])
def test_an_index_out_of_range_is_an_error_in_compiled_code(place: int) -> None:
    """Far from any element that was compared, and never a read of whatever lies there."""
    elems = np.zeros(5000, np.int64)
    elems[1234] = place
    told: list[str] = []
    assert ps.map_fn(look_up, elems[:1234], jit="numba", report=told.append).tolist() == [10] * 1234
    assert "compiled with numba" in told[0]
    with pytest.raises(IndexError, match="out of bounds") as caught:
        ps.map_fn(look_up, elems, jit="numba", num_parallel_calls=None)
    (note,) = caught.value.__notes__
    assert "map_fn(look_up)" in note
    assert note.endswith("element 1234")


def test_numbers_are_divided_by_zero_as_in_numpy() -> None:
    elems = np.ones(5000)
    elems[1234] = 0.0
    told: list[str] = []
    found = ps.map_fn(lambda x: 1.0 / x, elems, jit="numba", report=told.append)
    assert "compiled with numba" in told[0]
    assert found[1234] == np.inf
    assert ps.map_fn(lambda x: 7 // x, elems.astype(int), jit="numba")[1234] == 0


ONES_TO_ZERO = np.arange(5000, 0, -1) - 1


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
@pytest.mark.parametrize("fn, elems", [
    (lambda x: 100 // x, ONES_TO_ZERO),  # the last is divided by zero, which gives -1 in JAX
    (lambda x: x.astype(np.uint8), np.arange(5000.0)),  # most are too large, and the largest there is in JAX
])  # fmt: skip
def test_values_that_only_differ_further_on_are_found_by_a_sample(fn: Any, elems: Any) -> None:
    with pytest.warns(RuntimeWarning, match="jit was of no use: jax: compiled it returns other values than fn itself"):
        found = ps.map_fn(fn, elems, jit="jax")
    np.testing.assert_array_equal(found, [fn(x) for x in elems])


def test_an_index_that_jax_would_move_into_range_is_an_error() -> None:
    rows = np.zeros((5000, 4), np.int64)
    rows[-1] = 7
    with (
        pytest.warns(RuntimeWarning, match="fn itself raised IndexError for one of the elements tried"),
        pytest.raises(IndexError, match="index 7 is out of bounds") as caught,
    ):
        ps.map_fn(lambda row: row[row[0]], rows, jit="jax")
    assert caught.value.__notes__[0].endswith("element 4999")


def test_large_elements_are_compared_two_at_a_time_at_least_and_not_many() -> None:
    seen: list[int] = []

    def noted(row: Any) -> Any:
        seen.append(int(row[0]) if isinstance(row, np.ndarray) else -1)
        return row.sum()

    rows = np.arange(40.0)[:, None] * np.ones(100_000)
    np.testing.assert_allclose(ps.map_fn(noted, rows, "16MB", jit="jax"), rows[:, 0] * 100_000)
    assert [x for x in seen if x >= 0] == [0, 39, 1]


@pytest.mark.parametrize("compiler, is_of_use", [("jax", False), ("numba", True)])
def test_calls_to_compare_with_are_measured_where_that_is_of_use(
    compiler: Any, is_of_use: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[Any] = []

    def noted(saw: Any, function: Any, args: Any, kwargs: Any) -> Any:
        measured.append(args)
        return call_measured(saw, function, args, kwargs)

    monkeypatch.setattr(jit_module, "call_measured", noted)
    ps.map_fn(lambda x: x + 1, np.arange(100), jit=compiler)
    assert bool(measured) is is_of_use


def test_values_that_differ_are_told_with_all_digits() -> None:
    with pytest.raises(jit_module.NotCompiled, match=r": 1\.000000000001 for 1\."):
        jit_module._check_leaf(np.float64(1.000000000001), np.float64(1.0))


def test_an_error_for_the_first_element_is_the_functions_own() -> None:
    def fails(x: Any) -> Any:
        raise ValueError("at once")

    with (
        pytest.warns(RuntimeWarning, match="fn itself raised ValueError"),
        pytest.raises(ValueError, match="at once") as caught,
    ):
        ps.map_fn(fails, np.arange(3), jit=True)
    assert caught.value.__notes__[0].endswith("element 0")


def outer_sums(v: Any) -> Any:
    return jnp.cumsum(jnp.outer(v, v).ravel())[::30_000]


def test_chunks_of_jax_are_as_large_as_there_is_room_for() -> None:
    """Each element takes 1.4 MB between, by XLA's own account."""
    vectors = np.random.default_rng(2).normal(size=(64, 300))
    chunks = []
    for memory in ("4MB", "16MB"):
        told: list[str] = []
        found = ps.map_fn(outer_sums, vectors, memory=memory, jit="jax", report=told.append)
        expected = [np.cumsum(np.outer(v, v).ravel())[::30_000] for v in vectors]
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        chunks.append(int(told[0].split("jax, ")[1].split()[0]))
    assert 1 <= chunks[0] < chunks[1] < 16 * MB // 1_440_000
    with pytest.warns(RuntimeWarning, match="one element takes .* bytes, and"):
        ps.map_fn(outer_sums, vectors[:3], memory="2MB", jit="jax")


def test_a_chunk_that_is_not_full_is_filled_up_with_an_element() -> None:
    with context():
        program = JaxChunks(lambda x: 1 / x, np.arange(1.0, 3.0), 8)
    with np.errstate(all="raise"):
        assert program(np.array([4.0, 2.0])).tolist() == [0.25, 0.5]


def test_small_chunks_that_come_often_get_a_program_of_their_own() -> None:
    """Threads hand over a few elements at a time: each must not cost as much as thousands."""
    with context():
        program = JaxChunks(lambda x: x * 2, np.arange(3), 4096)
    for size in (10, 10, 10, 11, 4000):
        assert program(np.arange(size)).tolist() == [x * 2 for x in range(size)]
    assert sorted(program._programs) == [16, 4096]


@pytest.mark.parametrize("num_elements, sizes", [
    (1, [1, 1]),
    (16, [16, 16]),
    (1000, [16, 1000]),
    (10_000, [16, 5000, 5000]),
    (8193, [16, 4097, 4096]),
])  # fmt: skip
def test_chunks_are_about_equal_and_no_element_is_computed_alone(
    num_elements: int, sizes: list[int], sizes_called: list[int]
) -> None:
    results = ps.map_fn(lambda x: x * 2, np.arange(num_elements), jit="jax")
    np.testing.assert_array_equal(results, np.arange(num_elements) * 2)
    assert sizes_called == sizes  # the first is to compare


def test_chunks_are_full_however_long_they_take(sizes_called: list[int]) -> None:
    ps.map_fn(outer_sums, np.ones((10, 300)), memory="16MB", jit="jax")
    assert sizes_called == [5, 5, 5, 5]  # ten to compare, and full ones
    sizes_called.clear()
    ps.map_fn(outer_sums, np.ones((10, 300)), memory="16MB", jit="jax")
    assert sizes_called == [4, 5, 5]  # few to compare, where the program has agreed before


def test_an_error_in_compiled_code_says_which_element_it_was() -> None:
    def refuse(y: Any) -> Any:
        if y == 58:  # none of those that are compared
            raise ValueError("no 58")
        return np.asarray(y) + 1

    def fn(x: Any) -> Any:
        return jax.pure_callback(refuse, jax.ShapeDtypeStruct((), np.float64), x, vmap_method="sequential")

    with jax.enable_x64(True), pytest.raises(Exception, match="callback") as caught:
        ps.map_fn(fn, np.arange(100.0), jit="jax")
    assert "element 58" in caught.value.__notes__[-1]
