"""What ``inplace=True`` does."""

from __future__ import annotations

from shardwise.backend.errors import AutogradError
from shardwise.tensor import Tensor

__all__ = ["placed"]


def placed(op: str, input: Tensor, result: Tensor, inplace: bool) -> Tensor:
    """Return `result`; if `inplace`, as the new value of `input`.

    Off the tape the values are copied into the memory of `input`. On the tape, what earlier ops saved
    of that memory must stay, so `input` becomes the result instead, array and history, and its old
    array lives as long as backward needs it. Ops that end here must not save their result, since
    writes into `input` would not be noticed by it.

    Raises
    ------
    AutogradError
        `input` is a leaf that requires grad, or shares its memory with another living tensor.
    """
    if not inplace:
        return result
    if not result.requires_grad:
        return input.copy_(result)
    if input.is_leaf and input.requires_grad:
        raise AutogradError(
            f"{op}: inplace=True cannot write into a leaf that requires grad; leave inplace out, or write "
            "under no_grad()"
        )
    others = [look() for look in input.version.views]
    if any(other is not None and other is not input for other in others):
        raise AutogradError(
            f"{op}: inplace=True cannot write into a tensor on the tape that shares its memory with a view; "
            "leave inplace out, or clone() it first"
        )
    input.data, input.node, input.index = result.data, result.node, result.index
    input.requires_grad = True
    return input
