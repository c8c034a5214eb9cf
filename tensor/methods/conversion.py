"""Other dtypes, other devices, other memory."""

from __future__ import annotations

from typing import Self

import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.backend.select import is_device
from shardwise.tensor.methods.facts import Facts
from shardwise.tensor.ops import arithmetic
from shardwise.tensor.ops.device import Transfer

__all__ = ["Conversion"]


class Conversion(Facts):
    """What changes how values are stored."""

    def to(self, *targets: DTypeLike) -> Self:
        """Return on another device (``"cpu"``, ``"cuda:0"``) or with another dtype, or both."""
        out = self
        for target in targets:
            if is_device(target):
                if target != out.device and not (target == "cuda" and out.device.startswith("cuda")):
                    out = Transfer.apply(out, device=target)
            else:
                out = out.astype(target)
        return out

    def cpu(self) -> Self:
        """Return on the host."""
        return self.to("cpu")

    def cuda(self, device: int = 0) -> Self:
        """Return on a CUDA device."""
        return self.to(f"cuda:{device}")

    def astype(self, dtype: DTypeLike) -> Self:
        """Return the values in another dtype; self, if it has that dtype already."""
        dtype = np.dtype(dtype)
        return self if self.data.dtype == dtype else arithmetic.Cast.apply(self, dtype=dtype)

    def float(self) -> Self:
        """Return the values as float32."""
        return self.astype(np.float32)

    def double(self) -> Self:
        """Return the values as float64."""
        return self.astype(np.float64)

    def half(self) -> Self:
        """Return the values as float16."""
        return self.astype(np.float16)

    def long(self) -> Self:
        """Return the values as int64."""
        return self.astype(np.int64)

    def clone(self) -> Self:
        """Return a copy; gradients pass through."""
        return arithmetic.Clone.apply(self)

    def contiguous(self) -> Self:
        """Return a C-contiguous tensor: self, or a copy."""
        return self if self.data.flags.c_contiguous else self.clone()
