"""Dtypes by method: ``x.float()``, ``x.long()``."""

from __future__ import annotations

from typing import Self, TypeAlias

import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.backend.dtypes import bfloat16
from shardwise.tensor.methods.conversion import Conversion

__all__ = ["Casting"]

_Name: TypeAlias = str


class Casting(Conversion):
    """PyTorch's names for `astype`. Inside of this class ``float`` and its like are these methods."""

    def type(self, dtype: DTypeLike | None = None) -> Self | _Name:
        """Return the values in another dtype; the name of the dtype, if none is given."""
        return self.data.dtype.name if dtype is None else self.astype(dtype)

    def double(self) -> Self:
        """Return the values as float64."""
        return self.astype(np.float64)

    def half(self) -> Self:
        """Return the values as float16."""
        return self.astype(np.float16)

    def bfloat16(self) -> Self:
        """Return the values as bfloat16."""
        return self.astype(bfloat16)

    def long(self) -> Self:
        """Return the values as int64."""
        return self.astype(np.int64)

    def short(self) -> Self:
        """Return the values as int16."""
        return self.astype(np.int16)

    def char(self) -> Self:
        """Return the values as int8."""
        return self.astype(np.int8)

    def byte(self) -> Self:
        """Return the values as uint8."""
        return self.astype(np.uint8)

    def cfloat(self) -> Self:
        """Return the values as complex64."""
        return self.astype(np.complex64)

    def cdouble(self) -> Self:
        """Return the values as complex128."""
        return self.astype(np.complex128)

    def float(self) -> Self:
        """Return the values as float32."""
        return self.astype(np.float32)

    def int(self) -> Self:
        """Return the values as int32."""
        return self.astype(np.int32)

    def bool(self) -> Self:
        """Return where the values are not zero."""
        return self.astype(np.bool_)
