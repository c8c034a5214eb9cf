"""Adafactor."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.errors import ArgumentError, DTypeError
from shardwise.backend.kernels.reduction.reduction import sum_of_squares
from shardwise.backend.kind import finfo
from shardwise.optim.optimizer import Optimizer
from shardwise.optim.option import check_at_least, check_hints

__all__ = ["Adafactor"]


class Adafactor(Optimizer):
    """Adam without a first mean, whose second mean is a row times a column (Shazeer and Stern 2018).

    The state of a matrix takes as much memory as one row and one column.

    Parameters
    ----------
    params : iterable of Tensor, of (str, Tensor), or of dict
    lr : float
        The most that a step may be of the parameter's size; from step ``1 / lr**2`` on it is less.
    beta2_decay : float
        The mean of squares moves by ``t**beta2_decay`` at step t.
    eps : tuple of (float or None, float)
        The least root of the mean of squares (None for the smallest difference from 1 in the parameter's
        dtype), and the least size of a parameter that steps go by.
    d : float
        Where the root mean square of a step is larger than this, it is scaled down to it.
    weight_decay : float
        Each step multiplies parameters by ``1 - lr * weight_decay``.
    maximize : bool
        Ascend.
    **hints
        ``foreach``, ``fused``, ``capturable``: accepted, and of no effect.

    Notes
    -----
    As PyTorch has it, which says where it differs from the paper. Complex parameters are refused.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **hints: bool | None,
    ) -> None:
        check_hints(type(self).__name__, hints)
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise ArgumentError unless all are in the ranges of the algorithm."""
        name = type(self).__name__
        check_at_least(name, options, ("lr", "weight_decay"))
        check_at_least(name, options, ("d",), 1.0)
        if not options["beta2_decay"] <= 0.0:
            raise ArgumentError(f"{name} needs beta2_decay <= 0, got {options['beta2_decay']!r}")
        eps = options["eps"]
        if not (len(eps) == 2 and (eps[0] is None or eps[0] >= 0.0) and eps[1] >= 0.0):
            raise ArgumentError(f"{name} needs two eps >= 0, of which the first may be None; got {eps!r}")

    def state_shapes(self, shape: Shape) -> Mapping[str, Shape]:
        """Return the shapes of the row and the column, or of the whole for vectors."""
        if len(shape) < 2:
            return {"variance": shape}
        return {"row_var": (*shape[:-1], 1), "col_var": (*shape[:-2], 1, shape[-1])}

    def update(self, param: Array, grad: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Do one step for one parameter; one that is sharded is gathered for it."""
        if hasattr(param, "layout"):
            sharded: Any = param
            whole = sharded.whole().copy()
            self.update(whole, np.asarray(grad), state, group)
            sharded[...] = sharded.backend.asarray(whole)
            return
        if param.dtype.kind == "c":
            raise DTypeError(
                f"Adafactor: a parameter of shape {param.shape} is {param.dtype}; wanted real numbers"
            )
        lr, decay, d = (float(group[key]) for key in ("lr", "weight_decay", "d"))
        least, smallest = group["eps"]
        least = float(finfo(param.dtype).eps) if least is None else float(least)
        if not state:
            shapes = self.state_shapes(param.shape).items()
            state.update({key: np.zeros_like(param, shape=shape) for key, shape in shapes})
        step = state["step"] = state.get("step", 0) + 1
        if param.size == 0:
            return
        narrow = param.dtype.itemsize == 2
        theta, grad = (array.astype(np.float32) if narrow else array for array in (param, grad))
        size = max(float(smallest), _root_mean_square(theta)) * min(lr, 1.0 / math.sqrt(step))
        with np.errstate(all="ignore"):
            # One array is made and reused: the mean of squares, its root, and the direction.
            direction = _mean_squares(grad, state, step ** float(group["beta2_decay"]), least)
            np.maximum(direction, least * least, out=direction)
            np.sqrt(direction, out=direction)
            np.divide(grad, direction, out=direction)
            size /= max(1.0, _root_mean_square(direction) / d)
            direction *= size if group["maximize"] else -size
            direction += (1.0 - lr * decay) * theta if decay else theta
            param[...] = direction.astype(param.dtype) if narrow else direction


def _mean_squares(grad: Array, state: dict[str, Any], rate: float, least: float) -> Array:
    """Move the state by a new gradient, and return in a new array the mean of squares that it stands for."""
    squares = np.multiply(grad, grad, out=np.empty_like(grad))
    if grad.ndim < 2:
        squares[...] = _moved(state, "variance", squares, rate)
        return squares
    row = _moved(state, "row_var", np.mean(squares, axis=-1, keepdims=True), rate)
    column = _moved(state, "col_var", np.mean(squares, axis=-2, keepdims=True), rate)
    row /= np.maximum(np.mean(row, axis=-2, keepdims=True), least)
    np.multiply(row, column, out=squares)
    return squares


def _moved(state: dict[str, Any], key: str, target: Array, rate: float) -> Array:
    before = state[key]
    moved: Array = before + rate * (target - before)
    before[...] = moved.astype(before.dtype)
    return moved


def _root_mean_square(array: Array) -> float:
    return math.sqrt(float(sum_of_squares(array)) / array.size) if array.size else 0.0
