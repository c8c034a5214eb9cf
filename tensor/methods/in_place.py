"""Writing into a tensor's memory, watched: versions, views, and the in-place methods."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import AutogradError, DTypeError, ShapeError
from shardwise.tensor.function import Function
from shardwise.tensor.methods.carrier import Carrier, Operand
from shardwise.tensor.mode import current_mode
from shardwise.tensor.ops import arithmetic, bitwise, power, view
from shardwise.tensor.part import part_of
from shardwise.tensor.signature import Part
from shardwise.tensor.tape import Node, Version

__all__ = ["InPlace"]


class InPlace(Carrier):
    """What changes a tensor."""

    _version: Version | None = None
    _view: bool = False

    def _parted(self, make: Callable[[Part, Array], Array]) -> Array:
        """Return an array that lies as this tensor's does: ``make(part, local)`` for every part of it."""
        return make(part_of(self.data.shape), self.data)

    # ---- versions and views

    @property
    def version(self) -> Version:
        """The counter of writes into this tensor's memory, shared with its views."""
        if self._version is None:
            self._version = Version()
        return self._version

    def look_at(self, base: InPlace) -> None:
        """Become a view of `base`: share its version, and be known to all who look at the memory."""
        version = self._version = base.version
        self._view = True
        views = version.views
        if len(views) >= version.crowd:  # looked through in ever longer intervals, if many are alive
            views[:] = [view for view in views if view() is not None]
            version.crowd = max(8, 2 * len(views))
        if not views:
            views.append(weakref.ref(base))
        views.append(weakref.ref(self))

    def _shared(self, region: Array | None = None) -> bool:
        """Tell whether another living tensor looks at this memory, or at `region`, a part of it."""
        views: list[Any] = [view() for view in self.version.views]
        others = [view for view in views if view is not None and view is not self]
        return any(region is None or np.shares_memory(other.data, region) for other in others)

    def _tracked(self, name: str, *others: Any, region: Array | None = None) -> bool:
        """Tell whether writing `others` into this tensor, or into `region` of it, goes on the tape.

        Raises
        ------
        AutogradError
            It would, and must not: into a leaf, or into memory that another tensor looks at.
        """
        if not current_mode().grad or not (
            self.requires_grad or any(isinstance(v, InPlace) and v.requires_grad for v in others)
        ):
            return False
        if self.node is None and self.requires_grad:
            raise AutogradError(
                f"cannot write in place ({name}) into a leaf of shape {self.data.shape} that requires grad. "
                "Write under no_grad(), or use the out-of-place form."
            )
        # The write would be on the tape of this tensor alone, and the others would lose its gradient.
        if self._shared(region):
            what, instead = "tensor with views", ""
            if self._view:
                what, instead = "view of another tensor", "Write x[i] = x[i] + y in place of x[i] += y; else "
            raise AutogradError(
                f"cannot write in place ({name}) into a {what} on the tape, of shape {self.data.shape}. "
                f"{instead}clone() it first, or drop the others that look at its memory."
            )
        return True

    def _follow(self, out: Any) -> None:
        """Take the place of `out`, of whose values this memory now is, on the tape."""
        if isinstance(out, InPlace):
            self.node, self.index, self.requires_grad = out.node, out.index, out.requires_grad
        else:  # a constant: nothing flows back any more
            self.node, self.index, self.requires_grad = None, 0, False

    def _write(self, function: type[Function], *others: Any, **params: Any) -> Self:
        """Write ``function(self, *others, **params)`` into this tensor's memory, on the tape."""
        name = function.__name__
        tracked = self._tracked(name, *others)
        source: InPlace = self
        if tracked and current_mode().saver is not None:
            # recompute() takes what an op saves before `_put` could spare it: the op gets a copy to save.
            source = arithmetic.Clone.apply(self)
            others = tuple([source if other is self else other for other in others])
        return self._put(name, function.apply(source, *others, **params), tracked)

    def _put(self, name: str, out: Any, tracked: bool) -> Self:
        """Write `out`, the result of an op or a plain value, and take its place on the tape."""
        array = out.data if isinstance(out, InPlace) else out
        shape, dtype = getattr(array, "shape", ()), self.data.dtype
        if shape != self.data.shape and not _fits(shape, self.data.shape):
            raise ShapeError(
                f"cannot write a result of shape {shape} in place ({name}) into shape {self.data.shape}"
            )
        source = getattr(array, "dtype", np.dtype(complex) if type(array) is complex else dtype)
        if source != dtype and not _narrows(source, dtype):
            raise DTypeError(
                f"cannot write {source} in place ({name}) into {dtype}; cast with astype() first, or use "
                "the out-of-place form"
            )
        if tracked and isinstance(out, InPlace) and out.node is not None:
            _spare(out.node, getattr(self.data, "local", self.data))
        self.data[...] = array
        self.version.count += 1
        if tracked:
            self._follow(out)
        return self

    def copy_(self, src: Operand, non_blocking: bool = False) -> Self:
        """Take over the values of `src`, which broadcasts; the dtype stays.

        `non_blocking` is taken for PyTorch's sake: the order of copies is that of the device's stream.

        Raises
        ------
        DTypeError
            If values would be cut: floats into integers, complex numbers into floats.
        """
        tracked = self._tracked("copy_", src)
        out: Any = src
        if tracked and isinstance(src, InPlace):
            out = arithmetic.Clone.apply(view.Expand.apply(src, shape=self.data.shape))
        return self._put("copy_", out, tracked)

    def detach_(self) -> Self:
        """Leave the tape: the values stay, the history goes.

        Raises
        ------
        AutogradError
            Other tensors look at the same memory.
        """
        if self.node is not None and self._shared():
            raise AutogradError(
                "detach_: other tensors look at this memory and are on its tape; use detach(), which gives "
                "another tensor"
            )
        self._follow(None)
        return self

    def fill_(self, value: Operand) -> Self:
        """Set every element to a number, or a tensor without dims."""
        return self.copy_(value)

    def zero_(self) -> Self:
        """Set every element to zero."""
        return self.copy_(0)

    # ---- arithmetic

    def add_(self, other: Operand, *, alpha: complex = 1) -> Self:
        """Add ``alpha * other`` in place."""
        return self._write(arithmetic.Add, _scaled(other, alpha))

    def sub_(self, other: Operand, *, alpha: complex = 1) -> Self:
        """Subtract ``alpha * other`` in place."""
        return self._write(arithmetic.Sub, _scaled(other, alpha))

    def mul_(self, other: Operand) -> Self:
        """Multiply in place."""
        return self._write(arithmetic.Mul, other)

    def div_(self, other: Operand, *, rounding_mode: Literal["trunc", "floor"] | None = None) -> Self:
        """Divide in place, rounding towards zero (``"trunc"``) or down (``"floor"``) if asked."""
        return self._write(arithmetic.quotient(rounding_mode), other)

    subtract_, multiply_, divide_ = sub_, mul_, div_

    def true_divide_(self, other: Operand) -> Self:
        """Divide in place."""
        return self._write(arithmetic.Div, other)

    def floor_divide_(self, other: Operand) -> Self:
        """Divide in place, rounding down."""
        return self._write(arithmetic.FloorDiv, other)

    def remainder_(self, other: Operand) -> Self:
        """Replace each element by what a quotient rounded down leaves."""
        return self._write(arithmetic.Remainder, other)

    def fmod_(self, other: Operand) -> Self:
        """Replace each element by what a quotient rounded towards zero leaves."""
        return self._write(arithmetic.Fmod, other)

    def pow_(self, exponent: Operand) -> Self:
        """Raise each element to a power, in place."""
        return self._write(power.Pow, exponent)

    def __iadd__(self, other: Operand) -> Self:
        return self._write(arithmetic.Add, other)

    def __isub__(self, other: Operand) -> Self:
        return self._write(arithmetic.Sub, other)

    def __imul__(self, other: Operand) -> Self:
        return self._write(arithmetic.Mul, other)

    def __itruediv__(self, other: Operand) -> Self:
        return self._write(arithmetic.Div, other)

    def __ifloordiv__(self, other: Operand) -> Self:
        return self._write(arithmetic.FloorDiv, other)

    def __imod__(self, other: Operand) -> Self:
        return self._write(arithmetic.Remainder, other)

    def __ipow__(self, other: Operand) -> Self:
        return self._write(power.Pow, other)

    def __iand__(self, other: Operand) -> Self:
        return self._write(bitwise.BitwiseAnd, other)

    def __ior__(self, other: Operand) -> Self:
        return self._write(bitwise.BitwiseOr, other)

    def __ixor__(self, other: Operand) -> Self:
        return self._write(bitwise.BitwiseXor, other)

    def __ilshift__(self, other: Operand) -> Self:
        return self._write(bitwise.LeftShift, other)

    def __irshift__(self, other: Operand) -> Self:
        return self._write(bitwise.RightShift, other)


def _scaled(other: Any, alpha: complex) -> Any:
    return other if alpha == 1 else other * alpha


def _fits(shape: tuple[int, ...], into: tuple[int, ...]) -> bool:
    """Tell whether an array of `shape` broadcasts to the shape `into`."""
    tail = into[len(into) - len(shape) :]
    return len(shape) <= len(into) and all(n in (1, m) for n, m in zip(shape, tail, strict=True))


def _narrows(source: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """Tell whether values of `source` may be written into `dtype`: the kind stays, or gets wider."""
    if source.kind == "V" or dtype.kind == "V":  # bfloat16, of which NumPy does not know that it is a float
        source, dtype = (np.dtype(np.float32) if kind.kind == "V" else kind for kind in (source, dtype))
    return np.can_cast(source, dtype, "same_kind")


def _spare(node: Node, array: Array) -> None:
    """Give an op that saved `array` a copy of it: the array is about to be overwritten by its result."""
    saved: Any = node.saved
    if type(saved) is tuple and any(kept is array for kept in saved):
        copy = array.copy()
        pairs = zip(saved, node._versions, strict=True)
        node._versions = tuple([None if kept is array else version for kept, version in pairs])
        node.saved = tuple([copy if kept is array else kept for kept in saved])
