"""Values that leave the tensor: as Python numbers, as arrays, to other libraries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.backend.dlpack import dlpack_device, to_dlpack
from shardwise.backend.errors import AutogradError, DTypeError, ShapeError
from shardwise.backend.select import backend_of
from shardwise.tensor.methods.carrier import Carrier
from shardwise.tensor.ops import rounding, view
from shardwise.tensor.protocol import apply_function, apply_special
from shardwise.tensor.ufunc import apply_ufunc

__all__ = ["Interchange"]


class Interchange(Carrier):
    """What other code reads of a tensor."""

    # ---- arrays

    def numpy(self, *, force: bool = False) -> np.ndarray[Any, np.dtype[Any]]:
        """Return the values as a NumPy array; the same memory, on the CPU.

        Parameters
        ----------
        force : bool
            Leave the tape without being told to.

        Raises
        ------
        AutogradError
            The tensor requires grad.
        """
        if self.requires_grad and not force:
            raise AutogradError("numpy() of a tensor that requires grad: call detach().numpy()")
        return backend_of(self.data).to_host(self.data)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Any:
        if self.requires_grad:
            raise AutogradError(
                "NumPy asked for the array of a tensor that requires grad. To keep its gradient, join "
                "tensors by np.stack([...]), not np.array([...]), and use functions that take them; else "
                "call detach() first"
            )
        return np.array(backend_of(self.data).to_host(self.data), dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return apply_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return apply_function(self, function, args, kwargs)

    def __array_special__(self, function: Any, args: Any, kwargs: Any) -> Any:
        return apply_special(function, args, kwargs)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a DLPack capsule over the same memory, for ``from_dlpack`` of another library.

        Raises
        ------
        AutogradError
            The tensor requires grad.
        DeviceError
            It has no data.
        """
        if self.requires_grad:
            raise AutogradError("__dlpack__ of a tensor that requires grad: call detach() first")
        given = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        return to_dlpack(self.data, **{name: value for name, value in given.items() if value is not None})

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack_device(self.data)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """What Numba, CuPy and PyTorch read of arrays on a CUDA device; only there."""
        interface: dict[str, Any] = getattr(self.data, "__cuda_array_interface__")  # noqa: B009
        if self.requires_grad:
            raise AutogradError(
                "__cuda_array_interface__ of a tensor that requires grad: call detach() first"
            )
        return interface

    # ---- Python numbers

    def item(self) -> Any:
        """Return the only element as a Python number.

        Raises
        ------
        ShapeError
            There is more than one, or none.
        """
        if self.data.size != 1:
            raise ShapeError(f"item() needs exactly one element, but the shape is {self.data.shape}")
        value = self.data.item()
        return float(value) if type(value).__module__ == "ml_dtypes" else value

    def tolist(self) -> Any:
        """Return nested lists of Python numbers."""
        host = backend_of(self.data).to_host(self.data)
        if host.dtype.kind == "V":  # bfloat16, whose numbers are no Python floats
            host = host.astype(np.float32)
        return host.tolist()

    def __bool__(self) -> bool:
        if self.data.size != 1:
            raise ShapeError(
                f"the truth value of a tensor of shape {self.data.shape} is ambiguous: use any() or all()"
            )
        return bool(self.data.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __round__(self, ndigits: int | None = None) -> Self:
        """Return the values rounded, half to even; a tensor, also without `ndigits`."""
        return rounding.Round.apply(self, decimals=ndigits or 0)

    def __index__(self) -> int:
        if self.data.dtype.kind not in "iub":
            raise DTypeError(f"only integer tensors can be an index, not {self.data.dtype}")
        return int(self.item())

    # ---- sequences

    def __len__(self) -> int:
        if not self.data.shape:
            raise ShapeError("len() of a 0-d tensor; item() gives its value")
        length: int = self.data.shape[0]
        return length

    def __iter__(self) -> Iterator[Self]:
        if not self.data.shape:
            raise ShapeError("iteration over a 0-d tensor; item() gives its value")
        rows: Any = view.Unbind.apply(self, dim=0)
        return iter(rows)

    def __contains__(self, value: object) -> bool:
        """Tell whether any element equals `value`, a number or an array that broadcasts."""
        other: Any = value.data if isinstance(value, Carrier) else value
        return bool(np.any(self.data == other))
