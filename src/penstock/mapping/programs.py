"""Programs that JAX compiled, kept for the next call of `map_fn`.

What JAX made of a function when it traced it says whether it was compiled before: operations, their arguments, and
every number that the function had at hand. So whatever a function has captured may change, and functions may come and
go: nothing is looked up by the function, and nothing of the user's is kept.

To trace a function takes a millisecond or more. Where all that it refers to is plain (`frozen`), it is not traced again
either: a copy of it is kept, with those values in it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from .frozen import frozen
from .recent import Recent

__all__ = ["MOST_CONSTANT_BYTES", "Program", "Vectorized", "vectorized"]

# As many shapes of chunks are kept of a function.
_MOST_SHAPES = 4
#: Programs with larger arrays in them are not kept: they would stay in memory, on nobody's account.
MOST_CONSTANT_BYTES = 1 << 16

# What these do is one argument. The others are functions for derivatives, made anew whenever they are traced.
_WITH_DERIVATIVES = {"custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}


# Some of XLA's fusions for CPUs (YNN) have memory of their own, hundreds of megabytes, which is not in its account of a
# program; without them it is, and chunks are as large as they may be.
_WITHOUT_UNCOUNTED = {"xla_cpu_experimental_ynn_fusion_type": ""}


class _NoKey(Exception):
    """Some part of a program that cannot be compared."""


@dataclasses.dataclass
class Program:
    """What JAX compiled, and whether its results were those of a function that it was compiled of."""

    executable: Any
    agreed: bool = False

    @functools.cached_property
    def temporary_bytes(self) -> int:
        """Elements (which XLA may copy, and which are filled up), results, and what lies between."""
        account = self.executable.memory_analysis()
        given, made = account.argument_size_in_bytes, account.output_size_in_bytes
        return int(2 * given + made + account.temp_size_in_bytes)


_recent: Recent[Program] = Recent()
_functions: Recent[Vectorized] = Recent()


def vectorized(function: Callable[[Any], Any]) -> Vectorized:
    """A function of whole chunks: one that was traced before, where nothing that it depends on has changed."""
    import jax

    known = frozen(function, (jax, jax.numpy, jax.lax, jax.nn), is_run=True)
    if known is None:
        return Vectorized(function)
    key, copy = known
    return _functions.get(key, lambda: Vectorized(copy, key))


class Vectorized:
    """A function of elements stacked, `jit` of `vmap`, and the programs for chunks of several shapes.

    Args:
        function: The user's, or a copy.
        key: Under which this is kept, if it is.
    """

    def __init__(self, function: Callable[[Any], Any], key: Hashable = None) -> None:
        import jax

        self._jitted = jax.jit(jax.vmap(function))
        self._key = key
        # Of what was traced, which JAX keeps as well, and makes anew if it was told to see things differently.
        self._program_keys: Recent[Hashable] = Recent(_MOST_SHAPES)

    def program(self, shapes: Any) -> Program:
        """The program for chunks of these shapes, compiled now or before."""
        traced = self._jitted.trace(shapes)
        try:
            key = self._program_keys.get(traced.jaxpr, lambda: _key_of(traced))
        except (_NoKey, TypeError):
            _functions.forget(self._key)  # with what was traced it would keep large arrays
            return Program(_compiled(traced))
        return _recent.get(key, lambda: Program(_compiled(traced)))


def _compiled(traced: Any) -> Any:
    import jax

    lowered = traced.lower()
    try:
        return lowered.compile(compiler_options=_WITHOUT_UNCOUNTED)
    except jax.errors.JaxRuntimeError as error:
        if "No such compile option" not in str(error):
            raise
        return lowered.compile()  # a version that has no such fusions


def _key_of(traced: Any) -> Hashable:
    import jax

    trees = (jax.tree.structure(traced.args_info), jax.tree.structure(traced.out_info))
    key = (trees, _Key().of(traced.jaxpr))
    hash(key)  # a TypeError where some part of it cannot be
    return key


class _Key:
    """Programs as nests of tuples that are equal when the programs are."""

    def __init__(self) -> None:
        import jax

        # What can be called, and is a value all the same: meshes are decorators, too.
        self._values = (type, jax.sharding.Mesh, jax.sharding.AbstractMesh)
        self._numbers: dict[Any, int] = {}
        self._constant_bytes = 0

    def of(self, closed: Any) -> Hashable:
        """A program and the arrays that it came with."""
        return self._program(closed.jaxpr), tuple([self._array(array) for array in closed.consts])

    def _program(self, jaxpr: Any) -> Hashable:
        begins = self._variables(jaxpr.constvars), self._variables(jaxpr.invars)
        steps = []
        for step in jaxpr.eqns:
            inputs, params = self._variables(step.invars), step.params
            if step.primitive.name in _WITH_DERIVATIVES:
                params = {"": params[_WITH_DERIVATIVES[step.primitive.name]]}
            steps.append((step.primitive, inputs, self._param(params), self._variables(step.outvars)))
        return begins, tuple(steps), self._variables(jaxpr.outvars)

    def _variables(self, variables: Any) -> Hashable:
        return tuple([self._variable(variable) for variable in variables])

    def _variable(self, variable: Any) -> Hashable:
        if hasattr(variable, "val"):  # a number, written out
            return str(variable.aval), self._array(variable.val)
        return str(variable.aval), self._numbers.setdefault(variable, len(self._numbers))

    def _param(self, value: Any) -> Hashable:
        if hasattr(value, "jaxpr"):
            return self.of(value)
        if hasattr(value, "eqns"):
            return self._program(value)
        if isinstance(value, dict):
            return tuple([(name, self._param(value[name])) for name in sorted(value)])
        if isinstance(value, tuple | list):
            return type(value), tuple([self._param(each) for each in value])
        if isinstance(value, float | complex | np.ndarray | np.generic):
            return self._array(value)
        if callable(value) and not isinstance(value, self._values):  # it may do something else another time
            raise _NoKey
        return type(value), value

    def _array(self, value: Any) -> Hashable:
        array = np.asarray(value)
        self._constant_bytes += array.nbytes
        if self._constant_bytes > MOST_CONSTANT_BYTES or array.dtype.hasobject:
            raise _NoKey
        return str(getattr(value, "dtype", type(value))), array.shape, array.tobytes()
