"""Which attributes methods may read: those they name, or any where their code does not tell."""

import functools
import gc
import weakref
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from penstock.plan.reads import attributes_read


def given(owner: Any) -> Any:
    return owner.hidden


class Base:
    hidden = 0

    def of_base(self) -> Any:
        return self.base_value

    @property
    def base_value(self) -> Any:
        return self._base_value

    _base_value = 1


class Reader(Base):
    value = 1
    inner = 2

    def plain(self, x: Any) -> Any:
        return x + self.value

    def in_turn(self, x: Any) -> Any:
        return self.plain(x) + self.lasting

    def by_base(self) -> Any:
        return super().of_base()

    def in_a_function(self) -> Any:
        return (lambda: self.inner)()

    def writing(self, x: Any) -> None:
        self.value = x

    @functools.cached_property
    def lasting(self) -> Any:
        return self.kept

    kept = 3

    @staticmethod
    def without(x: Any) -> Any:
        return x

    def to_static(self, x: Any) -> Any:
        return self.without(x)

    def to_others(self) -> Any:
        return given(self)

    def by_name(self) -> Any:
        return self.__dict__["hidden"]

    def in_an_inner_function(self) -> Any:
        return (lambda: given(self))()

    def itself(self) -> Any:
        return self

    def twice(self, x: Any) -> Any:
        return self.itself().hidden + x

    def in_any(*all: Any) -> Any:
        return all[0].hidden


class Looking(Reader):
    def __getattr__(self, name: str) -> Any:
        return 0


def read(name: str, kind: type = Reader) -> Any:
    method = kind.__dict__.get(name) or Reader.__dict__[name]
    assert isinstance(method, FunctionType)
    return attributes_read(method, kind)


@pytest.mark.parametrize("name, expected", [
    ("plain", {"value"}),
    ("in_turn", {"value", "kept"}),
    ("by_base", {"_base_value"}),
    ("in_a_function", {"inner"}),
    ("to_static", {"without"}),
    ("writing", {"value"}),
])  # fmt: skip
def test_attributes_that_are_named(name: str, expected: set[str]) -> None:
    assert read(name) >= expected
    assert "hidden" not in read(name)


@pytest.mark.parametrize("name", ["to_others", "by_name", "in_an_inner_function", "itself", "twice", "in_any"])
def test_it_may_be_any_where_the_object_is_given_away(name: str) -> None:
    assert read(name) is None


def test_it_may_be_any_of_an_object_that_makes_attributes_up() -> None:
    assert attributes_read(Reader.plain, Looking) is None


def test_what_a_method_has_captured_is_not_kept() -> None:
    def made() -> tuple[Any, weakref.ref[Any]]:
        large = np.zeros(1000)

        class Scaled:
            def __call__(self, x: Any) -> Any:
                return x + large[0] + self.by

            by = 1

        attributes_read(Scaled.__call__, Scaled)
        return Scaled, weakref.ref(large)

    kind, large = made()
    assert large() is not None
    del kind
    gc.collect()
    assert large() is None
