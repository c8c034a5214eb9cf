"""Rows chosen from a table, one by one or by bag."""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias

import numpy as np

from shardwise.backend import special
from shardwise.backend.array import Array
from shardwise.backend.errors import ArgumentError, DTypeError, ShapeError
from shardwise.backend.kernels.place.embedding import check_rows
from shardwise.backend.shape import ShapeArray
from shardwise.nn.check import check_dtypes, check_tensors
from shardwise.tensor import Tensor, where
from shardwise.tensor.ops import embedding as op
from shardwise.tensor.ops import index

__all__ = ["BagMode", "embedding", "embedding_bag", "row_of_padding"]

BagMode: TypeAlias = Literal["sum", "mean", "max"]


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return the rows of `weight` that `input` names.

    Parameters
    ----------
    input : Tensor of integers, any shape
        In [0, rows of `weight`); checked on the CPU.
    weight : Tensor, shape (rows, dim)
    padding_idx : int, optional
        A row whose look-ups get no gradient; negative ones count from the end.
    max_norm : float, optional
        Rows that are looked up and longer than this are shortened in place first.
    norm_type : float
        Which norm `max_norm` means.
    scale_grad_by_freq : bool
        Divide the gradient of a row by how often `input` names it.
    sparse : bool
        Taken for PyTorch's sake: gradients are dense, whatever it says.

    Returns
    -------
    Tensor, shape (*input.shape, dim)

    Raises
    ------
    IndexRangeError
        Names the first index that is out of range; negative ones are.
    DTypeError, ShapeError, ArgumentError
        Indices that are no integers, a weight that is no matrix, a row of padding that is not there.
    """
    _check("embedding", input, weight)
    padding = row_of_padding("embedding", padding_idx, weight.shape[0])
    if max_norm is not None:
        _shorten(weight, input.data, max_norm, norm_type)
    if padding is None and not scale_grad_by_freq:
        return index.Embedding.apply(weight, input)
    return op.WeighedEmbedding.apply(weight, input, _factor(input.data, weight, padding, scale_grad_by_freq))


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: BagMode = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Return the sum, mean or maximum of the rows of `weight` that each bag names.

    Parameters
    ----------
    input : Tensor of integers, shape (bags, n), or (n,) with `offsets`
    weight : Tensor, shape (rows, dim)
    offsets : Tensor of integers, shape (bags,), optional
        Where each bag begins in `input`; the first begins at 0.
    max_norm, norm_type, scale_grad_by_freq, sparse
        As for `embedding`.
    mode : {"sum", "mean", "max"}
        The gradient of a maximum goes to the first of equal elements.
    per_sample_weights : Tensor, the shape of `input`, optional
        Multiply the rows, in mode ``"sum"`` only.
    include_last_offset : bool
        The last of `offsets` is where the last bag ends.
    padding_idx : int, optional
        Look-ups of this row take no part.

    Returns
    -------
    Tensor, shape (bags, dim)
        A bag in which nothing takes part gives zeros.

    Raises
    ------
    IndexRangeError, DTypeError, ShapeError, ArgumentError
        As for `embedding`; offsets that do not fit; weights in another mode.
    """
    _check("embedding_bag", input, weight)
    padding = row_of_padding("embedding_bag", padding_idx, weight.shape[0])
    _check_bags(input, weight, offsets, mode, per_sample_weights, include_last_offset)
    if max_norm is not None:
        _shorten(weight, input.data, max_norm, norm_type)
    taking = None if padding is None else Tensor(input.data != padding)
    scale = scale_grad_by_freq and mode != "max"
    if offsets is not None and mode == "max":
        input, taking = _in_rows(input, offsets, taking, include_last_offset)
        offsets = None
    if padding is None and not scale:
        rows = index.Embedding.apply(weight, input)
    else:
        rows = op.WeighedEmbedding.apply(weight, input, _factor(input.data, weight, padding, scale))
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    if mode == "max":
        return _largest(rows, taking)
    if taking is not None:
        rows = where(taking.unsqueeze(-1), rows, 0.0)
    if offsets is None:
        total: Tensor = rows.sum(1)
        count: Any = input.shape[1] if taking is None else taking.sum(1)
    else:
        bags = offsets.shape[0] - include_last_offset
        bag = _bag_of_each(offsets.data, input.shape[0])
        total = op.BagSum.apply(rows, bag, bags=bags)
        ones = np.ones_like(bag) if taking is None else taking.data.astype(bag.dtype)
        count = Tensor(special.scatter_add((bags,), bag, ones))
    if mode == "sum":
        return total
    if isinstance(count, int):
        return total * (1.0 / max(count, 1))
    mean: Tensor = total / count.clip(1, None).to(total.dtype).unsqueeze(-1)
    return mean


def row_of_padding(name: str, padding_idx: int | None, rows: int) -> int | None:
    """Return which of `rows` rows is padding, counted from the start.

    Raises
    ------
    ArgumentError
        There is no such row.
    """
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise ArgumentError(
            f"{name}: padding_idx must name one of the {rows} rows of weight, got {padding_idx}"
        )
    return padding_idx % rows


def _check(name: str, input: Tensor, weight: Tensor) -> None:
    check_tensors(name, input=input, weight=weight)
    if input.dtype.kind not in "iu":
        raise DTypeError(f"{name}: the index must be integers, not {input.dtype}; cast with long()")
    if weight.ndim != 2:
        raise ShapeError(f"{name}: weight must have shape (rows, dim), got {weight.shape}")
    check_rows(name, input.data, weight.shape[0])


def _check_bags(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None,
    mode: BagMode,
    per_sample_weights: Tensor | None,
    include_last_offset: bool,
) -> None:
    check_tensors("embedding_bag", offsets=offsets, per_sample_weights=per_sample_weights)
    if mode not in ("sum", "mean", "max"):
        raise ArgumentError(f"embedding_bag: mode must be 'sum', 'mean' or 'max', got {mode!r}")
    if input.ndim != (2 if offsets is None else 1):
        wanted = "(bags, n) where offsets are left out" if offsets is None else "(n,) where offsets are given"
        raise ShapeError(f"embedding_bag: input must have shape {wanted}, got {input.shape}")
    if per_sample_weights is not None:
        if mode != "sum":
            raise ArgumentError(f"embedding_bag: per_sample_weights go with mode='sum', not {mode!r}")
        if per_sample_weights.shape != input.shape:
            raise ShapeError(
                f"embedding_bag: per_sample_weights must have the shape of input, {input.shape}, got "
                f"{per_sample_weights.shape}"
            )
        check_dtypes("embedding_bag", weight=weight, per_sample_weights=per_sample_weights)
    if offsets is None:
        return
    if offsets.dtype.kind not in "iu" or offsets.ndim != 1 or offsets.shape[0] < include_last_offset:
        raise ShapeError(
            "embedding_bag: offsets must be integers of shape (bags,), one more with include_last_offset; "
            f"got {offsets.dtype} of shape {offsets.shape}"
        )
    if type(offsets.data) is np.ndarray and offsets.data.size:
        starts, n = offsets.data, input.shape[0]
        if starts[0] != 0 or np.any(np.diff(starts) < 0) or starts[-1] > n:
            raise ArgumentError(
                f"embedding_bag: offsets must rise from 0 to at most {n}, the length of input; got "
                f"{starts.tolist()}"
            )


def _shorten(weight: Tensor, rows: Array, max_norm: float, norm_type: float) -> None:
    """Scale the rows that are looked up down to `max_norm`, in place and off the tape."""
    places = np.reshape(rows, (-1,))
    found = weight.data[places]
    size = np.abs(found)
    if math.isinf(norm_type):
        norm = np.max(size, axis=-1, keepdims=True) if found.size else size[:, :1]
    else:
        norm = np.sum(size**norm_type, axis=-1, keepdims=True) ** (1.0 / norm_type)
    scale = np.where(norm > max_norm, max_norm / (norm + 1e-7), 1.0)
    weight.data[places] = found * scale
    weight.version.count += 1


def _factor(places: Array, weight: Tensor, padding: int | None, by_frequency: bool) -> Array:
    """Return by what the gradient of each look-up is multiplied, of `places`' shape and `weight`'s dtype."""
    factor = np.ones_like(weight.data, shape=places.shape)
    if by_frequency:
        counts = special.scatter_add((weight.shape[0],), places, factor)
        factor = factor / np.take(counts, places, axis=0)
    if padding is not None:
        factor = np.where(places == padding, 0.0, factor)
    return factor.astype(weight.dtype, copy=False)


def _bag_of_each(starts: Array, n: int) -> Array:
    """Return in which bag each of `n` places lies: how many bags begin up to there, less one."""
    begun = special.scatter_add((n + 1,), starts, np.ones_like(starts))
    return np.cumsum(begun, axis=0)[:n] - 1


def _in_rows(
    input: Tensor, offsets: Tensor, taking: Tensor | None, include_last_offset: bool
) -> tuple[Tensor, Tensor]:
    """Lay bags of different sizes out in rows of one length, and tell which places of them are filled."""
    starts = offsets.data
    ends = starts[1:]
    if not include_last_offset:
        ends = np.concatenate([ends, np.full_like(starts, input.shape[0], shape=(1,))], axis=0)
    starts = starts[: ends.shape[0]]
    if isinstance(starts, ShapeArray):
        longest = input.shape[0]  # of a dry run: as long as a bag can be
    else:
        longest = int(np.max(ends - starts)) if ends.size else 0
    places = np.expand_dims(starts, -1) + np.arange(longest, like=starts)
    filled = places < np.expand_dims(ends, -1)
    places = np.where(filled, places, 0)
    if taking is not None:
        filled = np.logical_and(filled, taking.data[places])
    return Tensor(input.data[places]), Tensor(filled)


def _largest(rows: Tensor, taking: Tensor | None) -> Tensor:
    """Return the maximum over the places of each bag; zeros where none takes part."""
    if not rows.shape[1]:
        return rows.sum(1)
    if taking is None:
        chosen = rows.detach().argmax(1, keepdim=True)
        return rows.take_along_dim(chosen, 1).squeeze(1)
    taking = taking.unsqueeze(-1)
    shown = where(taking, rows.detach(), -math.inf)
    chosen = shown.argmax(1, keepdim=True)
    largest = rows.take_along_dim(chosen, 1).squeeze(1)
    return where(Tensor(np.any(taking.data, axis=1)), largest, 0.0)
