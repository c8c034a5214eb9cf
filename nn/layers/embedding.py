"""Tables of rows that are learned, looked up by integers."""

from __future__ import annotations

from typing import Self

import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.nn import init
from shardwise.nn.check import check_sizes
from shardwise.nn.functions.embedding import BagMode, embedding, embedding_bag, row_of_padding
from shardwise.nn.module import Module
from shardwise.nn.parameter import Parameter
from shardwise.tensor import Tensor, empty, no_grad

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """A weight of one row per integer, and how its rows are kept short and learn."""

    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        max_norm: float | None,
        norm_type: float,
        scale_grad_by_freq: bool,
        sparse: bool,
        weight: Tensor | None,
        device: str | None,
        dtype: DTypeLike | None,
    ) -> None:
        super().__init__()
        kind = type(self).__name__
        check_sizes(kind, num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = row_of_padding(kind, padding_idx, num_embeddings)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        if weight is None:
            dtype = np.float32 if dtype is None else dtype
            self.weight = Parameter(empty(num_embeddings, embedding_dim, dtype=dtype, device=device))
            self.reset_parameters()
        elif weight.shape != (num_embeddings, embedding_dim):
            raise ShapeError(
                f"{kind}: the weight must have shape {(num_embeddings, embedding_dim)}, got {weight.shape}"
            )
        else:
            self.weight = weight if isinstance(weight, Parameter) else Parameter(weight)

    def reset_parameters(self) -> None:
        """Draw new rows; that of the padding is 0."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    def _shown(self, **usual: object) -> str:
        """Return the sizes, and the options that are not as usual."""
        shown = [str(self.num_embeddings), str(self.embedding_dim)]
        for name, value in usual.items():
            if getattr(self, name) != value:
                shown.append(f"{name}={getattr(self, name)!r}")
        return ", ".join(shown)


class Embedding(_Table):
    """A row of numbers for each integer.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
    padding_idx : int, optional
        A row that starts as zeros and does not learn.
    max_norm : float, optional
        Rows that are looked up and longer than this are shortened in place.
    norm_type : float
        Which norm `max_norm` means.
    scale_grad_by_freq : bool
        Divide the gradient of a row by how often it was looked up in the batch.
    sparse : bool
        Taken for PyTorch's sake: gradients are dense, whatever it says.
    device, dtype : optional

    Attributes
    ----------
    weight : Parameter, shape (num_embeddings, embedding_dim)
        Normal with variance 1 at first.

    Examples
    --------
    >>> import shardwise as sw
    >>> from shardwise import nn
    >>> table = nn.Embedding(10, 4, padding_idx=0)
    >>> table(sw.tensor([[1, 2, 0]])).shape
    (1, 3, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
            _weight, device, dtype,
        )  # fmt: skip
        if _freeze:
            self.weight.requires_grad_(False)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """Return a layer over rows that exist, which learn on unless `freeze`."""
        rows, dim = _matrix(cls.__name__, embeddings)
        return cls(
            rows, dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, embeddings, freeze
        )

    def forward(self, input: Tensor) -> Tensor:
        """Map integers (...) to rows (..., dim)."""
        return embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq
        )

    def extra_repr(self) -> str:
        """Show the sizes, and the options that are not as usual."""
        return self._shown(
            padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False
        )


class EmbeddingBag(_Table):
    """The sum, mean or maximum of the rows that each bag of integers names.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
    max_norm, norm_type, scale_grad_by_freq, sparse
        As for `Embedding`.
    mode : {"sum", "mean", "max"}
    include_last_offset : bool
        The last offset is where the last bag ends.
    padding_idx : int, optional
        A row that starts as zeros, takes no part and does not learn.
    device, dtype : optional

    Attributes
    ----------
    weight : Parameter, shape (num_embeddings, embedding_dim)
        Normal with variance 1 at first.

    Examples
    --------
    >>> import shardwise as sw
    >>> from shardwise import nn
    >>> words = nn.EmbeddingBag(10, 4, mode="sum")
    >>> words(sw.tensor([1, 2, 4, 5, 4]), sw.tensor([0, 3])).shape
    (2, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: BagMode = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        if mode not in ("sum", "mean", "max"):
            raise ArgumentError(f"EmbeddingBag: mode must be 'sum', 'mean' or 'max', got {mode!r}")
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
            _weight, device, dtype,
        )  # fmt: skip
        self.mode: BagMode = mode
        self.include_last_offset = include_last_offset

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: BagMode = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """Return a layer over rows that exist, which learn on unless `freeze`."""
        rows, dim = _matrix(cls.__name__, embeddings)
        layer = cls(
            rows, dim, max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings,
            include_last_offset, padding_idx,
        )  # fmt: skip
        layer.weight.requires_grad_(not freeze)
        return layer

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        """Map integers (bags, n), or (n,) with offsets (bags,), to (bags, dim)."""
        return embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode,
            self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """Show the sizes, the mode, and the options that are not as usual."""
        return self._shown(
            max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode=None, padding_idx=None
        )


def _matrix(kind: str, rows: Tensor) -> tuple[int, int]:
    if not isinstance(rows, Tensor) or rows.ndim != 2:
        got = f"shape {rows.shape}" if isinstance(rows, Tensor) else f"a {type(rows).__name__}"
        raise ShapeError(
            f"{kind}.from_pretrained: embeddings must be a Tensor of shape (rows, dim), got {got}"
        )
    return rows.shape[0], rows.shape[1]
