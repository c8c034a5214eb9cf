"""Other dtypes, other devices, other memory."""

from __future__ import annotations

from typing import Self

from shardwise.backend.array import DTypeLike
from shardwise.backend.errors import ArgumentError
from shardwise.backend.kind import as_dtype
from shardwise.backend.select import is_device
from shardwise.tensor.methods.facts import Facts
from shardwise.tensor.ops import arithmetic
from shardwise.tensor.ops.device import Transfer

__all__ = ["Conversion"]


class Conversion(Facts):
    """What changes how values are stored. Gradients come back in the dtype and on the device of the input."""

    def to(
        self,
        *targets: DTypeLike | Facts | bool | None,
        device: str | None = None,
        dtype: DTypeLike | None = None,
        non_blocking: bool = False,
        copy: bool = False,
    ) -> Self:
        """Return on another device or with another dtype, or both; self, if nothing changes.

        Parameters
        ----------
        *targets : str, dtype or Tensor
            A device (``"cpu"``, ``"cuda:0"``, ``"shape"``), a dtype, both, or a tensor that has both.
        device : str, optional
        dtype : dtype, optional
        non_blocking : bool
            Taken for PyTorch's sake: copies are ordered by the device's stream in any case.
        copy : bool
            Copy even if nothing changes.

        Examples
        --------
        >>> import shardwise as sw
        >>> x = sw.tensor([1.0])
        >>> x.to("float64").to(x).dtype
        dtype('float32')
        """
        flags = [target for target in targets if isinstance(target, bool)]  # PyTorch's non_blocking and copy
        for target in targets:
            if isinstance(target, Facts):
                device, dtype = target.device, target.data.dtype
            elif isinstance(target, str) and is_device(target):
                device = target
            elif target is not None and not isinstance(target, bool):
                dtype = target
        if device is not None and not is_device(device):
            raise ArgumentError(
                f"to: there is no device {device!r}; wanted 'cpu', 'cuda', 'cuda:1' or 'shape'"
            )
        out = self
        if dtype is not None:
            out = out.astype(as_dtype(dtype, "to"))
        if device is not None and not _same(device, out.device):
            out = Transfer.apply(out, device=device)
        return out.clone() if (copy or flags[1:] == [True]) and out is self else out

    def cpu(self) -> Self:
        """Return on the host."""
        return self.to("cpu")

    def cuda(self, device: int | str | None = None, non_blocking: bool = False) -> Self:
        """Return on a CUDA device: the current one, a number, or a name such as ``"cuda:1"``."""
        place = "cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else device
        return self.to(device=place)

    def type_as(self, other: Facts) -> Self:
        """Return with the dtype and on the device of `other`."""
        return self.to(other)

    def astype(self, dtype: DTypeLike, copy: bool = False) -> Self:
        """Return the values in another dtype; self, if it has that dtype already, unless `copy` is true.

        Raises
        ------
        DTypeError
            `dtype` is none.
        """
        dtype = as_dtype(dtype)
        if self.data.dtype != dtype:
            return arithmetic.Cast.apply(self, dtype=dtype)
        return self.clone() if copy else self

    def clone(self) -> Self:
        """Return a copy; gradients pass through."""
        return arithmetic.Clone.apply(self)

    copy = clone

    def contiguous(self) -> Self:
        """Return a C-contiguous tensor: self, or a copy."""
        return self if self.is_contiguous() else self.clone()


def _same(device: str, here: str) -> bool:
    """Tell whether a device's name means the place `here`; ``"cuda"`` means any CUDA device."""
    return device in (here, here.partition(":")[0], f"{here}:0")
