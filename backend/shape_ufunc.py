"""What ufuncs give, for the shapes and dtypes that they are given: elementwise, matmul, reductions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.errors import ShapeError
from shardwise.backend.shape_reduction import reduction
from shardwise.backend.stand_in import broadcast_shape, empty_probe, stand_in

__all__ = ["UFUNC_METHODS", "matmul_shape"]


def matmul_shape(a: Shape, b: Shape) -> Shape:
    """The shape of ``a @ b``.

    Raises
    ------
    ShapeError
        If the inner lengths differ, the leading dims do not broadcast, or an operand has no dims.
    """
    left = a if len(a) > 1 else (1, *a)
    right = b if len(b) > 1 else (*b, 1)
    try:
        if not a or not b or left[-1] != right[-2]:
            raise ValueError("the inner lengths differ" if a and b else "an operand has no dims")
        leading = np.broadcast_shapes(left[:-2], right[:-2])
    except ValueError as error:
        raise ShapeError(f"matmul: cannot multiply arrays of shapes {a} and {b}: {error}.") from error
    rows = left[-2:-1] if len(a) > 1 else ()
    columns = right[-1:] if len(b) > 1 else ()
    return (*leading, *rows, *columns)


def _call(ufunc: np.ufunc, inputs: list[object], options: dict[str, object]) -> tuple[Array, ...]:
    where = options.pop("where", True)
    call: Callable[..., object] = ufunc
    if ufunc is np.matmul:
        a, b = (np.asarray(x) for x in inputs)
        shape = matmul_shape(a.shape, b.shape)
        probes: list[object] = [np.empty((0, 0), x.dtype) for x in (a, b)]
    else:
        operands = [x if isinstance(x, bool | int | float | complex) else np.asarray(x) for x in inputs]
        shape = broadcast_shape(*operands, where)
        probes = [empty_probe(x) for x in operands]
    results = call(*probes, **options)
    return tuple(stand_in(shape, np.asarray(x).dtype) for x in _as_tuple(results))


def _reduce(ufunc: np.ufunc, inputs: list[object], options: dict[str, object]) -> tuple[Array, ...]:
    rule = reduction(ufunc.reduce)
    return (rule(inputs[0], **{"axis": 0, **options}),)


def _as_tuple(results: object) -> tuple[object, ...]:
    return results if isinstance(results, tuple) else (results,)


UFUNC_METHODS: Mapping[str, Callable[[np.ufunc, list[object], dict[str, object]], tuple[Array, ...]]] = {
    "__call__": _call,
    "reduce": _reduce,
}
"""From a ufunc's method to its rule: stand-ins of the results, from stand-ins for arrays and options."""
