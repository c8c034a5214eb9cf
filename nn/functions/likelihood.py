"""Losses that are negative log-likelihoods, and distances of distributions."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.nn.check import check_reals
from shardwise.nn.functions.reduction import Reduction, check_pair, reduced
from shardwise.tensor import Tensor, full_like
from shardwise.tensor.ops import likelihood

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "gaussian_nll_loss", "kl_div",
    "poisson_nll_loss",
]  # fmt: skip


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: Reduction = "mean"
) -> Tensor:
    """Return ``-(t * log(p) + (1 - t) * log(1 - p))``, with logarithms of at least -100.

    Parameters
    ----------
    input : Tensor, any shape, real floating
        Probabilities p, from 0 to 1; checked on the CPU.
    target : Tensor, shape and dtype of `input`
        t, mostly 0 or 1.
    weight : Tensor, optional
        What each element counts; broadcasts to `input`.
    reduction : "mean", "sum" or "none"
        The mean is over all elements, whatever they weigh.

    Raises
    ------
    ArgumentError
        Names the first element that is no probability.
    """
    op = "binary_cross_entropy"
    check_pair(op, input, target, reduction)
    _check_probabilities(op, input)
    losses = likelihood.BinaryCrossEntropy.apply(input, target)
    return reduced(_times(op, losses, weight), reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: Reduction = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Return the `binary_cross_entropy` of ``sigmoid(input)``, for logits of any size.

    Parameters
    ----------
    input : Tensor, any shape, real floating
        The logits.
    target : Tensor, shape and dtype of `input`
    weight : Tensor, optional
        What each element counts; broadcasts to `input`.
    reduction : "mean", "sum" or "none"
        The mean is over all elements, whatever they weigh.
    pos_weight : Tensor, optional
        How many times a positive counts, mostly one number per class; broadcasts to `input`.
    """
    op = "binary_cross_entropy_with_logits"
    check_pair(op, input, target, reduction)
    if pos_weight is not None:
        _check_broadcast(op, "pos_weight", pos_weight, input)
    losses = likelihood.BinaryCrossEntropyWithLogits.apply(input, target, pos_weight)
    return reduced(_times(op, losses, weight), reduction)


def kl_div(
    input: Tensor,
    target: Tensor,
    reduction: Reduction | Literal["batchmean"] = "mean",
    log_target: bool = False,
) -> Tensor:
    """Return ``t * (log(t) - input)``, whose sum is the divergence of Kullback and Leibler.

    Parameters
    ----------
    input : Tensor, any shape, real floating
        Logarithms of the probabilities that are compared with the true ones.
    target : Tensor, shape and dtype of `input`
        The true probabilities t, or their logarithms.
    reduction : "mean", "batchmean", "sum" or "none"
        "batchmean" divides the sum by the size of the first dim, which is the divergence of a batch
        of distributions; "mean" divides by the number of elements, which it is not.
    log_target : bool
        The target holds logarithms.

    Notes
    -----
    Where a probability of the target is 0, the element is ``-t * input``, and the infinite part of
    the gradient of `target` is left out.
    """
    if reduction not in ("mean", "batchmean", "sum", "none"):
        raise ArgumentError(
            f"kl_div: reduction must be 'mean', 'batchmean', 'sum' or 'none', got {reduction!r}"
        )
    check_pair("kl_div", input, target, "sum")
    losses = likelihood.KlDivergence.apply(input, target, log_target=bool(log_target))
    if reduction != "batchmean":
        return reduced(losses, reduction)
    batch = input.shape[0] if input.ndim else 1
    return losses.sum() * (1.0 / batch if batch else math.nan)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return the negative log-likelihood of counts, without the term that only the target decides.

    Parameters
    ----------
    input : Tensor, any shape, real floating
        The logarithm of the expected count, or the count itself.
    target : Tensor, shape and dtype of `input`
        The counts.
    log_input : bool
        ``exp(input) - target * input``; else ``input - target * log(input + eps)``.
    full : bool
        Add Stirling's approximation of that term where the target is above 1.
    eps : float
        Keeps the logarithm finite.
    reduction : "mean", "sum" or "none"
    """
    check_pair("poisson_nll_loss", input, target, reduction)
    losses = likelihood.PoissonNll.apply(
        input, target, log_input=bool(log_input), full=bool(full), eps=float(eps)
    )
    return reduced(losses, reduction)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return the negative log-likelihood of normal numbers, ``(log(var) + (input - target)² / var) / 2``.

    Parameters
    ----------
    input : Tensor, any shape, real floating
        The means.
    target : Tensor, shape and dtype of `input`
    var : Tensor or float
        The variances, not below 0 (checked on the CPU): one number; of the shape of `input`; of that
        shape with one dim of size 1; or without its last dim.
    full : bool
        Add ``log(2 pi) / 2``.
    eps : float
        Variances below it are taken for it, and get a gradient all the same.
    reduction : "mean", "sum" or "none"
    """
    op = "gaussian_nll_loss"
    check_pair(op, input, target, reduction)
    if not eps > 0:
        raise ArgumentError(f"{op}: eps must be above 0, got {eps}")
    if isinstance(var, (int, float)):
        var = full_like(input, float(var))
    check_reals(op, input=input, var=var)
    if type(var.data) is np.ndarray and bool((var.data < 0).any()):
        raise ArgumentError(f"{op}: var must not be negative, and its least element is {var.data.min()}")
    if var.shape != input.shape:
        differ = [n for n, m in zip(var.shape, input.shape, strict=False) if n != m]
        if var.shape == input.shape[:-1]:
            var = var.unsqueeze(-1)
        elif var.ndim != input.ndim or differ != [1]:
            raise ShapeError(
                f"{op}: var of shape {var.shape} must have the shape of input, {input.shape}, that with one "
                "dim of size 1, or that without its last dim"
            )
    losses = likelihood.GaussianNll.apply(input, target, var, eps=float(eps))
    return reduced(losses + 0.5 * math.log(2.0 * math.pi) if full else losses, reduction)


def _times(op: str, losses: Tensor, weight: Tensor | None) -> Tensor:
    if weight is None:
        return losses
    _check_broadcast(op, "weight", weight, losses)
    return losses * weight


def _check_broadcast(op: str, name: str, weight: Tensor, input: Tensor) -> None:
    check_reals(op, **{"input": input, name: weight})
    tail = input.shape[input.ndim - weight.ndim :]
    if weight.ndim > input.ndim or any(n not in (1, m) for n, m in zip(weight.shape, tail, strict=True)):
        raise ShapeError(f"{op}: {name} of shape {weight.shape} does not broadcast to input of {input.shape}")


def _check_probabilities(op: str, input: Tensor) -> None:
    data = input.data
    if type(data) is not np.ndarray or data.dtype.kind != "f":
        return
    fine = (data >= 0.0) & (data <= 1.0)
    if not fine.all():
        place = np.unravel_index(int(np.argmin(fine)), data.shape)
        where = f"[{', '.join(str(int(i)) for i in place)}]" if place else ""
        raise ArgumentError(
            f"{op}: input must be probabilities from 0 to 1, and input{where} is {data[place]}; for logits "
            f"take {op}_with_logits"
        )
