"""All parameters as one vector, and modules whose parameters wait for their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

from shardwise.backend.errors import ShapeError
from shardwise.nn.module import Module
from shardwise.tensor import Tensor, cat, no_grad

__all__ = ["parameters_to_vector", "skip_init", "vector_to_parameters"]

P = ParamSpec("P")
M = TypeVar("M", bound=Module)


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return all elements of the parameters in one vector, on the tape.

    Parameters
    ----------
    parameters : iterable of Tensor
        On one device.

    Returns
    -------
    Tensor, shape (n,)
    """
    return cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy the elements of a vector into the parameters, in their order.

    Parameters
    ----------
    vec : Tensor, shape (n,)
    parameters : iterable of Tensor
        Of n elements together.

    Raises
    ------
    ShapeError
        The vector has more or fewer elements. Nothing is written then.
    """
    targets = list(parameters)
    total = sum(target.numel() for target in targets)
    if vec.shape != (total,):
        raise ShapeError(
            f"vector_to_parameters: the parameters have {total} elements, so the vector must have shape "
            f"({total},), not {vec.shape}"
        )
    start = 0
    with no_grad():
        for target in targets:
            stop = start + target.numel()
            target.copy_(vec.detach()[start:stop].reshape(target.shape))
            start = stop


def skip_init(module_cls: Callable[P, M], *args: P.args, **kwargs: P.kwargs) -> M:
    """Make a module without drawing first values, to be filled by `load_state_dict`.

    Parameters
    ----------
    module_cls : type
        A module class that takes ``device=``.
    *args, **kwargs
        For it.

    Returns
    -------
    Module
        Its parameters hold whatever was in memory.

    Examples
    --------
    >>> from shardwise import nn
    >>> nn.skip_init(nn.Linear, 3, 2).weight.shape
    (2, 3)
    """
    device = kwargs.pop("device", None)
    kwargs["device"] = "shape"
    return module_cls(*args, **kwargs).to_empty(device="cpu" if device is None else str(device))
