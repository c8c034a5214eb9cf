"""Other dtypes, other devices, other memory."""

from __future__ import annotations

from typing import Self

import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.tensor.methods.carrier import Carrier
from shardwise.tensor.ops import arithmetic

__all__ = ["Conversion"]


class Conversion(Carrier):
    """What changes how values are stored."""

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
