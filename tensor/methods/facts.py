"""What a tensor says of itself: shape, dtype, place in memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from shardwise.backend.device import Device
from shardwise.backend.errors import DeviceError
from shardwise.backend.kind import is_float
from shardwise.backend.select import backend_of
from shardwise.tensor.dim import counted_dim
from shardwise.tensor.methods.carrier import Carrier

if TYPE_CHECKING:
    from shardwise.tensor.tape import Node

__all__ = ["Facts"]


class Facts(Carrier):
    """What can be known without looking at the values."""

    # ---- shape

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dims."""
        return self.data.shape

    @property
    def ndim(self) -> int:
        """Number of dims."""
        return self.data.ndim

    @overload
    def size(self) -> tuple[int, ...]: ...

    @overload
    def size(self, dim: int) -> int: ...

    def size(self, dim: int | None = None) -> int | tuple[int, ...]:
        """Return the shape, or the size of one dim."""
        shape = self.data.shape
        return shape if dim is None else shape[counted_dim("size", dim, len(shape))]

    def dim(self) -> int:
        """Return the number of dims."""
        return self.data.ndim

    ndimension = dim

    def numel(self) -> int:
        """Return the number of elements."""
        return self.data.size

    nelement = numel

    # ---- dtype

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return self.data.dtype

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.data.itemsize

    def element_size(self) -> int:
        """Return the bytes of one element."""
        return self.data.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements; a view that repeats some counts them each time."""
        return self.data.nbytes

    def is_floating_point(self) -> bool:
        """Tell whether the elements are real floating-point numbers."""
        return is_float(self.data.dtype)

    def is_complex(self) -> bool:
        """Tell whether the elements are complex."""
        return self.data.dtype.kind == "c"

    def is_signed(self) -> bool:
        """Tell whether the elements can be negative."""
        return self.data.dtype.kind not in "ub"

    def is_same_size(self, other: Carrier) -> bool:
        """Tell whether two tensors have the same shape."""
        return self.shape == other.data.shape

    # ---- place

    @property
    def device(self) -> Device:
        """``"cpu"``, ``"cuda:0"`` or ``"shape"`` (shape without data)."""
        return Device(backend_of(self.data).device_of(self.data))

    @property
    def is_cuda(self) -> bool:
        """Whether the elements are on a CUDA device."""
        return self.device.startswith("cuda")

    @property
    def is_cpu(self) -> bool:
        """Whether the elements are on the host."""
        return self.device == "cpu"

    @property
    def is_meta(self) -> bool:
        """Whether there are no elements, only shape and dtype (device ``"shape"``)."""
        return self.device == "shape"

    def get_device(self) -> int:
        """Return the number of the CUDA device; -1 elsewhere."""
        name, _, number = self.device.partition(":")
        return int(number) if name == "cuda" else -1

    def data_ptr(self) -> int:
        """Return the address of the first element, in bytes.

        Raises
        ------
        DeviceError
            The tensor has no data.
        """
        array: Any = self.data
        for name in ("__array_interface__", "__cuda_array_interface__"):
            if hasattr(array, name):
                return int(getattr(array, name)["data"][0])
        raise DeviceError(f"data_ptr: a tensor on device {self.device!r} has no address")

    @overload
    def stride(self) -> tuple[int, ...]: ...

    @overload
    def stride(self, dim: int) -> int: ...

    def stride(self, dim: int | None = None) -> int | tuple[int, ...]:
        """Return how many elements apart neighbours lie along each dim, or along one; PyTorch's unit."""
        shape = self.data.shape
        if self.is_meta:
            steps = tuple([math.prod(max(n, 1) for n in shape[d + 1 :]) for d in range(len(shape))])
        else:
            steps = tuple([step // self.data.itemsize for step in self.data.strides])
        return steps if dim is None else steps[counted_dim("stride", dim, len(shape))]

    def is_contiguous(self) -> bool:
        """Tell whether the elements lie in C order without gaps."""
        return self.is_meta or bool(self.data.flags.c_contiguous)

    # ---- tape

    @property
    def grad_fn(self) -> Node | None:
        """The op that made this tensor, as PyTorch calls it; None for a leaf."""
        return self.node
