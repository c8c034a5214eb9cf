"""Values that leave the tensor: as Python numbers, as arrays, to other libraries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.backend.errors import AutogradError, DTypeError, ShapeError
from shardwise.backend.select import backend_of
from shardwise.tensor.methods.carrier import Carrier
from shardwise.tensor.ops import view
from shardwise.tensor.protocol import apply_function, apply_special
from shardwise.tensor.ufunc import apply_ufunc

__all__ = ["Interchange"]


class Interchange(Carrier):
    """What other code reads of a tensor."""

    def numpy(self) -> np.ndarray[Any, np.dtype[Any]]:
        """Return the values as a NumPy array; the same memory, on the CPU."""
        if self.requires_grad:
            raise AutogradError("numpy() of a tensor that requires grad: call detach().numpy()")
        return backend_of(self.data).to_host(self.data)

    def item(self) -> Any:
        """Return the only element as a Python number."""
        if self.data.size != 1:
            raise ShapeError(f"item() needs exactly one element, but the shape is {self.data.shape}")
        return self.data.item()

    def tolist(self) -> Any:
        """Return nested lists of Python numbers."""
        return backend_of(self.data).to_host(self.data).tolist()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Any:
        if self.requires_grad:
            raise AutogradError(
                "NumPy asked for the array of a tensor that requires grad: call detach() first"
            )
        return np.array(backend_of(self.data).to_host(self.data), dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return apply_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return apply_function(self, function, args, kwargs)

    def __array_special__(self, function: Any, args: Any, kwargs: Any) -> Any:
        return apply_special(function, args, kwargs)

    def __len__(self) -> int:
        if not self.data.shape:
            raise ShapeError("len() of a 0-d tensor")
        length: int = self.data.shape[0]
        return length

    def __iter__(self) -> Iterator[Self]:
        if not self.data.shape:
            raise ShapeError("iteration over a 0-d tensor")
        rows: Any = view.Unbind.apply(self, dim=0)
        return iter(rows)

    def __bool__(self) -> bool:
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.data.dtype.kind not in "iub":
            raise DTypeError(f"only integer tensors can be an index, not {self.data.dtype}")
        return int(self.item())
