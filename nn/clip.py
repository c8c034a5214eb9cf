"""Keep gradients from getting too long."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ArgumentError, AutogradError
from shardwise.backend.kernels.reduction.reduction import sum_of_squares
from shardwise.tensor import Tensor

__all__ = ["clip_grad_norm_", "clip_grad_value_"]


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
    Nothing is sent. Under data parallelism all ranks have the same gradients after backward, and
    so the same norm, to the last bit.
    """
    if not max_norm >= 0.0 or not norm_type > 0.0:
        raise ArgumentError(
            f"clip_grad_norm_ needs max_norm >= 0 and norm_type > 0; got {max_norm} and {norm_type}"
        )
    parameters = [parameters] if isinstance(parameters, Tensor) else parameters
    grads = [p.grad for p in parameters if p.grad is not None]
    total = _norm([grad.data for grad in grads], norm_type)
    if error_if_nonfinite and not math.isfinite(total):
        raise AutogradError(f"the gradients' norm of order {norm_type} is {total}, so they cannot be clipped")
    scale = max_norm / (total + 1e-6)
    if not scale >= 1.0:  # also for NaN, as PyTorch
        with np.errstate(invalid="ignore"):  # inf * 0
            for grad in grads:
                np.multiply(grad.data, scale, out=grad.data)
                grad.version.count += 1
    return Tensor(np.asarray(total))


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
    for parameter in [parameters] if isinstance(parameters, Tensor) else parameters:
        if parameter.grad is not None:
            grad = parameter.grad.data
            grad[...] = np.clip(grad, -bound, bound)
            parameter.grad.version.count += 1


def _norm(arrays: Sequence[Array], order: float) -> float:
    """Return the norm of all elements together, added up in float64."""
    if order == 2.0:
        return math.sqrt(sum(float(sum_of_squares(a)) for a in arrays))
    if math.isinf(order):
        largest = [float(np.max(np.abs(a))) for a in arrays if a.size]
        return float(np.max(np.asarray(largest))) if largest else 0.0  # unlike max(), this keeps NaN
    parts = [float(np.sum(np.abs(a).astype(np.float64) ** order)) for a in arrays]
    total: float = sum(parts) ** (1.0 / order)
    return total
