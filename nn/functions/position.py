"""Where in its sequence an element is: added, turned into an angle, or told to the attention."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.nn.check import check_dtypes, check_tensors
from shardwise.tensor import Tensor, as_tensor
from shardwise.tensor.ops import rotary

__all__ = ["alibi_bias", "apply_rotary", "rotary_angles", "sinusoidal_encoding"]


def apply_rotary(input: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False) -> Tensor:
    """Rotate pairs of features by an angle for each position (Su et al. 2021, "RoFormer").

    Parameters
    ----------
    input : Tensor, shape (..., seq, d)
        Queries or keys, of all heads at once if they lie before `seq`.
    cos, sin : Tensor, shape (seq, r / 2), r <= d, or with leading dims that broadcast
        Of each position's angles; see `rotary_angles`.
    interleaved : bool
        Pair features ``2i`` and ``2i + 1``, as RoFormer and GPT-J do, instead of ``i`` and ``i + r / 2``,
        as GPT-NeoX and Llama do. Both are the same up to the order of the features, which weights decide.

    Returns
    -------
    Tensor, of the shape of `input`
        Features from r on stay as they are.

    Raises
    ------
    ShapeError, DTypeError
        Angles that do not fit the input.
    """
    check_tensors("apply_rotary", input=input, cos=cos, sin=sin)
    fits = min(input.ndim, cos.ndim) >= 2 and cos.shape == sin.shape and 2 * cos.shape[-1] <= input.shape[-1]
    fits = fits and cos.ndim <= input.ndim and all(
        n in (1, m) for n, m in zip(cos.shape[-2::-1], input.shape[-2::-1], strict=False)
    )  # fmt: skip
    if not fits:
        raise ShapeError(
            "apply_rotary needs input (..., seq, d), cos and sin (..., seq, at most d / 2) that broadcast to "
            f"it; got {input.shape}, {cos.shape}, {sin.shape}"
        )
    check_dtypes("apply_rotary", input=input, cos=cos, sin=sin)
    return rotary.Rotary.apply(input, cos, sin, interleaved=interleaved)


def rotary_angles(
    length: int,
    dim: int,
    base: float = 10000.0,
    dtype: DTypeLike = np.float32,
    device: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return cosines and sines of the angles ``position * base ** (-2 i / dim)``.

    Parameters
    ----------
    length : int
        How many positions, from 0 on.
    dim : int
        How many features are rotated; even.
    base : float
    dtype, device : optional

    Returns
    -------
    cos, sin : Tensor, shape (length, dim / 2)
        Worked out in float64.
    """
    if dim % 2 or dim < 0:
        raise ArgumentError(
            f"rotary_angles: dim must be even, because features are rotated in pairs; got {dim}"
        )
    angles = _angles(length, dim, base)
    cos, sin = (as_tensor(f(angles), dtype=dtype, device=device) for f in (np.cos, np.sin))
    return cos, sin


def sinusoidal_encoding(
    length: int,
    dim: int,
    base: float = 10000.0,
    dtype: DTypeLike = np.float32,
    device: str | None = None,
) -> Tensor:
    """Return sines and cosines of each position at many wavelengths (Vaswani et al. 2017, section 3.5).

    Parameters
    ----------
    length : int
        How many positions, from 0 on.
    dim : int
    base : float
    dtype, device : optional

    Returns
    -------
    Tensor, shape (length, dim)
        ``sin(position / base ** (2 i / dim))`` at feature ``2 i`` and the cosine behind it.
    """
    angles = _angles(length, dim + dim % 2, base, dim)
    table = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, -1)[:, :dim]
    return as_tensor(np.ascontiguousarray(table), dtype=dtype, device=device)


def _angles(
    length: int, dim: int, base: float, period: int | None = None
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    powers = np.arange(0, dim, 2, dtype=np.float64) / max(dim if period is None else period, 1)
    return np.arange(length, dtype=np.float64)[:, None] * base**-powers


def alibi_bias(
    num_heads: int,
    q: int,
    k: int | None = None,
    is_causal: bool = False,
    dtype: DTypeLike = np.float32,
    device: str | None = None,
) -> Tensor:
    """Return what to add to attention scores so that far keys count less (Press et al. 2022, "ALiBi").

    Parameters
    ----------
    num_heads : int
        Each head has a slope of its own, from a geometric sequence.
    q : int
        How many queries: those of the last positions.
    k : int, optional
        How many keys; as many as queries if not given.
    is_causal : bool
        Hide keys behind a query, by ``-inf``.
    dtype, device : optional

    Returns
    -------
    Tensor, shape (num_heads, q, k)
        ``-slope * distance``, an `attn_mask` for `scaled_dot_product_attention`.

    Examples
    --------
    >>> alibi_bias(2, 2)[0].tolist()
    [[-0.0, -0.0625], [-0.0625, -0.0]]
    """
    if num_heads < 1:
        raise ArgumentError(f"alibi_bias: num_heads must be at least 1, got {num_heads}")
    k = q if k is None else k
    distance = np.arange(k) - (np.arange(q)[:, None] + k - q)
    bias = -np.asarray(_slopes(num_heads))[:, None, None] * np.abs(distance)
    if is_causal:
        bias = np.where(distance > 0, -np.inf, bias)
    return as_tensor(bias, dtype=dtype, device=device)


def _slopes(heads: int) -> list[float]:
    """Return ``2 ** (-8 i / heads)``; for other numbers than powers of 2, those of the next ones mixed."""
    below = 2 ** math.floor(math.log2(heads))
    slopes = [2.0 ** (-8.0 * (i + 1) / below) for i in range(below)]
    if below < heads:
        slopes += [2.0 ** (-4.0 * (i + 1) / below) for i in range(0, 2 * below, 2)][: heads - below]
    return slopes
