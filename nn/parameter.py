"""A tensor that a module learns."""

from __future__ import annotations

from typing import Any

from shardwise.tensor import Tensor, as_tensor

__all__ = ["Parameter"]


class Parameter(Tensor):
    """A leaf that requires grad, and that a `Module` finds when it is assigned to an attribute.

    Parameters
    ----------
    data : Tensor or Array
        The values; the memory is shared, not copied.
    requires_grad : bool
    """

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        super().__init__(as_tensor(data).data, requires_grad)

    def __repr__(self) -> str:
        return f"Parameter({super().__repr__()})"
