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

    A complex element counts as two real ones: real and imaginary parts are moved one by one on the
    input side, and looked at one by one on the output side. That is PyTorch's convention for gradients
    of complex numbers, written out: ``dL/dRe(z) + i dL/dIm(z)``.

    Parameters
    ----------
    function : callable
        Takes the inputs, returns a Tensor or a tuple of them. Must be deterministic.
    inputs : sequence
        Tensors in float64 or complex128 that require grad are checked; other values are passed on.
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
        A gradient differs: the message names input, output, element and both values. Or there is
        nothing to check, because no input or no output requires grad.
    DTypeError
        An input is not in double precision.
    """
    _checked(inputs)
    with enable_grad():
        if not any(output.requires_grad for output in _tuple(function(*inputs))):
            raise AutogradError("gradcheck needs at least one output that requires grad, and there is none")
    _check(function, inputs, eps, atol, rtol)
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
    checked = _checked(inputs)
    outputs = [o for o in _tuple(function(*inputs)) if o.requires_grad]
    seeds = [Tensor(_random(rng, o.shape, o.dtype), True) for o in outputs]

    def first(*args: Any) -> tuple[Any, ...]:
        values, weights = args[: len(inputs)], args[len(inputs) :]
        results = [o for o in _tuple(function(*values)) if o.requires_grad]
        wanted = [values[i] for i in checked]
        grads = grad(results, wanted, weights, create_graph=True, allow_unused=True)
        return tuple(gradient for gradient in grads if gradient is not None)

    _check(first, [*inputs, *seeds], eps, atol, rtol)  # which may be constant: then it has nothing to check
    return True


def _checked(inputs: Sequence[Any]) -> list[int]:
    checked = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if not checked:
        raise AutogradError("gradcheck needs at least one input that requires grad")
    for i in checked:
        if inputs[i].dtype not in (np.float64, np.complex128):
            raise DTypeError(
                "gradcheck needs float64 or complex128 to tell errors from rounding; "
                f"input {i} is {inputs[i].dtype}"
            )
    return checked


def _check(function: Callable[..., Any], inputs: Sequence[Any], eps: float, atol: float, rtol: float) -> None:
    checked = _checked(inputs)
    with enable_grad():
        for o, output in enumerate(_tuple(function(*inputs))):
            if not output.requires_grad:
                continue
            analytic = _jacobian_by_backward(output, [inputs[i] for i in checked])
            for i, jacobian in zip(checked, analytic, strict=True):
                numeric = _jacobian_by_differences(function, inputs, i, o, eps)
                with no_grad():
                    wrong = ~np.isclose(jacobian, numeric, rtol=rtol, atol=atol)
                if wrong.any():
                    raise AutogradError(_difference(jacobian, numeric, wrong, i, o, inputs[i], output))


def _tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    values = np.asarray(rng.standard_normal(shape))
    return np.asarray(values + 1j * rng.standard_normal(shape)) if dtype.kind == "c" else values


def _parts(array: Any) -> Any:
    """Return a flat copy in float64, real and imaginary parts of complex elements side by side."""
    flat = np.array(array).reshape(-1)
    return flat.astype(np.complex128).view(np.float64) if flat.dtype.kind == "c" else flat.astype(np.float64)


def _whole(parts: Any, like: Any) -> Any:
    """Undo `_parts`: an array of the shape and kind of `like`."""
    kind = np.complex128 if like.dtype.kind == "c" else np.float64
    return parts.view(kind).reshape(like.shape)


def _jacobian_by_backward(output: Any, inputs: list[Any]) -> list[Any]:
    """Return, per input, the matrix of partial derivatives: a row per part of the output."""
    count = _parts(output.data).size
    jacobians = [np.zeros((count, _parts(x.data).size)) for x in inputs]
    for k in range(count):
        one = np.zeros(count)
        one[k] = 1.0
        grads = grad(output, inputs, _whole(one, output), retain_graph=True, allow_unused=True)
        for jacobian, gradient in zip(jacobians, grads, strict=True):
            if gradient is not None:
                jacobian[k] = _parts(gradient.data)
    return jacobians


def _jacobian_by_differences(
    function: Callable[..., Any], inputs: Sequence[Any], i: int, o: int, eps: float
) -> Any:
    original = _parts(inputs[i].data)
    columns = []
    for k in range(original.size):
        sides = []
        for step in (eps, -eps):
            moved = original.copy()
            moved[k] += step
            args = list(inputs)
            args[i] = Tensor(_whole(moved, inputs[i]), True)
            # recorded, because the function itself may ask for gradients
            sides.append(_parts(_tuple(function(*args))[o].data))
        columns.append((sides[0] - sides[1]) / (2 * eps))
    if not columns:
        rows = _parts(_tuple(function(*inputs))[o].data).size
        return np.zeros((rows, 0))
    return np.array(columns).T


def _difference(analytic: Any, numeric: Any, wrong: Any, i: int, o: int, x: Any, output: Any) -> str:
    row, column = np.argwhere(wrong)[0]
    return (
        f"gradcheck: the gradient of output {o}, {_element(row, output)}, with respect to input {i}, "
        f"{_element(column, x)}, is {analytic[row, column]:.10g} by backward and "
        f"{numeric[row, column]:.10g} by differences ({int(wrong.sum())} of {wrong.size} differ)"
    )


def _element(part: int, tensor: Any) -> str:
    if tensor.dtype.kind != "c":
        return f"element {part}"
    return f"element {part // 2} ({'imaginary' if part % 2 else 'real'} part)"
