"""fill_batches: threads that decode images share the batch's slot, and nothing else changes."""

import dataclasses
import functools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.optimize import optimize
from penstock.optimize.fill_batches import fill_batches

D = ps.Dataset
pytestmark = pytest.mark.timeout(120)


def load(name: Any) -> Any:
    return ps.image.resize(ps.image.decode_jpeg(ps.io.read_file(name), channels=3), (8, 6)) / np.float32(255)


def load_pair(name: Any, label: Any) -> Any:
    return load(name), label


def of_numbers(x: Any) -> Any:
    return np.full(10, x)


def filled(dataset: Any) -> list[int]:
    """How many results share a slot, of the operators for which the rule says so."""
    node, _ = optimize(dataset.node, [(fill_batches,)])
    return [n.op.traits.fills for n in node.walk() if n.op.traits.fills]


@pytest.mark.parametrize("written, sizes", [
    (lambda ds: ds.map(load, 2).batch(16), [16]),
    (lambda ds: ds.map(load, 2).batch(20, drop_remainder=True), [20]),
    (lambda ds: ds.map(load, num_parallel_calls=2, deterministic=False).batch(16), [16]),
    (lambda ds: ds.map(lambda x: (load(x), 1), 2).batch(16), [16]),
    (lambda ds: ds.map(load, 2).ignore_errors().batch(16), [16]),
    (lambda ds: ds.map(load, 2).take(30).batch(16).prefetch(1), [16]),
    # Nothing to share: one thread, the caller's own; no batch, or one of unequal elements.
    (lambda ds: ds.map(load).batch(16), []),
    (lambda ds: ds.map(load, 2), []),
    (lambda ds: ds.map(load, 2).padded_batch(16), []),
    (lambda ds: ds.map(load, 2).filter(lambda x: True).batch(16), []),
    # Threads would wait for each other at the end of each batch, or a batch would come in pieces.
    (lambda ds: ds.map(load, 3).batch(16), []),
    (lambda ds: ds.map(load, 2).prefetch(2).batch(16), []),
    # Another kind of function.
    (lambda ds: ds.map(of_numbers, 2).batch(16), []),
    (lambda ds: ds.map(load, 2, stateful=True).batch(16), []),
    (lambda ds: ds.map(load, 2, vectorized=True).batch(16), []),
    (lambda ds: ds.map(functools.partial(of_numbers), 2).batch(16), []),
])  # fmt: skip
def test_what_is_rewritten(written: Callable[[Any], Any], sizes: list[int]) -> None:
    assert filled(written(D.from_tensor_slices(["a", "b"]))) == sizes


def test_two_functions_that_became_one_count_as_one() -> None:
    dataset = D.from_tensor_slices(["a", "b"] * 8).map(load, 2).map(of_numbers, 2).batch(16)
    assert "decoded straight into the batch" in str(dataset.explain())


def test_a_take_that_must_hear_of_failures_stays_with_the_general_way() -> None:
    explained = str(D.from_tensor_slices(["a", "b"]).map(load, 2).take(1).batch(16).explain())
    assert "decoded straight into the batch" not in explained


# --- the same to the bit ----------------------------------------------------------------------------------------


@pytest.fixture
def names(tmp_path: Path) -> list[str]:
    """70 small images: JPEG and PNG, grey and in colour, of many sizes."""
    rng = np.random.default_rng(1)
    found = []
    for number in range(70):
        pixels = rng.integers(0, 256, (5 + number % 7, 4 + number % 11, 1 if number % 3 == 0 else 3), dtype=np.uint8)
        encode = ps.image.encode_png if number % 4 == 0 else ps.image.encode_jpeg
        found.append(str(tmp_path / f"{number:03}.jpg"))
        Path(found[-1]).write_bytes(encode(pixels))
    return found


@dataclasses.dataclass
class Sample:
    image: Any
    label: Any


CHAINS: dict[str, Callable[..., Any]] = {
    "float32": load_pair,
    "float": lambda n, y: (ps.image.resize(ps.image.decode_image(ps.io.read_file(n), 3), (8, 6)) / 255.0, y),
    "float64": lambda n, y: (np.float64(2) * ps.image.resize(ps.image.decode_png(ps.io.read_file(n), 1), (8, 6)), y),
    "uint8": lambda n, y: (ps.image.resize(ps.image.decode_png(ps.io.read_file(n), 3), (5, 5), "nearest"), y),
    "in a dict": lambda n, y: {"image": load(n), "label": y, "twice": load(n)},
    "in a dataclass": lambda n, y: Sample(load(n), y),
    "in a nest": lambda n, y: ({"a": (load(n), y)}, np.arange(3)),
    "alone": lambda n, y: load(n),
    "per channel": lambda n, y: ((load(n) - np.array([0.4, 0.5, 0.6], np.float32)) / 0.2, y),
    "converted": lambda n, y: ps.image.convert_image_dtype(
        ps.image.resize(ps.image.decode_jpeg(ps.io.read_file(n), channels=3), (8, 6)), np.float16
    ),
    "with its name": lambda n, y: (load(n), n),
    "by the label": lambda n, y: load(n) if y % 5 else load(n) * 2,
}  # fmt: skip


def leaves(element: Any) -> list[Any]:
    if isinstance(element, Sample):
        element = vars(element)
    if isinstance(element, dict):
        element = tuple(element.values())
    return [leaf for part in element for leaf in leaves(part)] if isinstance(element, tuple) else [element]


def same(some: Any, others: Any) -> None:
    for a, b in zip(some, others, strict=True):
        for x, y in zip(leaves(a), leaves(b), strict=True):
            assert x.dtype == y.dtype
            assert x.shape == y.shape
            assert x.tolist() == y.tolist() if x.dtype == object else x.tobytes() == y.tobytes()


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("parallel", [1, 2, 4, ps.AUTOTUNE])
def test_equal_to_the_function_as_written(
    monkeypatch: pytest.MonkeyPatch, names: list[str], chain: str, parallel: int
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    source = D.from_tensor_slices((names, np.arange(len(names))))
    dataset = source.map(CHAINS[chain], parallel).batch(32)
    assert filled(dataset) == [32]
    same(list(dataset), list(source.map(CHAINS[chain]).batch(32).run(optimize=False)))


def test_equal_after_a_shuffle_and_over_epochs(names: list[str]) -> None:
    def written(parallel: int | None) -> Any:
        return D.from_tensor_slices(names).map(load, parallel).shuffle(20, seed=3).batch(16, drop_remainder=True)

    threaded, plain = written(2), written(None)
    for epoch in range(3):
        same(list(threaded.run(epoch=epoch)), list(plain.run(epoch=epoch, optimize=False)))


def test_images_of_a_folder(names: list[str], tmp_path: Path) -> None:
    for number, name in enumerate(names):
        folder = tmp_path / "classes" / ("cat" if number < 30 else "dog")
        folder.mkdir(parents=True, exist_ok=True)
        Path(name).rename(folder / Path(name).name)
    dataset = D.from_image_folder(tmp_path / "classes", image_size=(8, 6), channels=3, num_parallel_calls=2).batch(32)
    assert filled(dataset) == [32]
    same(list(dataset), list(dataset.run(optimize=False)))
    assert not filled(D.from_image_folder(tmp_path / "classes", decode=False, num_parallel_calls=2).batch(32))


def test_each_element_is_asked_for_once_whatever_the_function_does_besides(names: list[str]) -> None:
    called: list[str] = []
    rng = random.Random(1)

    def counting(name: bytes) -> Any:
        called.append(name.decode())
        return load(name) * rng.choice([1, 1, 1])

    assert len(list(D.from_tensor_slices(names).map(counting, 2).batch(32))) == 3
    assert sorted(called) == names
