"""Keep gradients from getting too long."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from shardwise.backend.errors import ArgumentError, AutogradError
from shardwise.backend.kernels.reduction.reduction import sum_of_squares
from shardwise.collectives import tally
from shardwise.tensor import Tensor

__all__ = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients in place so that their common norm is at most `max_norm`.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Those without a gradient are skipped.
    max_norm : float
    norm_type : float
        Order of the norm; ``inf`` for the largest magnitude.
    error_if_nonfinite : bool
        Raise if the norm is NaN or infinite, instead of scaling by it.
    foreach : bool, optional
        Taken for PyTorch's sake.

    Returns
    -------
    Tensor, shape ()
        The norm before scaling, float64.

    Raises
    ------
    ArgumentError
        `max_norm` is negative, or `norm_type` is not positive.
    AutogradError
        The norm is not finite, and `error_if_nonfinite`.

    Notes
    -----
    Of sharded gradients the norm of the whole is meant: each element counts once, however many ranks hold it.
    This takes one all-reduce of a few bytes per set of ranks that parts lie on. Nothing is sent for others:
    under data parallelism all ranks have the same gradients after backward, and so the same norm, to the
    last bit.
    """
    if not max_norm >= 0.0 or not norm_type > 0.0:
        raise ArgumentError(
            f"clip_grad_norm_ needs max_norm >= 0 and norm_type > 0; got {max_norm} and {norm_type}"
        )
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    grads = [p.grad for p in parameters if p.grad is not None]
    _reduce(grads)
    total = get_total_norm(grads, norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Return the norm of all elements of some tensors together, in float64.

    Parameters
    ----------
    tensors : Tensor or iterable of Tensor
        Gradients, mostly. Sharded ones count as wholes, as for `clip_grad_norm_`; those on different meshes
        may be mixed.
    norm_type, error_if_nonfinite, foreach
        As for `clip_grad_norm_`.

    Examples
    --------
    >>> import shardwise as sw
    >>> get_total_norm([sw.tensor([3.0, 0.0]), sw.tensor([4.0])]).item()
    5.0
    """
    if not norm_type > 0.0:
        raise ArgumentError(f"a norm needs norm_type > 0, got {norm_type}")
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    total = _norm([_laid_out(each.data) for each in tensors], norm_type)
    if error_if_nonfinite and not math.isfinite(total):
        raise AutogradError(f"the gradients' norm of order {norm_type} is {total}, so they cannot be clipped")
    return Tensor(np.asarray(total))


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale gradients in place by ``max_norm / total_norm``, if that is less than 1.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Those without a gradient are skipped.
    max_norm : float
    total_norm : Tensor, shape ()
        What `get_total_norm` says of the gradients, and perhaps of others beside them.
    foreach : bool, optional
        Taken for PyTorch's sake.
    """
    scale = max_norm / (float(total_norm) + 1e-6)
    if scale >= 1.0:  # not so for NaN, as in PyTorch
        return
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    grads = [p.grad for p in parameters if p.grad is not None]
    _reduce(grads)
    with np.errstate(invalid="ignore"):  # inf * 0
        for grad in grads:
            part = getattr(grad.data, "local", grad.data)
            np.multiply(part, scale, out=part)
            grad.version.count += 1


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Clip each element of the gradients in place to at most `clip_value` in size.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Those without a gradient are skipped.
    clip_value : float
    foreach : bool, optional
        Taken for PyTorch's sake.

    Raises
    ------
    ArgumentError
        `clip_value` is negative.
    """
    if not clip_value >= 0.0:
        raise ArgumentError(f"clip_grad_value_ needs clip_value >= 0, got {clip_value}")
    bound = float(clip_value)
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    _reduce([p.grad for p in parameters if p.grad is not None])
    for parameter in parameters:
        if parameter.grad is not None:
            grad = parameter.grad.data
            grad = getattr(grad, "local", grad)
            grad[...] = np.clip(grad, -bound, bound)
            parameter.grad.version.count += 1


def _reduce(grads: Sequence[Tensor]) -> None:
    """Replace gradients that are still terms of sums by the sums, with one collective for many."""
    waiting: list[Any] = [grad for grad in grads if getattr(grad.data, "is_terms", False)]
    if waiting:
        for grad, data in zip(waiting, waiting[0].data.reduced([g.data for g in waiting]), strict=True):
            grad.data = data


def _laid_out(array: Any) -> Any:
    """Return an array of whose parts each has values of its own, and no terms of sums."""
    return array.reduced([array])[0] if getattr(array, "is_terms", False) else array


def _norm(arrays: Sequence[Any], order: float) -> float:
    """Return the norm of all elements together, added up in float64."""
    if math.isinf(order):
        found = tally(arrays, lambda a: float(np.max(np.abs(a))) if a.size else 0.0, "max")
        return float(np.max(np.asarray(found))) if found else 0.0  # unlike max(), this keeps NaN
    if order == 2.0:
        return math.sqrt(sum(tally(arrays, lambda a: float(sum_of_squares(a)))))
    total: float = sum(tally(arrays, lambda a: float(np.sum(np.abs(a).astype(np.float64) ** order))))
    return float(total ** (1.0 / order))
