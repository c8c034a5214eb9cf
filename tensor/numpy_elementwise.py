"""NumPy's functions of each element that are no ufuncs, and the special functions, on tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from shardwise.backend import special
from shardwise.tensor.ops import (
    arithmetic,
    choice,
    circular,
    comparison,
    elementary,
    part,
    rounding,
    special_function,
)

__all__ = ["ELEMENTWISE_FUNCTIONS", "ELEMENTWISE_SPECIALS"]


def _clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    return choice.Clip.apply(a, a_min if min is None else min, a_max if max is None else max)


def _angle(z: Any, deg: bool = False) -> Any:
    angle: Any = part.Angle.apply(z)
    return circular.Rad2Deg.apply(angle) if deg else angle


def _nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    if not copy:
        return x.nan_to_num_(nan, posinf, neginf)
    return choice.NanToNum.apply(x, nan=nan, posinf=posinf, neginf=neginf)


def _is_close(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    return comparison.IsClose.apply(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def _all_close(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    return bool(np.all(_is_close(a, b, rtol, atol, equal_nan).data))


def _array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    a, b = (getattr(x, "data", x) if hasattr(x, "node") else np.asarray(x) for x in (a1, a2))
    if a.shape != b.shape:
        return False
    same = a == b
    return bool(np.all(np.logical_or(same, np.logical_and(a != a, b != b)) if equal_nan else same))


def _equal_to(value: float) -> Callable[..., Any]:
    def call(x: Any) -> Any:
        return comparison.Equal.apply(x, value)

    return call


def _is_complex(x: Any) -> bool:
    return bool(x.dtype.kind == "c")


ELEMENTWISE_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.clip: _clip,
    np.round: lambda a, decimals=0: rounding.Round.apply(a, decimals=decimals),
    np.around: lambda a, decimals=0: rounding.Round.apply(a, decimals=decimals),
    np.fix: rounding.Trunc.apply,
    np.real: lambda val: val.real,
    np.imag: lambda val: val.imag,
    np.angle: _angle,
    np.sinc: circular.Sinc.apply,
    np.i0: special_function.I0.apply,
    np.nan_to_num: _nan_to_num,
    np.where: lambda condition, x, y: arithmetic.Where.apply(condition, x, y),
    np.isclose: _is_close,
    np.allclose: _all_close,
    np.array_equal: _array_equal,
    np.isposinf: _equal_to(np.inf),
    np.isneginf: _equal_to(-np.inf),
    np.isreal: lambda x: x.isreal(),
    np.iscomplex: lambda x: comparison.NotEqual.apply(x.imag, 0),
    np.iscomplexobj: _is_complex,
    np.isrealobj: lambda x: not _is_complex(x),
}

ELEMENTWISE_SPECIALS: dict[Any, Callable[..., Any]] = {
    special.erf: special_function.Erf.apply,
    special.erfc: special_function.Erfc.apply,
    special.erfinv: special_function.Erfinv.apply,
    special.sigmoid: elementary.Sigmoid.apply,
    special.lgamma: special_function.Lgamma.apply,
    special.digamma: special_function.Digamma.apply,
    special.polygamma: lambda n, x: special_function.Polygamma.apply(x, n=n),
    special.i0: special_function.I0.apply,
    special.i0e: special_function.I0e.apply,
    special.i1: special_function.I1.apply,
    special.i1e: special_function.I1e.apply,
}
