"""What layers ask of their inputs before they compute."""

from __future__ import annotations

import numpy as np

from shardwise.backend.errors import ArgumentError, DTypeError
from shardwise.tensor import Tensor
from shardwise.tensor.mode import current_mode

__all__ = ["check_dtypes", "check_reals", "check_sizes", "check_tensors"]


def check_tensors(op: str, **values: object) -> None:
    """Raise unless all values are tensors; None stands for one that is left out.

    Raises
    ------
    DTypeError
        Names the argument, what it is, and how to make a tensor of it.
    """
    for name, value in values.items():
        if value is not None and not isinstance(value, Tensor):
            raise DTypeError(
                f"{op}: {name} must be a Tensor, got {type(value).__name__}; make one with shardwise.tensor()"
            )


def check_sizes(op: str, **sizes: object) -> None:
    """Raise unless all sizes of a layer are integers from 0 on.

    Raises
    ------
    ArgumentError
        Names the size.
    """
    for name, size in sizes.items():
        if not isinstance(size, (int, np.integer)) or isinstance(size, bool) or size < 0:
            raise ArgumentError(f"{op}: {name} must be an integer of at least 0, got {size!r}")


def check_dtypes(op: str, **tensors: Tensor | None) -> None:
    """Raise unless all tensors are floating and of one dtype; None stands for one that is left out.

    NumPy would compute in the wider dtype, at half the speed, and nobody would notice.

    Raises
    ------
    DTypeError
        Names each tensor with its dtype.
    """
    dtypes = {tensor.dtype for tensor in tensors.values() if tensor is not None}
    if len(dtypes) == 1 and next(iter(dtypes)).kind in "fcV":  # V: bfloat16
        return
    if current_mode().autocast and all(dtype.kind in "fV" and dtype.itemsize <= 4 for dtype in dtypes):
        return  # it makes them one
    given = ", ".join(f"{name} {t.dtype}" for name, t in tensors.items() if t is not None)
    raise DTypeError(
        f"{op}: wanted floating tensors of one dtype, got {given}; cast the data with astype(), "
        "or the module with to()"
    )


def check_reals(op: str, **values: object) -> None:
    """Raise unless all values are tensors of one real floating dtype; None stands for one left out.

    Raises
    ------
    DTypeError
        Names the argument that is no tensor, or each tensor with its dtype.
    """
    check_tensors(op, **values)
    tensors = {name: value for name, value in values.items() if isinstance(value, Tensor)}
    check_dtypes(op, **tensors)
    for name, tensor in tensors.items():
        if tensor.dtype.kind == "c":
            raise DTypeError(
                f"{op}: {name} must be real, got {tensor.dtype}; take its parts with real and imag, or abs()"
            )
