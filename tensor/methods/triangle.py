"""Triangles of matrices, and diagonals made into matrices."""

from __future__ import annotations

from typing import Self

from shardwise.backend.errors import ShapeError
from shardwise.tensor.dim import counted_dim
from shardwise.tensor.methods.rearrangement import Rearrangement
from shardwise.tensor.ops import arithmetic, triangle

__all__ = ["Triangle"]


class Triangle(Rearrangement):
    """What keeps a triangle of a matrix, or makes a matrix of its diagonal."""

    def tril(self, diagonal: int = 0) -> Self:
        """Return the lower triangle of the last two dims; zeros above diagonal number `diagonal`."""
        return triangle.Tril.apply(self._matrix("tril"), k=diagonal)

    def triu(self, diagonal: int = 0) -> Self:
        """Return the upper triangle of the last two dims; zeros below diagonal number `diagonal`."""
        return triangle.Triu.apply(self._matrix("triu"), k=diagonal)

    def _matrix(self, op: str) -> Self:
        if self.data.ndim < 2:
            raise ShapeError(f"{op}: wanted at least two dims, got the shape {self.data.shape}")
        return self

    def diag(self, diagonal: int = 0) -> Self:
        """Return a matrix with a vector on its diagonal, or the diagonal of a matrix, as a copy."""
        if self.data.ndim == 1:
            return self.diag_embed(diagonal)
        if self.data.ndim != 2:
            raise ShapeError(
                f"diag: wanted a vector or a matrix, got the shape {self.data.shape}; use diagonal() or "
                "diag_embed() for more dims"
            )
        return arithmetic.Clone.apply(triangle.Diagonal.apply(self, offset=diagonal, dim1=0, dim2=1))

    def diag_embed(self, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Self:
        """Return the last dim on the diagonal over two new dims, with zeros around it."""
        shape = self.data.shape
        if not shape:
            raise ShapeError("diag_embed: a tensor without dims has no last one")
        first, second = (counted_dim("diag_embed", dim, len(shape) + 1) for dim in (dim1, dim2))
        if first == second:
            raise ShapeError(f"diag_embed: dim1 and dim2 are both {first}; wanted two dims of the result")
        sizes = list(shape[:-1])
        for dim in sorted((first, second)):
            sizes.insert(dim, shape[-1] + abs(offset))
        return triangle.Undiagonal.apply(self, shape=tuple(sizes), offset=offset, dim1=first, dim2=second)

    def diagflat(self, offset: int = 0) -> Self:
        """Return a matrix with all elements on its diagonal."""
        return self.reshape(-1).diag_embed(offset)
