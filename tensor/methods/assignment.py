"""Writing into chosen places of a tensor: assignment by index, and the in-place forms of scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np

from shardwise.backend.errors import ArgumentError, DTypeError, IndexRangeError
from shardwise.tensor.methods.carrier import Carrier
from shardwise.tensor.methods.in_place import InPlace
from shardwise.tensor.methods.scattering import Number, Reduce, Scattering, Values
from shardwise.tensor.methods.selection import Places, index_error
from shardwise.tensor.ops import index as indexing
from shardwise.tensor.ops.key import is_basic, plain_index

__all__ = ["Assignment"]


class Assignment(Scattering, InPlace):
    """What changes some elements of a tensor."""

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write `value`, which broadcasts, to what an index selects; see `__getitem__` for the rules.

        It goes on the tape: what is overwritten loses its gradient, and `value` gets one. Where a place
        is named twice, the last value stays, and has the gradient.

        Raises
        ------
        AutogradError
            This is a leaf that requires grad, or another tensor looks at the memory that would be tracked.
        """
        plain = self._with_arrays_here(plain_index(key))
        if not hasattr(value, "dtype") and isinstance(value, Sequence):
            value = np.asarray(value)
        if not isinstance(value, Carrier):
            value = self._with_arrays_here(value)
        dtype = getattr(value.data if isinstance(value, Carrier) else value, "dtype", np.asarray(0).dtype)
        if self.data.dtype.kind != "c" and (dtype.kind == "c" or isinstance(value, complex)):
            raise DTypeError(
                f"cannot assign complex numbers to {self.data.dtype}; take their real part first"
            )
        if isinstance(self.data, np.ndarray) and not self.data.flags.writeable:
            raise ArgumentError(
                "cannot write into a tensor whose memory is read-only, as that of an expanded one is; "
                "clone() it first"
            )
        tracked = self._tracked("assignment by index", value, region=self._region(plain))
        try:
            out = indexing.IndexPut.apply(self, value, index=plain, in_place=True)
        except IndexRangeError:
            raise
        except IndexError as error:
            raise index_error("assignment to", self.data.shape, error) from error
        self.version.count += 1
        if tracked:
            self._follow(out)

    def _region(self, key: Any) -> Any:
        """Return the memory that an index chooses, if others look at this tensor's; None if it is unknown.

        So ``x[0] = x[1]`` may be written: who looks at other rows loses nothing.
        """
        data: Any = self.data
        if not self.version.views or not isinstance(data, np.ndarray) or not is_basic(key):
            return None
        parts = key if type(key) is tuple else (key,)
        try:
            return data[parts if Ellipsis in parts else (*parts, ...)]
        except IndexError:
            return None  # the assignment itself will say why

    def scatter_(
        self, dim: int, index: Places, src: Values | Number | None = None, *, value: Number | None = None,
        reduce: Literal["add", "multiply"] | None = None,
    ) -> Self:  # fmt: skip
        """Do in place what `scatter` does."""
        tracked = self._tracked("scatter_", src)
        return self._put("scatter_", self.scatter(dim, index, src, value=value, reduce=reduce), tracked)

    def scatter_add_(self, dim: int, index: Places, src: Values) -> Self:
        """Do in place what `scatter_add` does."""
        tracked = self._tracked("scatter_add_", src)
        return self._put("scatter_add_", self.scatter_add(dim, index, src), tracked)

    def scatter_reduce_(
        self, dim: int, index: Places, src: Values | Number, reduce: Reduce, *, include_self: bool = True
    ) -> Self:
        """Do in place what `scatter_reduce` does."""
        tracked = self._tracked("scatter_reduce_", src)
        out = self.scatter_reduce(dim, index, src, reduce, include_self=include_self)
        return self._put("scatter_reduce_", out, tracked)

    def index_add_(self, dim: int, index: Places, source: Values, *, alpha: Number = 1) -> Self:
        """Do in place what `index_add` does."""
        tracked = self._tracked("index_add_", source)
        return self._put("index_add_", self.index_add(dim, index, source, alpha=alpha), tracked)

    def index_copy_(self, dim: int, index: Places, source: Values) -> Self:
        """Do in place what `index_copy` does."""
        tracked = self._tracked("index_copy_", source)
        return self._put("index_copy_", self.index_copy(dim, index, source), tracked)

    def index_fill_(self, dim: int, index: Places, value: Carrier | Number) -> Self:
        """Do in place what `index_fill` does."""
        tracked = self._tracked("index_fill_", value)
        return self._put("index_fill_", self.index_fill(dim, index, value), tracked)

    def masked_scatter_(self, mask: Values, source: Values) -> Self:
        """Do in place what `masked_scatter` does; the mask must not be larger than this tensor."""
        tracked = self._tracked("masked_scatter_", source)
        return self._put("masked_scatter_", self.masked_scatter(mask, source), tracked)

    def put_(self, index: Places, source: Values, accumulate: bool = False) -> Self:
        """Do in place what `put` does."""
        tracked = self._tracked("put_", source)
        return self._put("put_", self.put(index, source, accumulate), tracked)

    def index_put_(self, indices: Sequence[Any], values: Values | Number, accumulate: bool = False) -> Self:
        """Do in place what `index_put` does."""
        tracked = self._tracked("index_put_", values)
        return self._put("index_put_", self.index_put(indices, values, accumulate), tracked)
