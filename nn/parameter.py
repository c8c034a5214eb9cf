"""Tensors that belong to a module: what it learns, and what it keeps beside that."""

from __future__ import annotations

from typing import Any

from shardwise.tensor import Tensor, as_tensor

__all__ = ["Buffer", "Parameter"]


class Parameter(Tensor):
    """A leaf that requires grad, and that a `Module` finds when it is assigned to an attribute.

    Parameters
    ----------
    data : Tensor or Array
        The values; the memory is shared, not copied.
    requires_grad : bool

    Notes
    -----
    Of a tensor whose class has a `parameter_class`, as sharded ones have, the parameter is one of those.
    """

    def __new__(cls, data: Any = None, *args: Any, **kwargs: Any) -> Parameter:
        """Return an object of the class that the tensor names, if it names one."""
        kind: Any = getattr(type(data), "parameter_class", None) if cls is Parameter else None
        made: Parameter = object.__new__(kind or cls)
        return made

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        super().__init__(data.data if isinstance(data, Tensor) else as_tensor(data).data, requires_grad)

    def __repr__(self) -> str:
        return f"Parameter({super().__repr__()})"


class Buffer(Tensor):
    """A tensor that becomes a buffer of a `Module` when it is assigned to an attribute.

    Parameters
    ----------
    data : Tensor or Array
        The values; the memory is shared, not copied.
    persistent : bool
        Whether it is part of the module's state.
    """

    def __new__(cls, data: Any = None, *args: Any, **kwargs: Any) -> Buffer:
        """Return an object of the class that the tensor names, as a `Parameter`."""
        kind: Any = getattr(type(data), "buffer_class", None) if cls is Buffer else None
        made: Buffer = object.__new__(kind or cls)
        return made

    def __init__(self, data: Any, persistent: bool = True) -> None:
        super().__init__(data.data if isinstance(data, Tensor) else as_tensor(data).data)
        self.persistent = persistent
