"""NumPy's ufuncs on tensors: which `Function` each of them is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from shardwise.backend.errors import AutogradError, DTypeError
from shardwise.backend.select import BACKENDS
from shardwise.tensor.methods.carrier import Carrier
from shardwise.tensor.ops import (
    arithmetic,
    bitwise,
    choice,
    circular,
    combination,
    comparison,
    elementary,
    hyperbolic,
    matmul,
    part,
    power,
    product,
    rounding,
)

__all__ = ["UFUNCS", "apply_ufunc"]

UFUNCS: dict[Any, Any] = {
    # arithmetic
    np.add: arithmetic.Add,
    np.subtract: arithmetic.Sub,
    np.multiply: arithmetic.Mul,
    np.true_divide: arithmetic.Div,
    np.floor_divide: arithmetic.FloorDiv,
    np.remainder: arithmetic.Remainder,
    np.fmod: arithmetic.Fmod,
    np.negative: arithmetic.Neg,
    np.positive: arithmetic.Clone,
    # powers and roots
    np.power: power.Pow,
    np.float_power: power.FloatPower,
    np.square: power.Square,
    np.reciprocal: power.Reciprocal,
    np.sqrt: power.Sqrt,
    np.cbrt: power.Cbrt,
    np.hypot: power.Hypot,
    # exponentials and logarithms
    np.exp: elementary.Exp,
    np.exp2: elementary.Exp2,
    np.expm1: elementary.Expm1,
    np.log: elementary.Log,
    np.log2: elementary.Log2,
    np.log10: elementary.Log10,
    np.log1p: elementary.Log1p,
    np.logaddexp: elementary.LogAddExp,
    np.logaddexp2: elementary.LogAddExp2,
    # circular and hyperbolic
    np.sin: circular.Sin,
    np.cos: circular.Cos,
    np.tan: circular.Tan,
    np.arcsin: circular.Arcsin,
    np.arccos: circular.Arccos,
    np.arctan: circular.Arctan,
    np.arctan2: circular.Arctan2,
    np.deg2rad: circular.Deg2Rad,
    np.radians: circular.Deg2Rad,
    np.rad2deg: circular.Rad2Deg,
    np.degrees: circular.Rad2Deg,
    np.sinh: hyperbolic.Sinh,
    np.cosh: hyperbolic.Cosh,
    np.tanh: hyperbolic.Tanh,
    np.arcsinh: hyperbolic.Arcsinh,
    np.arccosh: hyperbolic.Arccosh,
    np.arctanh: hyperbolic.Arctanh,
    # parts, signs, rounding, choice
    np.absolute: part.Abs,
    np.fabs: part.Fabs,
    np.conjugate: part.Conj,
    np.sign: part.Sgn,
    np.copysign: rounding.Copysign,
    np.floor: rounding.Floor,
    np.ceil: rounding.Ceil,
    np.trunc: rounding.Trunc,
    np.rint: rounding.Rint,
    np.heaviside: rounding.Heaviside,
    np.maximum: choice.Maximum,
    np.minimum: choice.Minimum,
    np.fmax: choice.Fmax,
    np.fmin: choice.Fmin,
    # comparisons and logic
    np.equal: comparison.Equal,
    np.not_equal: comparison.NotEqual,
    np.less: comparison.Less,
    np.less_equal: comparison.LessEqual,
    np.greater: comparison.Greater,
    np.greater_equal: comparison.GreaterEqual,
    np.logical_not: comparison.LogicalNot,
    np.logical_and: comparison.LogicalAnd,
    np.logical_or: comparison.LogicalOr,
    np.logical_xor: comparison.LogicalXor,
    np.isnan: comparison.IsNaN,
    np.isinf: comparison.IsInf,
    np.isfinite: comparison.IsFinite,
    np.signbit: comparison.SignBit,
    # bits
    np.bitwise_and: bitwise.BitwiseAnd,
    np.bitwise_or: bitwise.BitwiseOr,
    np.bitwise_xor: bitwise.BitwiseXor,
    np.invert: bitwise.BitwiseNot,
    np.left_shift: bitwise.LeftShift,
    np.right_shift: bitwise.RightShift,
    np.gcd: bitwise.Gcd,
    np.lcm: bitwise.Lcm,
    # the one generalised ufunc
    np.matmul: matmul.MatMul,
}

COMPOSED: dict[Any, Callable[..., Any]] = {
    np.divmod: lambda a, b: (arithmetic.FloorDiv.apply(a, b), arithmetic.Remainder.apply(a, b)),
    np.modf: lambda x: (arithmetic.Fmod.apply(x, 1.0), rounding.Trunc.apply(x)),
    np.ldexp: combination.Ldexp.apply,
}
if hasattr(np, "vecdot"):
    COMPOSED[np.vecdot] = product.vecdot
if hasattr(np, "matvec"):  # NumPy 2.2
    COMPOSED[np.matvec] = lambda a, v: np.matmul(a, v[..., None])[..., 0]
    COMPOSED[np.vecmat] = lambda v, a: np.matmul(np.conjugate(v)[..., None, :], a)[..., 0, :]


_REDUCTIONS: dict[Any, Any] = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
    np.logical_and: np.all,
    np.logical_or: np.any,
}
_RUNNING: dict[Any, Any] = {np.add: np.cumsum, np.multiply: np.cumprod}


def apply_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a NumPy ufunc on tensors; NotImplemented if an input is of another library.

    Raises
    ------
    DTypeError
        It has no `Function`, or not in this form.
    """
    if method == "__call__" and not kwargs and ufunc in UFUNCS:
        return UFUNCS[ufunc].apply(*inputs)
    out, dtype = kwargs.pop("out", None), kwargs.pop("dtype", None)
    if dtype is not None:
        inputs = tuple([x.astype(dtype) if hasattr(x, "dtype") else x for x in inputs])
    if method == "__call__" and not kwargs and (ufunc in UFUNCS or ufunc in COMPOSED):
        function = UFUNCS.get(ufunc)
        result = COMPOSED[ufunc](*inputs) if function is None else function.apply(*inputs)
    elif method == "reduce" and ufunc in _REDUCTIONS:
        result = _REDUCTIONS[ufunc](inputs[0], **{"axis": 0, **kwargs})
    elif method == "accumulate" and ufunc in _RUNNING and not kwargs.keys() - {"axis"}:
        result = _RUNNING[ufunc](inputs[0], kwargs.get("axis", 0))
    elif method == "outer" and ufunc in UFUNCS and not kwargs:
        a, b = inputs
        result = UFUNCS[ufunc].apply(np.reshape(a, (*np.shape(a), *(1,) * np.ndim(b))), b)
    elif any(hasattr(x, "__array_ufunc__") and not _is_known(x) for x in inputs):
        return NotImplemented
    else:
        raise DTypeError(_why_not(ufunc, method, kwargs))
    return result if out is None else _written(out[0], result)


def _is_known(value: Any) -> bool:
    return isinstance(value, Carrier) or any(backend.owns(value) for backend in BACKENDS)


def _why_not(ufunc: Any, method: str, kwargs: dict[str, Any]) -> str:
    name = f"numpy.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
    if kwargs and ufunc in UFUNCS:
        options = ", ".join(map(repr, kwargs))
        return f"{name} of tensors takes no {options}; choose with numpy.where() behind it"
    return (
        f"{name} does not take tensors: give it x.detach().numpy(), whose result has no gradient, or write "
        "it with functions that do"
    )


def _written(out: Any, result: Any) -> Any:
    """Write a result into `out`, a tensor or, as by ``array += tensor``, an array; return `out`."""
    if isinstance(out, Carrier):
        into: Any = out
        return into.copy_(result)
    if result.requires_grad:
        raise AutogradError(
            "cannot write a tensor that requires grad into a NumPy array, which has no history; leave out= "
            "(or += and the like) away, or call detach() first"
        )
    np.copyto(out, result.data)
    return out
