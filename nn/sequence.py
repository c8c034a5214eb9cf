"""Sequences of different lengths: padded to one length, or packed without padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Self

import numpy as np

from shardwise.backend.array import Array, DTypeLike
from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.backend.select import get_backend
from shardwise.tensor import Tensor, as_tensor, cat, full, stack, where

__all__ = [
    "PackedSequence", "pack_padded_sequence", "pack_sequence", "packed_like", "pad_packed_sequence",
    "pad_sequence", "padded_steps", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class PackedSequence(NamedTuple):
    """Sequences sorted by length, without padding: first the first steps of all, then the second ones, ...

    Attributes
    ----------
    data : Tensor, shape (steps of all sequences together, ...)
    batch_sizes : Tensor of int64, shape (steps of the longest,)
        How many sequences have each step.
    sorted_indices, unsorted_indices : Tensor of int64, shape (batch,), or None
        The place that each sorted sequence had, and the way back; None where they came sorted.
    """

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    @property
    def lengths(self) -> Array:
        """The length of each sequence, the longest first: a NumPy array of int64."""
        sizes = np.asarray(self.batch_sizes)
        return np.asarray((sizes[:, None] > np.arange(sizes[0])).sum(0))

    def to(self, *targets: DTypeLike) -> Self:
        """Return with the data on another device, or of another dtype."""
        return self._replace(data=self.data.to(*targets))


def pad_sequence(
    sequences: Sequence[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: Literal["left", "right"] = "right",
) -> Tensor:
    """Return sequences of different lengths in one tensor.

    Parameters
    ----------
    sequences : sequence of Tensor, each of shape (length, ...)
    batch_first : bool
        Put the dim of the sequences first.
    padding_value : float
    padding_side : {"left", "right"}

    Returns
    -------
    Tensor, shape (longest, len(sequences), ...), or (len(sequences), longest, ...)

    Raises
    ------
    ShapeError
        There is none, or the dims behind the length differ.

    Examples
    --------
    >>> import shardwise as sw
    >>> pad_sequence([sw.tensor([1, 2, 3]), sw.tensor([4])], batch_first=True).tolist()
    [[1, 2, 3], [4, 0, 0]]
    """
    if padding_side not in ("left", "right"):
        raise ArgumentError(f"pad_sequence: padding_side must be 'left' or 'right', got {padding_side!r}")
    if not sequences or any(not x.ndim or x.shape[1:] != sequences[0].shape[1:] for x in sequences):
        listed = ", ".join(str(x.shape) for x in sequences)
        raise ShapeError(
            f"pad_sequence needs sequences of shapes (length, ...) that agree behind it, got ({listed})"
        )
    longest = max(x.shape[0] for x in sequences)
    rows = []
    for x in sequences:
        if x.shape[0] < longest:
            gap = full((longest - x.shape[0], *x.shape[1:]), padding_value, dtype=x.dtype, device=x.device)
            x = cat([x, gap] if padding_side == "right" else [gap, x])
        rows.append(x)
    return stack(rows, 0 if batch_first else 1)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False
) -> list[Tensor]:
    """Return the sequences in a padded tensor, each of its own length; the inverse of `pad_sequence`."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[:n] for row, n in zip(rows, _as_ints(lengths), strict=True)]


def pack_padded_sequence(
    input: Tensor,
    lengths: Tensor | Sequence[int],
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """Return padded sequences without their padding.

    Parameters
    ----------
    input : Tensor, shape (steps, batch, ...), or (batch, steps, ...) with `batch_first`
    lengths : Tensor or sequence of int, shape (batch,)
    batch_first : bool
    enforce_sorted : bool
        Demand that the longest come first; otherwise they are sorted.

    Raises
    ------
    ShapeError, ArgumentError
        Lengths that do not fit the input, or are not sorted.

    Examples
    --------
    >>> import shardwise as sw
    >>> pack_padded_sequence(sw.tensor([[1, 2, 3], [4, 0, 0]]), [3, 1], batch_first=True).data.tolist()
    [1, 4, 2, 3]
    """
    if input.ndim < 2:
        raise ShapeError(f"pack_padded_sequence needs steps and a batch, but the shape is {input.shape}")
    if batch_first:
        input = input.transpose(0, 1)
    steps, batch = input.shape[:2]
    sizes = np.asarray(_as_ints(lengths), np.int64)
    if sizes.shape != (batch,) or (batch and not 0 < sizes.min() <= sizes.max() <= steps):
        raise ArgumentError(
            f"pack_padded_sequence: wanted {batch} lengths from 1 to {steps}, one per sequence, got "
            f"{sizes.tolist()}"
        )
    if enforce_sorted and np.any(np.diff(sizes) > 0):
        raise ArgumentError(
            f"pack_padded_sequence: lengths must fall, the longest first, but are {sizes.tolist()}; "
            "enforce_sorted=False sorts them"
        )
    order = np.argsort(-sizes, kind="stable")
    seen = np.arange(int(sizes.max(initial=0)))[:, None] < sizes[order]
    step, place = np.nonzero(seen)
    backend = get_backend(input.device)
    data = input[backend.asarray(step), backend.asarray(order[place])]
    batch_sizes = as_tensor(seen.sum(1))
    if enforce_sorted:
        return PackedSequence(data, batch_sizes)
    return PackedSequence(data, batch_sizes, as_tensor(order), as_tensor(np.argsort(order)))


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return packed sequences padded to one length, and their lengths; the inverse of `pack_padded_sequence`.

    Parameters
    ----------
    sequence : PackedSequence
    batch_first : bool
    padding_value : float
    total_length : int, optional
        Pad to this length, instead of that of the longest.

    Returns
    -------
    padded : Tensor, shape (steps, batch, ...), or (batch, steps, ...) with `batch_first`
    lengths : Tensor of int64, shape (batch,)

    Raises
    ------
    ArgumentError
        `total_length` is less than the longest.
    """
    lengths = sequence.lengths
    longest = sequence.batch_sizes.shape[0]
    steps = longest if total_length is None else total_length
    if steps < longest:
        raise ArgumentError(
            f"pad_packed_sequence: total_length={steps} is less than the longest sequence, {longest}"
        )
    order = slice(None) if sequence.unsorted_indices is None else np.asarray(sequence.unsorted_indices)
    lengths = lengths[order]
    padded = padded_steps(sequence, steps, padding_value)[0]
    padded = padded.transpose(0, 1) if batch_first else padded
    return padded, as_tensor(lengths)


def padded_steps(sequence: PackedSequence, steps: int, padding_value: float = 0.0) -> tuple[Tensor, Tensor]:
    """Return packed sequences padded, in their first order, and which steps each of them has.

    Parameters
    ----------
    sequence : PackedSequence
    steps : int
        At least as many as the longest has.
    padding_value : float

    Returns
    -------
    padded : Tensor, shape (steps, batch, ...)
    seen : Tensor of bool, shape (steps, batch)
    """
    data, sizes = sequence.data, np.asarray(sequence.batch_sizes)
    sizes = np.concatenate([sizes, np.zeros(steps - len(sizes), sizes.dtype)])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    places = np.arange(sizes[0])
    seen = places < sizes[:, None]
    source = np.where(seen, starts[:, None] + places, 0)
    if sequence.unsorted_indices is not None:
        back = np.asarray(sequence.unsorted_indices)
        source, seen = source[:, back], seen[:, back]
    asarray = get_backend(data.device).asarray
    padded = data[asarray(source)]
    shown = Tensor(asarray(seen))
    return where(shown.reshape(*seen.shape, *[1] * (data.ndim - 1)), padded, padding_value), shown


def packed_like(sequence: PackedSequence, padded: Tensor) -> PackedSequence:
    """Return what `padded`, of shape (steps, batch, ...), holds at the steps of packed sequences."""
    sizes = np.asarray(sequence.batch_sizes)
    step, place = np.nonzero(np.arange(sizes[0]) < sizes[:, None])
    if sequence.sorted_indices is not None:
        place = np.asarray(sequence.sorted_indices)[place]
    asarray = get_backend(padded.device).asarray
    return sequence._replace(data=padded[asarray(step), asarray(place)])


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Return sequences of different lengths packed without padding."""
    lengths = [x.shape[0] for x in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the sequences of a packed one; the inverse of `pack_sequence`."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


def _as_ints(lengths: Tensor | Sequence[int]) -> list[int]:
    values: list[int] = lengths.tolist() if isinstance(lengths, Tensor) else list(lengths)
    return [int(n) for n in values]
