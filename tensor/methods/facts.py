"""What a tensor says of itself: shape, dtype, place in memory."""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from shardwise.backend.select import backend_of
from shardwise.tensor.methods.carrier import Carrier

__all__ = ["Facts"]


class Facts(Carrier):
    """What can be known without looking at the values."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dims."""
        return self.data.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """Number of dims."""
        return self.data.ndim

    @property
    def device(self) -> str:
        """``"cpu"``, ``"cuda:0"`` or ``"shape"`` (shape without data)."""
        return backend_of(self.data).device_of(self.data)

    @overload
    def size(self) -> tuple[int, ...]: ...

    @overload
    def size(self, dim: int) -> int: ...

    def size(self, dim: int | None = None) -> int | tuple[int, ...]:
        """Return the shape, or the size of one dim."""
        return self.data.shape if dim is None else self.data.shape[dim]

    def dim(self) -> int:
        """Return the number of dims."""
        return self.data.ndim

    def numel(self) -> int:
        """Return the number of elements."""
        return self.data.size

    def is_contiguous(self) -> bool:
        """Tell whether the elements lie in C order without gaps."""
        return bool(self.data.flags.c_contiguous)
