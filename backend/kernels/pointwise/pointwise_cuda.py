"""CUDA loops over arrays, made of the plain formulas of functions of single elements."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.device.device_source import DeviceSource
from shardwise.backend.kernels.device.formula_source import formula_source
from shardwise.backend.kernels.device.launch_cuda import Argument, Launcher, contiguous, each, empty

__all__ = ["PointwiseOnDevice"]


class PointwiseOnDevice:
    """A pointwise formula as one CUDA kernel.

    Parameters
    ----------
    formula : callable
        Returns one number. Arrays come first, and broadcast.
    arrays : int
        How many parameters are arrays.
    mask : str, default ""
        The name of the one that is an array of booleans.
    """

    def __init__(self, formula: Callable[..., Array], arrays: int, mask: str = "") -> None:
        self._signature = inspect.signature(formula)
        names = list(self._signature.parameters)
        self._name = formula.__name__.lstrip("_")
        self._mask = names.index(mask) if mask else -1
        self._arrays = arrays
        self.launch = Launcher(
            DeviceSource(f"{self._name}.cu", given={f"{self._name}.cu": self._source(formula, names)})
        )

    def __call__(self, *args: Array | float, **kwargs: Array | float) -> Array:
        """Return the results as a new array, of the shape to which the operands broadcast."""
        given: tuple[Any, ...] = args
        if kwargs or len(args) < len(self._signature.parameters):
            bound = self._signature.bind(*args, **kwargs)
            bound.apply_defaults()
            given = bound.args
        arrays, numbers = given[: self._arrays], given[self._arrays :]
        shape = np.broadcast_shapes(*(x.shape for x in arrays))
        first = arrays[1] if self._mask == 0 else arrays[0]
        out = empty(first, shape)
        operands: list[Argument] = []
        for place, x in enumerate(arrays):
            if place == self._mask:
                x = x.astype(np.bool_, copy=False)
            single = x.size == 1
            if not single and x.shape != shape:
                x = np.broadcast_to(x, shape)
            operands += [contiguous(x), single]
        self.launch(
            self._name,
            out.dtype,
            each(out.size, out.itemsize),
            *(out, *operands, *map(float, numbers), out.size),
        )
        return out

    def _source(self, formula: Callable[..., Array], names: list[str]) -> str:
        arrays, numbers = names[: self._arrays], names[self._arrays :]
        types = ["bool" if place == self._mask else "real" for place in range(self._arrays)]
        pairs = list(zip(types, arrays, strict=True))
        declared = [f"const {kind}* __restrict__ {name}, int64 {name}_is_one" for kind, name in pairs]
        declared += [f"double {name}" for name in numbers]
        operands = "".join(
            f"    Operand<{kind}> {name}_all = {{{name}, {name}_is_one != 0}};\n" for kind, name in pairs
        )
        packed = " && ".join(["aligned(out_)", *(f"packable({name}_all)" for name in arrays)])
        loads = "".join(f"        auto {name}_at = load({name}_all, i_, count_);\n" for name in arrays)
        given = ", ".join([*(f"{name}_at.at[k_]" for name in arrays), *(f"(wide){name}" for name in numbers)])
        parameters = [("bool" if kind == "bool" else "wide", name) for kind, name in pairs]
        parameters += [("wide", name) for name in numbers]
        return f"""// Made of a formula, see formula_source.py.
#include "device/formula.cuh"

{formula_source(formula, f"{self._name}_of", parameters, 1)}
KERNEL(256)
{self._name}(real* __restrict__ out_, {", ".join(declared)}, int64 n_)
{{
{operands}    sweep_all(n_, {packed}, [&](int64 i_, auto count_) {{
{loads}        decltype(load(out_, count_)) results_;
#pragma unroll
        for (int k_ = 0; k_ < count_; ++k_) {{
            wide result_[1];
            {self._name}_of(result_, {given});
            results_.at[k_] = result_[0];
        }}
        store(out_ + i_, results_);
    }});
}}
"""
