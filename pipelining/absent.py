"""`Absent`: a tensor whose values are elsewhere, and copies of modules with such in place of their own."""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import Any

from shardwise.backend.array import Array, DTypeLike, Shape
from shardwise.backend.device import Device
from shardwise.backend.errors import ScheduleError
from shardwise.backend.shape import ShapeArray
from shardwise.nn import Module
from shardwise.tensor import Context, Function, Tensor
from shardwise.tensor.function import Gradients

__all__ = ["Absent", "Receive", "become", "copy_keeping", "is_absent"]


class Absent(Tensor):
    """A tensor of which shape, dtype and device are known, and whose values another stage has.

    Unlike any other tensor without data it says that it is on the device where its values are, so that what
    is made beside it (``sw.arange(n, device=x.device)``) is made there, and has values.

    Examples
    --------
    >>> x = Absent((2, 3), "float32", "cpu")
    >>> (x @ x.T).shape, str(x.device)
    ((2, 2), 'cpu')
    """

    def __init__(self, shape: Shape, dtype: DTypeLike, place: str) -> None:
        super().__init__(_array(shape, dtype))
        self.place = place

    @property
    def device(self) -> Device:
        """Where its values are."""
        return Device(self.place)

    @property
    def is_meta(self) -> bool:
        """True: there is no memory to be asked about."""
        return True

    def __repr__(self) -> str:
        return f"Absent(shape={self.shape}, dtype={self.dtype}, device={self.place!r})"

    def wrap(self, array: Array) -> Tensor:
        """Make a tensor, without history, of an array: as absent as this one, if the array has no data."""
        if not isinstance(array, ShapeArray):
            return super().wrap(array)
        out: Any = object.__new__(Absent)
        out.data, out.place = array, self.place
        tensor: Tensor = out
        return tensor


class Receive(Function):
    """The same array, as the result of an op: a leaf that others hold stays as it is."""

    signature = "*"
    exact = True

    @staticmethod
    def forward(ctx: Context, x: Array) -> Array:
        return x

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (g,)


def is_absent(value: object) -> bool:
    """Tell whether a value is an array without data, or a tensor over one."""
    return isinstance(value, ShapeArray) or (isinstance(value, Tensor) and isinstance(value.data, ShapeArray))


def become(tensor: Tensor, other: Tensor) -> None:
    """Make `tensor` what `other` is, values and history, for all who hold it."""
    tensor.__class__ = type(other)
    state = vars(tensor)
    state.clear()
    state.update(vars(other))


def copy_keeping(module: Module, kept: Collection[int], device: str) -> Module:
    """Copy a tree of modules, but not its tensors: some stay the same objects, all others become absent.

    Parameters
    ----------
    module : Module
    kept : collection of int
        The ``id`` of each parameter and buffer that the copy shares with `module`.
    device : str
        Where the values of tensors without data will be.
    """
    memo: dict[int, Any] = {}
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if hasattr(tensor.data, "layout"):
            raise ScheduleError(
                f"{name} is sharded already; split the model into stages first, then shard each stage"
            )
        memo[id(tensor)] = tensor if id(tensor) in kept else _like(tensor, device)
    try:
        return copy.deepcopy(module, memo)
    except TypeError as error:
        raise ScheduleError(
            f"cannot copy {type(module).__name__} to split it: {error}. Keep what cannot be copied out of "
            "the attributes of its modules, or give it a __deepcopy__ that returns it"
        ) from error


def _like(tensor: Tensor, device: str) -> Absent:
    place = device if is_absent(tensor) else str(tensor.device)
    absent = Absent(tensor.shape, tensor.dtype, place)
    absent.requires_grad = tensor.requires_grad
    return absent


def _array(shape: Shape, dtype: DTypeLike) -> Any:
    return ShapeArray(shape, dtype)
