"""Floats of 16 bits: computed in float32, stored rounded.

Sums in eight or eleven bits are worth nothing, NumPy multiplies such matrices without BLAS, and
its promotion of bfloat16 with Python numbers gives float32. So an op widens its inputs, computes,
and rounds what it gives; what it saved for backward is kept in the narrow dtype where it can be.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend import kind
from shardwise.backend.kernels.pointwise.casting import cast
from shardwise.backend.product import has_bfloat16
from shardwise.tensor.function import Context, Function

__all__ = ["backward_wide", "forward_wide", "is_narrow"]


def is_narrow(value: Any) -> bool:
    """Tell whether `value` is an array of float16 or bfloat16."""
    dtype = getattr(value, "dtype", None)
    return dtype is not None and kind.is_narrow(dtype)


def _widened(value: Any) -> Any:
    """Return a narrow array as float32, anything else as it is."""
    return cast(value, np.float32) if is_narrow(value) else value


def _multiplies_narrow(function: type[Function]) -> bool:
    return function.accumulates and has_bfloat16()


def backward_wide(
    function: type[Function], grads: list[Any], saved: tuple[Any, ...]
) -> tuple[list[Any], tuple[Any, ...]]:
    """Return what a backward computes with: gradients and saved arrays in float32.

    Parameters
    ----------
    function : Function class
    grads, saved : sequence of array
        As they arrived, and as they were saved.
    """
    if function.exact or function.view or _multiplies_narrow(function):
        return grads, saved
    return [_widened(grad) for grad in grads], tuple([_widened(array) for array in saved])


def forward_wide(function: type[Function], ctx: Context, arrays: list[Any], params: dict[str, Any]) -> Any:
    """Run a forward in float32 on inputs some of which are narrow.

    Parameters
    ----------
    function : Function class
    ctx : Context
        Its saved arrays that are inputs or outputs are the narrow ones afterwards.
    arrays : list
        The inputs.
    params : dict
        Of the call; an explicit ``dtype`` decides the dtype of the results.

    Returns
    -------
    Array or tuple of Array
        float32 results are rounded, if all floating inputs have one narrow dtype.
    """
    wide = arrays if _multiplies_narrow(function) else [_widened(array) for array in arrays]
    result = function.forward(ctx, *wide, **params)
    floating = {
        array.dtype
        for array in arrays
        if getattr(array, "dtype", None) is not None and array.dtype.kind in "fcV"
    }
    narrow = floating.pop() if len(floating) == 1 and params.get("dtype") is None else None
    swaps = [(w, a) for w, a in zip(wide, arrays, strict=True) if w is not a]
    results = result if type(result) is tuple else (result,)
    if narrow is not None:
        rounded = []
        with np.errstate(over="ignore"):  # beyond the range lies infinity
            for out in results:
                if getattr(out, "dtype", None) == np.float32:
                    swaps.append((out, cast(np.asarray(out) if isinstance(out, np.generic) else out, narrow)))
                    out = swaps[-1][1]
                rounded.append(out)
        results = tuple(rounded)
    if ctx.saved:
        ctx.saved = tuple([next((a for w, a in swaps if saved is w), saved) for saved in ctx.saved])
    return results if type(result) is tuple else results[0]
