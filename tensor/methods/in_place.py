"""Writing into a tensor's memory, watched: versions, views, and the in-place methods."""

from __future__ import annotations

import weakref
from typing import Any, Self

import numpy as np

from shardwise.backend.errors import AutogradError, DTypeError, ShapeError
from shardwise.tensor.function import Function
from shardwise.tensor.methods.carrier import Carrier, Operand
from shardwise.tensor.mode import current_mode
from shardwise.tensor.ops import arithmetic, view
from shardwise.tensor.tape import Version

__all__ = ["InPlace"]


class InPlace(Carrier):
    """What changes a tensor."""

    _version: Version | None = None
    _view: bool = False

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
        if len(views) >= 8:
            views[:] = [view for view in views if view() is not None]
        if not views:
            views.append(weakref.ref(base))
        views.append(weakref.ref(self))

    def _shared(self) -> bool:
        """Tell whether another living tensor looks at this memory."""
        others = [view() for view in self.version.views]
        return any(other is not None and other is not self for other in others)

    def _tracked(self, name: str, *others: Any) -> bool:
        """Tell whether writing `others` into this tensor goes on the tape.

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
                f"cannot write in place ({name}) into a leaf that requires grad. Write under "
                "no_grad(), or use the out-of-place form."
            )
        # The write would be on the tape of this tensor alone, and the others would lose its gradient.
        if self._shared():
            what = "view of another tensor" if self._view else "tensor with views"
            raise AutogradError(
                f"cannot write in place ({name}) into a {what} on the tape. clone() it first, or drop "
                "the others that look at its memory."
            )
        return True

    def _follow(self, out: Any) -> None:
        """Take the place of `out`, of whose values this memory now is, on the tape."""
        if isinstance(out, InPlace):
            self.node, self.index, self.requires_grad = out.node, out.index, out.requires_grad
        else:  # a constant: nothing flows back any more
            self.node, self.index, self.requires_grad = None, 0, False

    def _write(self, function: type[Function] | None, value: Any, *rest: Any, **params: Any) -> Self:
        """Write ``function(self, value, *rest, **params)`` into this tensor's memory, on the tape."""
        name = function.__name__ if function is not None else "copy_"
        tracked = self._tracked(name, value, *rest)
        out: Any
        if function is None:
            out = value
            if tracked and isinstance(value, InPlace):
                out = arithmetic.Clone.apply(view.Expand.apply(value, shape=self.data.shape))
        else:
            out = function.apply(self, value, *rest, **params)
        array = out.data if isinstance(out, InPlace) else out
        shape = getattr(array, "shape", ())
        if shape != self.data.shape and (
            len(shape) > self.data.ndim or np.broadcast_shapes(shape, self.data.shape) != self.data.shape
        ):
            raise ShapeError(f"cannot write a result of shape {shape} in place into shape {self.data.shape}")
        source = getattr(array, "dtype", None)
        if source is not None and not np.can_cast(source, self.data.dtype, "same_kind"):
            raise DTypeError(
                f"cannot write {source} in place into {self.data.dtype}; cast with astype() first"
            )
        self.data[...] = array
        self.version.count += 1
        if tracked:
            self._follow(out)
        return self

    def add_(self, other: Operand, alpha: float = 1) -> Self:
        """Add in place."""
        addend: Any = other
        return self._write(arithmetic.Add, addend if alpha == 1 else addend * alpha)

    def sub_(self, other: Operand) -> Self:
        """Subtract in place."""
        return self._write(arithmetic.Sub, other)

    def mul_(self, other: Operand) -> Self:
        """Multiply in place."""
        return self._write(arithmetic.Mul, other)

    def div_(self, other: Operand) -> Self:
        """Divide in place."""
        return self._write(arithmetic.Div, other)

    def copy_(self, other: Operand) -> Self:
        """Take over the values of `other`, in place."""
        return self._write(None, other)

    def fill_(self, value: float) -> Self:
        """Set every element."""
        return self._write(None, value)

    def zero_(self) -> Self:
        """Set every element to zero."""
        return self._write(None, 0)

    def __iadd__(self, other: Operand) -> Self:
        return self.add_(other)

    def __isub__(self, other: Operand) -> Self:
        return self.sub_(other)

    def __imul__(self, other: Operand) -> Self:
        return self.mul_(other)

    def __itruediv__(self, other: Operand) -> Self:
        return self.div_(other)
