"""`from_torch` with PyTorch's own datasets."""

from __future__ import annotations

import collections
import dataclasses
import pickle
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

import penstock as ps
from penstock.errors import BadType
from penstock.testing import check_op, check_source


class Squares(torch.utils.data.Dataset):
    """Tensors by number; notes which were asked for."""

    def __init__(self, num: int = 50) -> None:
        self.num = num
        self.asked: list[int] = []

    def __len__(self) -> int:
        return self.num

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int]:
        self.asked.append(place)
        if place == 1000:
            raise ValueError("no such square")
        return torch.full((4,), place, dtype=torch.float32), place * place


class Stream(torch.utils.data.IterableDataset):
    """Numbers, one after the other."""

    def __iter__(self) -> Iterator[Any]:
        for n in range(20):
            yield {"n": torch.tensor(n), "row": torch.ones(3) * n}


def test_map_style_is_read_at_any_place() -> None:
    squares = Squares()
    dataset = ps.from_torch(squares)
    assert len(dataset) == 50
    found = [int(y) for _, y in dataset.shuffle(seed=1).skip(47)]
    assert len(squares.asked) == 3
    assert found == [n * n for n in squares.asked]
    assert "in order .shuffle" in str(dataset.shuffle(seed=1).explain())


def test_map_style_keeps_the_laws_of_sources() -> None:
    check_source(ps.from_torch(Squares(23)))
    check_op(ps.from_torch(Squares(23)).shuffle(seed=3).map(lambda x, y: (x + 1, y)).batch(4).prefetch(2))


def test_an_item_that_fails_is_an_error_in_its_place() -> None:
    run = ps.from_torch(Squares(1002)).skip(999).run()
    assert int(next(run)[1]) == 999**2
    with pytest.raises(ValueError, match="no such square") as caught:
        next(run)
    assert "element 1000" in caught.value.__notes__[0]
    assert int(next(run)[1]) == 1001**2


def test_items_are_inside_the_budget() -> None:
    class Large(Squares):
        def __getitem__(self, place: int) -> Any:
            return torch.ones(25_000)

    with ps.from_torch(Large()).shuffle(seed=1).batch(4).run(memory="4MB") as run:
        assert [len(batch) for batch in run] == [4] * 12 + [2]
        assert run.ledger.peak_bytes <= 4_000_000


def test_iterables_are_streams() -> None:
    dataset = ps.from_torch(Stream())
    assert dataset.cardinality() == ps.UNKNOWN
    assert [int(e["n"]) for e in dataset] == list(range(20))
    check_op(dataset.batch(3))


def test_tensors_are_not_copied() -> None:
    x, y = torch.arange(12.0).reshape(6, 2), torch.arange(6)
    (batch,) = ps.from_torch(torch.utils.data.TensorDataset(x, y)).batch(6)
    assert batch[0].ctypes.data == x.data_ptr()
    assert batch[1].tolist() == [0, 1, 2, 3, 4, 5]


def test_there_and_back() -> None:
    feed = ps.from_torch(Squares()).shuffle(seed=2).batch(10).to_torch()
    assert sorted(int(n) for _, y in feed for n in y) == [n * n for n in range(50)]


def test_what_is_no_dataset() -> None:
    with pytest.raises(BadType, match=r"from_torch at test_from_torch.py:\d+: dataset: expected a dataset of PyTorch"):
        ps.from_torch(3)

    class NoLength(torch.utils.data.Dataset):
        def __getitem__(self, place: int) -> Any:
            return place

    with pytest.raises(BadType, match="expected one with a length"):
        ps.from_torch(NoLength())
    with pytest.raises(BadType, match="at least one component"):
        next(iter(ps.from_torch([()])))
    assert list(ps.from_torch(np.arange(3))) == [0, 1, 2]


class Tensors(torch.utils.data.Dataset):
    def __init__(self, make: Any) -> None:
        self._make = make

    def __len__(self) -> int:
        return 3

    def __getitem__(self, i: int) -> Any:
        return self._make(i)


class TensorStream(torch.utils.data.IterableDataset):
    def __init__(self, make: Any) -> None:
        self._make = make

    def __iter__(self) -> Any:
        return iter([self._make(i) for i in range(3)])


@pytest.mark.parametrize("kind", [Tensors, TensorStream])
def test_tensors_with_gradients_and_of_bfloat16(kind: Any) -> None:
    learned = torch.ones(2, requires_grad=True)
    assert [x.tolist() for x, _ in ps.from_torch(kind(lambda i: (learned * i, {"i": i})))] == [[0, 0], [1, 1], [2, 2]]
    halves = list(ps.from_torch(kind(lambda i: torch.full((2,), i, dtype=torch.bfloat16))))
    assert [x.dtype.name for x in halves] == ["bfloat16"] * 3
    assert [x.astype(float).tolist() for x in halves] == [[0, 0], [1, 1], [2, 2]]


@pytest.mark.parametrize("kind", [Tensors, TensorStream])
def test_bfloat16_without_a_dtype_for_it_says_what_to_do(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(ps.errors.BadType, match=r"got bfloat16 \(2,\); install ml_dtypes, or give tensor.float"):
        list(ps.from_torch(kind(lambda i: torch.zeros(2, dtype=torch.bfloat16))))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_small_floats(dtype: torch.dtype) -> None:
    found = list(ps.from_torch(Tensors(lambda i: torch.full((2,), float(i)).to(dtype))))
    assert [f"torch.{x.dtype.name}" for x in found] == [str(dtype)] * 3
    assert [x.astype(float).tolist() for x in found] == [[0, 0], [1, 1], [2, 2]]


def test_tensors_that_numpy_has_no_arrays_for() -> None:
    with pytest.raises(
        ps.errors.BadType, match=r"expected tensors that NumPy has arrays for, got float32 \(2,\): can't"
    ):
        list(ps.from_torch(Tensors(lambda i: torch.zeros(2).to_sparse())))


def test_errors_name_from_torch() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        list(ps.from_torch(Tensors(lambda i: 1 // i)))
    assert "from_torch(3 of Tensors)" in caught.value.__notes__[0]
    with pytest.raises(ps.errors.BadType, match=r"from_torch at test_from_torch.py"):
        list(ps.from_torch(TensorStream(lambda i: object())))


@pytest.mark.parametrize("kind", [Tensors, TensorStream])
def test_a_list_is_a_nest_as_for_pytorch(kind: Any) -> None:
    dataset = ps.from_torch(kind(lambda i: [torch.zeros(3), torch.tensor(i), {"both": [torch.ones(2), torch.ones(2)]}]))
    rows, numbers, more = next(iter(dataset.batch(3)))
    assert (rows.shape, numbers.tolist()) == ((3, 3), [0, 1, 2])
    assert [part.shape for part in more["both"]] == [(3, 2), (3, 2)]
    loader = torch.utils.data.DataLoader(kind(lambda i: [torch.zeros(3), torch.tensor(i)]), batch_size=3)
    assert [part.shape for part in next(iter(loader))] == [(3, 3), (3,)]


class Told(torch.utils.data.IterableDataset):
    """Five numbers, and what it says of their number."""

    def __init__(self, length: Any) -> None:
        self.length = length

    def __iter__(self) -> Iterator[Any]:
        return iter(range(5))

    def __len__(self) -> int:
        if self.length is None:
            raise NotImplementedError
        return int(self.length)


def test_the_length_that_a_stream_states_counts() -> None:
    assert len(ps.from_torch(Told(5)).batch(2)) == 3
    check_source(ps.from_torch(Told(5)))
    assert ps.from_torch(Told(None)).cardinality() == ps.UNKNOWN
    run = ps.from_torch(Told(7)).run()
    assert [int(next(run)) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(ps.errors.OutOfRange, match=r"at test_from_torch.py:.*expected 7 elements, got only 5"):
        next(run)


@pytest.mark.parametrize("source", [Squares(8), Stream(), torch.utils.data.TensorDataset(torch.arange(8))])
def test_a_dataset_can_be_pickled_as_for_a_process_that_is_started_anew(source: Any) -> None:
    dataset = ps.from_torch(source).shuffle(4, seed=1).batch(3)
    found = [repr(batch) for batch in pickle.loads(pickle.dumps(dataset)).run(epoch=0)]
    assert found == [repr(batch) for batch in dataset.run(epoch=0)]
    assert repr(ps.from_torch(Stream()).node) == "from_torch(Stream)"


@dataclasses.dataclass
class Sample:
    """An element that is a dataclass."""

    image: Any
    label: Any


def test_tensors_in_dataclasses_and_mappings_and_those_that_stand_for_others() -> None:
    learned = torch.ones(2, requires_grad=True)
    for nest in (
        lambda i: Sample(learned * i, [i, learned]),
        lambda i: collections.UserDict(image=learned * i, label=[i, learned]),
    ):
        (batch,) = ps.from_torch(Tensors(nest)).batch(3)
        parts = (batch.image, batch.label) if isinstance(batch, Sample) else (batch["image"], batch["label"])
        assert parts[0].tolist() == [[0, 0], [1, 1], [2, 2]]
        assert parts[1][0].tolist() == [0, 1, 2]
    conjugate = torch.tensor([1 + 2j, 3j]).conj()
    assert [x.tolist() for (x,) in ps.from_torch(torch.utils.data.TensorDataset(conjugate)).batch(2)] == [[1 - 2j, -3j]]
    assert next(iter(ps.from_torch(Tensors(lambda i: conjugate.imag)))).tolist() == [-2, -3]
