"""Running results along a dim."""

from __future__ import annotations

from typing import Any, Self

from shardwise.backend.array import DTypeLike
from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.tensor.dim import counted_dim
from shardwise.tensor.methods.along import along, choose_along
from shardwise.tensor.methods.carrier import Carrier
from shardwise.tensor.methods.numpy_name import numpy_names
from shardwise.tensor.methods.reduction import cast
from shardwise.tensor.methods.result import ValuesIndices
from shardwise.tensor.ops import arithmetic, comparison, extreme, index, joining, scan

__all__ = ["Scan"]


class Scan(Carrier):
    """Running sums, products and extremes; differences."""

    @numpy_names
    def cumsum(self, dim: int, dtype: DTypeLike | None = None) -> Self:
        """Return the running sum along `dim`; of integers and booleans it is int64."""
        result: Self = along(scan.Cumsum, cast(self, dtype), "cumsum", dim)
        return result

    @numpy_names
    def cumprod(self, dim: int, dtype: DTypeLike | None = None) -> Self:
        """Return the running product along `dim`; of integers and booleans it is int64."""
        result: Self = along(scan.Cumprod, cast(self, dtype), "cumprod", dim)
        return result

    @numpy_names
    def cummax(self, dim: int) -> ValuesIndices[Self]:
        """Return the largest value so far along `dim`, and the index of the last that is as large."""
        _ordered("cummax", self)
        return choose_along(scan.Cummax, self, "cummax", dim)

    @numpy_names
    def cummin(self, dim: int) -> ValuesIndices[Self]:
        """Return the smallest value so far along `dim`, and the index of the last that is as small."""
        _ordered("cummin", self)
        return choose_along(scan.Cummin, self, "cummin", dim)

    @numpy_names
    def logcumsumexp(self, dim: int) -> Self:
        """Return the logarithm of the running sum of exponentials along `dim`, without overflow."""
        _ordered("logcumsumexp", self)
        result: Self = along(scan.LogCumsumExp, self, "logcumsumexp", dim)
        return result

    @numpy_names
    def diff(
        self, n: int = 1, dim: int = -1, prepend: Carrier | None = None, append: Carrier | None = None
    ) -> Self:
        """Return the differences of neighbours along `dim`, taken `n` times.

        Parameters
        ----------
        n : int
        dim : int
        prepend, append : Tensor, optional
            Put before and behind along `dim` first.

        Returns
        -------
        Tensor
            Shorter by `n` along `dim`. Of booleans: where neighbours differ.
        """
        x: Any = self
        if not x.data.ndim:
            raise ShapeError("diff: a tensor without dims has no neighbours; reshape(1) gives it one dim")
        dim = counted_dim("diff", dim, x.data.ndim)
        if n < 0:
            raise ArgumentError(f"diff: n={n}; wanted 0 or more")
        parts: list[Any] = [part for part in (prepend, x, append) if part is not None]
        if len(parts) > 1:
            x = joining.Cat.apply(*parts, dim=dim)
        before = (slice(None),) * dim
        for _ in range(min(n, x.data.shape[dim])):
            later = index.Slice.apply(x, index=(*before, slice(1, None)))
            earlier = index.Slice.apply(x, index=(*before, slice(None, -1)))
            boolean = x.data.dtype.kind == "b"
            x = (comparison.NotEqual if boolean else arithmetic.Sub).apply(later, earlier)
        result: Self = x
        return result


def _ordered(op: str, x: Carrier) -> None:
    extreme.check_choice(op, x.data, ())
