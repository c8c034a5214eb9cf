"""Layers that pad the ends of spatial dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from shardwise.backend.errors import ArgumentError
from shardwise.nn.functions.padding import PadMode, pad
from shardwise.nn.functions.spatial import Sizes
from shardwise.nn.module import Module
from shardwise.tensor import Tensor

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d",
    "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class _Pad(Module):
    """How much is added to `ndim` dims, and of what."""

    ndim: ClassVar[int]
    mode: ClassVar[PadMode]

    def __init__(self, padding: Sizes) -> None:
        super().__init__()
        given = tuple(padding) if isinstance(padding, Sequence) else (padding,) * (2 * self.ndim)
        if len(given) != 2 * self.ndim:
            raise ArgumentError(
                f"{type(self).__name__}: padding must be an integer or {2 * self.ndim} of them, "
                f"(before, after) of the last dim first; got {padding!r}"
            )
        self.padding = given

    def forward(self, input: Tensor) -> Tensor:
        """Pad the last dims."""
        return pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        """Show how much."""
        return f"{self.padding}"


class _ConstantPad(_Pad):
    """Pad with one number."""

    mode = "constant"

    def __init__(self, padding: Sizes, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Pad the last dims."""
        return pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        """Show how much, and of what."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """Continue the last dim by one number.

    Parameters
    ----------
    padding : int or tuple of int
        On all sides, or (before, after) of the last dim, then of the one in front of it.
    value : float
    """

    ndim = 1


class ConstantPad2d(_ConstantPad):
    """Continue the last two dims by one number.

    Parameters
    ----------
    padding : int or tuple of int
        On all sides, or (before, after) of the last dim, then of the one in front of it.
    value : float
    """

    ndim = 2


class ConstantPad3d(_ConstantPad):
    """Continue the last three dims by one number.

    Parameters
    ----------
    padding : int or tuple of int
        On all sides, or (before, after) of the last dim, then of the one in front of it.
    value : float
    """

    ndim = 3


class ZeroPad1d(_Pad):
    """Continue the last dim by zeros.

    Parameters
    ----------
    padding : int or tuple of int
        On all sides, or (before, after) of the last dim, then of the one in front of it.
    """

    ndim = 1
    mode = "constant"


class ZeroPad2d(_Pad):
    """Continue the last two dims by zeros.

    Parameters
    ----------
    padding : int or tuple of int
        On all sides, or (before, after) of the last dim, then of the one in front of it.
    """

    ndim = 2
    mode = "constant"


class ZeroPad3d(_Pad):
    """Continue the last three dims by zeros.

    Parameters
    ----------
    padding : int or tuple of int
        On all sides, or (before, after) of the last dim, then of the one in front of it.
    """

    ndim = 3
    mode = "constant"


class ReflectionPad1d(_Pad):
    """Continue the last dim by the elements inside, mirrored at the last.

    Parameters
    ----------
    padding : int or tuple of int
        On all sides, or (before, after) of the last dim, then of the one in front of it.
    """

    ndim = 1
    mode = "reflect"


class ReflectionPad2d(_Pad):
    """Continue the last two dims by the elements inside, mirrored at the last.

    Parameters
    ----------
    padding : int or tuple of int
        On all sides, or (before, after) of the last dim, then of the one in front of it.
    """

    ndim = 2
    mode = "reflect"


class ReflectionPad3d(_Pad):
    """Continue the last three dims by the elements inside, mirrored at the last.

    Parameters
    ----------
    padding : int or tuple of int
        On all sides, or (before, after) of the last dim, then of the one in front of it.
    """

    ndim = 3
    mode = "reflect"


class ReplicationPad1d(_Pad):
    """Continue the last dim by the last element.

    Parameters
    ----------
    padding : int or tuple of int
        On all sides, or (before, after) of the last dim, then of the one in front of it.
    """

    ndim = 1
    mode = "replicate"


class ReplicationPad2d(_Pad):
    """Continue the last two dims by the last element.

    Parameters
    ----------
    padding : int or tuple of int
        On all sides, or (before, after) of the last dim, then of the one in front of it.
    """

    ndim = 2
    mode = "replicate"


class ReplicationPad3d(_Pad):
    """Continue the last three dims by the last element.

    Parameters
    ----------
    padding : int or tuple of int
        On all sides, or (before, after) of the last dim, then of the one in front of it.
    """

    ndim = 3
    mode = "replicate"


class CircularPad1d(_Pad):
    """Continue the last dim by what is at the other end.

    Parameters
    ----------
    padding : int or tuple of int
        On all sides, or (before, after) of the last dim, then of the one in front of it.
    """

    ndim = 1
    mode = "circular"


class CircularPad2d(_Pad):
    """Continue the last two dims by what is at the other end.

    Parameters
    ----------
    padding : int or tuple of int
        On all sides, or (before, after) of the last dim, then of the one in front of it.
    """

    ndim = 2
    mode = "circular"


class CircularPad3d(_Pad):
    """Continue the last three dims by what is at the other end.

    Parameters
    ----------
    padding : int or tuple of int
        On all sides, or (before, after) of the last dim, then of the one in front of it.
    """

    ndim = 3
    mode = "circular"
