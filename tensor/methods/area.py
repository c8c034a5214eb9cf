"""The area under sampled values, by the trapezoidal rule."""

from __future__ import annotations

from typing import Any

from shardwise.backend.errors import ShapeError
from shardwise.tensor.dim import counted_dim
from shardwise.tensor.ops import arithmetic, index, reduce, scan, view

__all__ = ["areas_between", "running_area", "total_area"]


def areas_between(op: str, y: Any, x: Any, dx: Any, dim: int) -> Any:
    """Return the area between each two neighbours of `y` along `dim`.

    Parameters
    ----------
    op : str
        For messages.
    y : Tensor
    x : Tensor or None
        Where the samples were taken: of shape (n,) along `dim`, or one that broadcasts with `y`.
    dx : number
        The distance of the samples, if `x` is None.
    dim : int
    """
    if y.data.ndim == 0:
        raise ShapeError(f"{op}: a tensor without dims has no neighbours; reshape(1) gives it one dim")
    dim = counted_dim(op, dim, y.data.ndim)
    steps: Any = dx
    if x is not None:
        along = dim
        if x.data.ndim == 1:
            if x.data.shape[0] != y.data.shape[dim]:
                raise ShapeError(
                    f"{op}: {x.data.shape[0]} places x for the {y.data.shape[dim]} samples along dim {dim} "
                    f"of shape {y.data.shape}; there must be one for each"
                )
            x = view.Reshape.apply(x, shape=(1,) * dim + x.data.shape + (1,) * (y.data.ndim - dim - 1))
        else:
            along = x.data.ndim - (y.data.ndim - dim)
        steps = arithmetic.Sub.apply(_part(x, along, 1, None), _part(x, along, None, -1))
    both = arithmetic.Add.apply(_part(y, dim, 1, None), _part(y, dim, None, -1))
    return arithmetic.Mul.apply(arithmetic.Mul.apply(both, steps), 0.5)


def total_area(op: str, y: Any, x: Any, dx: Any, dim: int) -> Any:
    """Return the area under `y` along `dim`; see `areas_between`."""
    areas = areas_between(op, y, x, dx, dim)
    return reduce.Sum.apply(areas, dim=areas.data.ndim - y.data.ndim + counted_dim(op, dim, y.data.ndim))


def running_area(op: str, y: Any, x: Any, dx: Any, dim: int) -> Any:
    """Return the area under `y` up to each sample but the first, along `dim`; see `areas_between`."""
    areas = areas_between(op, y, x, dx, dim)
    return scan.Cumsum.apply(areas, dim=areas.data.ndim - y.data.ndim + counted_dim(op, dim, y.data.ndim))


def _part(x: Any, dim: int, *limits: int | None) -> Any:
    return index.Slice.apply(x, index=(slice(None),) * dim + (slice(*limits),))
