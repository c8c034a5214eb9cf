"""Keep gradients from getting too long."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from shardwise.backend.errors import AutogradError
from shardwise.backend.kernels.reduction import sum_of_squares
from shardwise.tensor import Tensor, no_grad

__all__ = ["clip_grad_norm_"]


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
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

    Returns
    -------
    Tensor, shape ()
        The norm before scaling, float64.
    """
    parameters = [parameters] if isinstance(parameters, Tensor) else parameters
    grads = [p.grad for p in parameters if p.grad is not None]
    arrays = [grad.data for grad in grads]
    if norm_type == 2.0:
        total = float(np.sqrt(sum(float(sum_of_squares(a)) for a in arrays)))
    elif norm_type == float("inf"):
        total = max((float(np.max(np.abs(a))) for a in arrays if a.size), default=0.0)
    else:
        total = sum(float(np.sum(np.abs(a).astype(np.float64) ** norm_type)) for a in arrays) ** (
            1.0 / norm_type
        )
    if error_if_nonfinite and not np.isfinite(total):
        raise AutogradError(f"the gradients' norm of order {norm_type} is {total}, so they cannot be clipped")
    scale = max_norm / (total + 1e-6)
    if not scale >= 1.0:  # also for NaN, as PyTorch
        with no_grad():
            for grad in grads:
                grad.mul_(scale)
    return Tensor(np.asarray(total))
