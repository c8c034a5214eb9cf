"""Prove the gradients of any function of tensors against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shardwise.backend.errors import AutogradError, DTypeError
from shardwise.tensor.autograd import grad
from shardwise.tensor.mode import enable_grad, no_grad
from shardwise.tensor.tensor import Tensor

__all__ = ["gradcheck", "gradgradcheck"]


def gradcheck(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-4,
) -> bool:
    """Compare backward with central differences, for every input and output element.

    Parameters
    ----------
    function : callable
        Takes the inputs, returns a Tensor or a tuple of them. Must be deterministic.
    inputs : sequence
        Tensors in float64 that require grad are checked; other values are passed on.
    eps : float
        Half the width of the difference.
    atol, rtol : float
        Largest absolute and relative difference allowed.

    Returns
    -------
    bool
        True; everything else raises.

    Raises
    ------
    AutogradError
        A gradient differs: the message names input, output, element and both values.
    DTypeError
        An input is not in double precision.
    """
    checked = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if not checked:
        raise AutogradError("gradcheck needs at least one input that requires grad")
    for i in checked:
        if inputs[i].dtype != np.float64:
            raise DTypeError(
                f"gradcheck needs float64 to tell errors from rounding; input {i} is {inputs[i].dtype}"
            )
    with enable_grad():
        outputs = _tuple(function(*inputs))
        for o, output in enumerate(outputs):
            if not output.requires_grad:
                continue
            analytic = _jacobian_by_backward(output, [inputs[i] for i in checked])
            for i, jacobian in zip(checked, analytic, strict=True):
                numeric = _jacobian_by_differences(function, inputs, i, o, eps)
                _compare(jacobian, numeric, i, o, atol, rtol)
    return True


def gradgradcheck(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-4,
    seed: int = 0,
) -> bool:
    """Check gradients of gradients: `gradcheck` of the map from inputs to gradients.

    Parameters
    ----------
    function, inputs, eps, atol, rtol
        As for `gradcheck`.
    seed : int
        For the random gradients that are sent into the outputs.
    """
    rng = np.random.default_rng(seed)
    checked = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    outputs = [o for o in _tuple(function(*inputs)) if o.requires_grad]
    seeds = [Tensor(rng.standard_normal(o.shape), True) for o in outputs]

    def first(*args: Any) -> tuple[Any, ...]:
        values, weights = args[: len(inputs)], args[len(inputs) :]
        results = [o for o in _tuple(function(*values)) if o.requires_grad]
        return grad(results, [values[i] for i in checked], weights, create_graph=True)

    return gradcheck(first, [*inputs, *seeds], eps=eps, atol=atol, rtol=rtol)


def _tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _jacobian_by_backward(output: Any, inputs: list[Any]) -> list[Any]:
    rows = []
    for k in range(output.data.size):
        one = np.zeros(output.data.size)
        one[k] = 1.0
        grads = grad(output, inputs, one.reshape(output.shape), retain_graph=True, allow_unused=True)
        rows.append(
            [
                np.zeros(x.shape).ravel() if g is None else g.data.ravel()
                for g, x in zip(grads, inputs, strict=True)
            ]
        )
    return [
        np.array([row[i] for row in rows]).reshape(output.data.size, x.data.size)
        for i, x in enumerate(inputs)
    ]


def _jacobian_by_differences(
    function: Callable[..., Any], inputs: Sequence[Any], i: int, o: int, eps: float
) -> Any:
    columns = []
    original = inputs[i].data
    for k in range(original.size):
        sides = []
        for step in (eps, -eps):
            moved = original.copy()
            moved.flat[k] += step
            args = list(inputs)
            args[i] = Tensor(moved, True)
            # recorded, because the function itself may ask for gradients
            sides.append(_tuple(function(*args))[o].data.astype(np.float64).ravel().copy())
        columns.append((sides[0] - sides[1]) / (2 * eps))
    if not columns:
        rows = _tuple(function(*inputs))[o].data.size
        return np.zeros((rows, 0))
    return np.array(columns).T


def _compare(analytic: Any, numeric: Any, i: int, o: int, atol: float, rtol: float) -> None:
    with no_grad():
        wrong = ~np.isclose(analytic, numeric, rtol=rtol, atol=atol)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise AutogradError(
            f"gradcheck: the gradient of output {o}, element {row}, with respect to input {i}, "
            f"element {column}, is {analytic[row, column]:.10g} by backward and "
            f"{numeric[row, column]:.10g} by differences ({int(wrong.sum())} of {wrong.size} elements differ)"
        )
