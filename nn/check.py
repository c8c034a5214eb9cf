"""What layers ask of their inputs before they compute."""

from __future__ import annotations

from shardwise.backend.errors import DTypeError
from shardwise.tensor import Tensor

__all__ = ["check_dtypes"]


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
    given = ", ".join(f"{name} {t.dtype}" for name, t in tensors.items() if t is not None)
    raise DTypeError(
        f"{op}: wanted floating tensors of one dtype, got {given}; cast the data with astype(), "
        "or the module with to()"
    )
