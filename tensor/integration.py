"""The trapezoidal rule, as functions."""

from __future__ import annotations

from shardwise.tensor.methods.area import running_area, total_area
from shardwise.tensor.tensor import Tensor

__all__ = ["cumulative_trapezoid", "trapezoid", "trapz"]


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1.0, dim: int = -1) -> Tensor:
    """Return the area under the samples `y` along `dim`, by the trapezoidal rule.

    Parameters
    ----------
    y : Tensor
    x : Tensor, optional
        Where the samples were taken: of shape (n,) along `dim`, or one that broadcasts with `y`.
    dx : float
        The distance between samples, where `x` is not given.
    dim : int

    Returns
    -------
    Tensor
        Shape of `y` without `dim`.

    Examples
    --------
    >>> import shardwise as sw
    >>> trapezoid(sw.tensor([0.0, 1.0, 4.0]), dx=2.0).item()
    6.0
    """
    result: Tensor = total_area("trapezoid", y, x, dx, dim)
    return result


trapz = trapezoid


def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1.0, dim: int = -1) -> Tensor:
    """Return the area under the samples `y` up to each but the first along `dim`; see `trapezoid`.

    Examples
    --------
    >>> import shardwise as sw
    >>> cumulative_trapezoid(sw.tensor([0.0, 1.0, 4.0])).tolist()
    [0.5, 3.0]
    """
    result: Tensor = running_area("cumulative_trapezoid", y, x, dx, dim)
    return result
