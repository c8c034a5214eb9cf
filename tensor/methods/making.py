"""New tensors of the dtype and on the device of one that exists."""

from __future__ import annotations

from typing import Any, Self

from shardwise.backend.array import Array, DTypeLike
from shardwise.tensor.fresh import Size, array_of, filled, read_shape, unset
from shardwise.tensor.methods.facts import Facts

__all__ = ["Making"]


class Making(Facts):
    """``x.new_zeros(2, 3)`` and its like: `dtype` and `device` are those of the tensor, if not given."""

    def new_empty(
        self,
        *size: Size,
        dtype: DTypeLike | None = None,
        device: str | None = None,
        requires_grad: bool = False,
    ) -> Self:
        """Return a tensor of `size` with whatever was in memory."""
        array = unset(read_shape(size), dtype or self.data.dtype, device or self.device)
        return self._like(array, requires_grad)

    def new_zeros(
        self,
        *size: Size,
        dtype: DTypeLike | None = None,
        device: str | None = None,
        requires_grad: bool = False,
    ) -> Self:
        """Return a tensor of `size` filled with 0."""
        return self.new_full(read_shape(size), 0, dtype=dtype, device=device, requires_grad=requires_grad)

    def new_ones(
        self,
        *size: Size,
        dtype: DTypeLike | None = None,
        device: str | None = None,
        requires_grad: bool = False,
    ) -> Self:
        """Return a tensor of `size` filled with 1."""
        return self.new_full(read_shape(size), 1, dtype=dtype, device=device, requires_grad=requires_grad)

    def new_full(
        self,
        size: Size,
        fill_value: complex,
        *,
        dtype: DTypeLike | None = None,
        device: str | None = None,
        requires_grad: bool = False,
    ) -> Self:
        """Return a tensor of `size` filled with `fill_value`."""
        array = filled(read_shape((size,)), fill_value, dtype or self.data.dtype, device or self.device)
        return self._like(array, requires_grad)

    def new_tensor(
        self,
        data: object,
        *,
        dtype: DTypeLike | None = None,
        device: str | None = None,
        requires_grad: bool = False,
    ) -> Self:
        """Return a tensor with the values of `data`, copied."""
        array = array_of(data, dtype or self.data.dtype, device or self.device, copy=True)
        return self._like(array, requires_grad)

    def _like(self, array: Array, requires_grad: bool) -> Self:
        tensor: Any = self
        out: Any = tensor.wrap(array)
        like: Self = out.requires_grad_() if requires_grad else out
        return like
