"""The forms of Fourier transforms that users know, by the ops that there are; arrays and tensors alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from shardwise.backend.errors import ArgumentError, DTypeError, ShapeError
from shardwise.tensor.dim import counted_dim
from shardwise.tensor.ops.conjugate import conj
from shardwise.tensor.ops.fourier import Fourier, InverseRealFourier, Norm, RealFourier, flipped
from shardwise.tensor.ops.repetition import Roll

__all__ = [
    "NormName",
    "complex_to_complex",
    "complex_to_real",
    "hermitian_to_real",
    "real_to_complex",
    "real_to_hermitian",
    "shifted",
]

NormName = Literal["backward", "ortho", "forward"] | None
Sizes = int | Sequence[int] | None
Dims = int | Sequence[int] | None


def complex_to_complex(op: str, a: Any, s: Sizes, dim: Dims, norm: NormName, inverse: bool) -> Any:
    """Transform over some dims."""
    dims, sizes = _resolved(op, a, s, dim)
    scale = _scale(op, norm)
    if not dims:
        return a if a.dtype.kind == "c" else a * (1.0 + 0.0j)
    return Fourier.apply(a, dims=dims, sizes=sizes, inverse=inverse, norm=scale)


def real_to_complex(op: str, a: Any, s: Sizes, dim: Dims, norm: NormName) -> Any:
    """Transform real numbers; of the last of `dim` half is kept."""
    if a.dtype.kind == "c":
        raise DTypeError(f"{op} takes real numbers, and got {a.dtype}; use {op.replace('r', '', 1)}")
    dims, sizes = _resolved(op, a, s, dim)
    _check_some(op, a, dims)
    scale = _scale(op, norm)
    half = RealFourier.apply(a, dim=dims[-1], size=sizes[-1], norm=scale)
    if len(dims) == 1:
        return half
    return Fourier.apply(half, dims=dims[:-1], sizes=sizes[:-1], inverse=False, norm=scale)


def complex_to_real(op: str, a: Any, s: Sizes, dim: Dims, norm: NormName) -> Any:
    """Transform back to real numbers, from half of the last of `dim`."""
    dims, sizes = _resolved(op, a, s, dim, half=True)
    _check_some(op, a, dims)
    scale = _scale(op, norm)
    if len(dims) > 1:
        a = Fourier.apply(a, dims=dims[:-1], sizes=sizes[:-1], inverse=True, norm=scale)
    return InverseRealFourier.apply(a, dim=dims[-1], size=sizes[-1], norm=scale, to_real=True)


def hermitian_to_real(op: str, a: Any, s: Sizes, dim: Dims, norm: NormName) -> Any:
    """Transform what is Hermitian in the last of `dim`, given by half, to real numbers."""
    dims, sizes = _resolved(op, a, s, dim, half=True)
    _check_some(op, a, dims)
    scale = _scale(op, norm)
    if len(dims) > 1:
        a = Fourier.apply(a, dims=dims[:-1], sizes=sizes[:-1], inverse=False, norm=scale)
    return InverseRealFourier.apply(conj(a), dim=dims[-1], size=sizes[-1], norm=flipped(scale), to_real=True)


def real_to_hermitian(op: str, a: Any, s: Sizes, dim: Dims, norm: NormName) -> Any:
    """Undo `hermitian_to_real`."""
    if a.dtype.kind == "c":
        raise DTypeError(f"{op} takes real numbers, and got {a.dtype}; use {op.replace('h', '', 1)}")
    dims, sizes = _resolved(op, a, s, dim)
    _check_some(op, a, dims)
    scale = _scale(op, norm)
    half = conj(RealFourier.apply(a, dim=dims[-1], size=sizes[-1], norm=flipped(scale)))
    if len(dims) == 1:
        return half
    return Fourier.apply(half, dims=dims[:-1], sizes=sizes[:-1], inverse=True, norm=scale)


def shifted(op: str, a: Any, dim: Dims, back: bool) -> Any:
    """Move the zero frequency to the middle of each dim, or back to its start."""
    dims = range(a.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    places = tuple([counted_dim(op, d, a.ndim) for d in dims])
    if not places:
        return a
    return Roll.apply(
        a, shifts=tuple([-(a.shape[d] // 2) if back else a.shape[d] // 2 for d in places]), dims=places
    )


def _resolved(
    op: str, a: Any, s: Sizes, dim: Dims, half: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the dims, and the sizes of the signal along them; `half` if the last is given by half."""
    shape = tuple(np.shape(a))
    given = None if s is None else (s,) if isinstance(s, int) else tuple(s)
    if dim is None:
        count = len(shape) if given is None else len(given)
        if count > len(shape):
            raise ShapeError(
                f"{op}: got {count} sizes {given} for shape {shape}; wanted at most {len(shape)}"
            )
        named: Sequence[int] = range(len(shape) - count, len(shape))
    else:
        named = (dim,) if isinstance(dim, int) else tuple(dim)
    if not shape and named:
        raise ShapeError(f"{op}: wanted at least one dim, got a tensor without dims")
    dims = tuple([counted_dim(op, d, len(shape)) for d in named])
    if len(set(dims)) != len(dims):
        raise ShapeError(f"{op}: a dim is named twice in {tuple(named)}")
    if given is not None and len(given) != len(dims):
        raise ArgumentError(f"{op}: wanted as many sizes as dims, got {given} for {tuple(named)}")
    sizes = [shape[d] for d in dims]
    if half and dims:
        sizes[-1] = 2 * (sizes[-1] - 1)
    if given is not None:
        sizes = [here if n in (-1, None) else n for n, here in zip(given, sizes, strict=True)]
    for d, n in zip(dims, sizes, strict=True):
        if n < 1:
            raise ShapeError(f"{op}: wanted at least one point along dim {d}, got {n} for shape {shape}")
    return dims, tuple(sizes)


def _scale(op: str, norm: NormName) -> Norm:
    if norm is None:
        return "backward"
    if norm in ("backward", "ortho", "forward"):
        return norm
    raise ArgumentError(f"{op}: wanted norm to be 'backward', 'ortho' or 'forward', got {norm!r}")


def _check_some(op: str, a: Any, dims: tuple[int, ...]) -> None:
    if not dims:
        raise ShapeError(f"{op}: wanted at least one dim to transform, got none for shape {tuple(a.shape)}")
