"""Finding values: in sorted sequences, in sets, and those that are not zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.letter import LETTERS

__all__ = ["Bincount", "Distinct", "IsIn", "Nonzero", "SearchSorted"]


def _search_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    """Give ``"s,ab->ab"`` for one sorted row, ``"as,ab->ab"`` for as many as rows of values."""
    rows, values = len(shapes[0]) - 1, len(shapes[1])
    letters = LETTERS[:values]
    return f"{letters[:rows]}{LETTERS[values]},{letters}->{letters}"


class SearchSorted(Function):
    """Where values would go into sorted rows, before those that are equal or, if `right`, behind them."""

    signature = _search_signature
    reduces = "sum"  # a place is the number of elements before it

    @staticmethod
    def forward(ctx: Context, ordered: Array, values: Array, right: bool = False) -> Array:
        if ordered.ndim == 1:
            return np.searchsorted(ordered, values, side="right" if right else "left")
        return _row_by_row(ordered, values, right)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return None, None


def _row_by_row(ordered: Array, values: Array, right: bool) -> Array:
    """Halve all rows' intervals at once."""
    count = ordered.shape[-1]
    low = np.zeros_like(values, dtype=np.int64)
    high = np.full_like(low, count)
    for _ in range(count.bit_length()):
        middle = (low + high) // 2
        at = np.take_along_axis(ordered, np.minimum(middle, count - 1), axis=-1)
        # NaN goes behind all others, as in NumPy's own search.
        if right:
            behind = (at <= values) | (values != values)
        else:
            behind = (at < values) | ((values != values) & (at == at))
        behind = behind & (low < high)
        low, high = np.where(behind, middle + 1, low), np.where(behind, high, middle)
    return low


def _membership_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    """Give ``"ab,[c][d]->ab"``: each element is looked for in the whole set."""
    elements, test = len(shapes[0]), len(shapes[1])
    whole = "".join(f"[{c}]" for c in LETTERS[elements : elements + test])
    return f"{LETTERS[:elements]},{whole}->{LETTERS[:elements]}"


class IsIn(Function):
    """Whether each element is among `test`."""

    signature = _membership_signature

    @staticmethod
    def forward(
        ctx: Context, elements: Array, test: Array, assume_unique: bool = False, invert: bool = False
    ) -> Array:
        return np.isin(elements, test, assume_unique=assume_unique, invert=invert)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return None, None


def _found_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    ndim = len(shapes[0])
    whole = "".join(f"[{c}]" for c in LETTERS[:ndim])
    return f"{whole}->[{LETTERS[ndim]}][{LETTERS[ndim + 1]}]"


class Nonzero(Function):
    """The indices of the elements that are not zero, a row for each, in C order; int64."""

    signature = _found_signature
    exact = True

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        if a.ndim == 0:
            return np.reshape(np.nonzero(np.reshape(a, (1,)))[0], (-1, 1))[:, :0]
        return np.stack(np.nonzero(a), axis=1)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (None,)


def _distinct_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    ndim = len(shapes[0])
    whole = "".join(f"[{c}]" for c in LETTERS[:ndim])
    found, along = f"[{LETTERS[ndim]}]", f"[{LETTERS[ndim + 1]}]"
    return f"{whole}->{found},{along},{found}"


class Distinct(Function):
    """Where the different slices along `dim` first appear, which of them each is, and how often each is.

    They come sorted, or, if `consecutive`, in the order in which they stand, each run for itself.
    NaN differs from NaN unless `equal_nan` says otherwise.
    """

    signature = _distinct_signature

    @staticmethod
    def forward(
        ctx: Context, a: Array, dim: int = 0, consecutive: bool = False, equal_nan: bool = False
    ) -> tuple[Array, Array, Array]:
        if consecutive:
            return _runs(a, dim)
        _, first, inverse, counts = np.unique(
            a,
            return_index=True,
            return_inverse=True,
            return_counts=True,
            axis=None if a.ndim == 1 else dim,
            equal_nan=equal_nan,
        )
        return first, np.reshape(inverse, (a.shape[dim],)), counts

    @staticmethod
    def backward(ctx: Context, *grads: Array) -> Gradients:
        return (None,)


def _runs(a: Array, dim: int) -> tuple[Array, Array, Array]:
    before, count = (slice(None),) * dim, a.shape[dim]
    others = tuple([d for d in range(a.ndim) if d != dim])
    changed = np.any(a[(*before, slice(1, None))] != a[(*before, slice(None, -1))], axis=others)
    starts = np.concatenate((np.ones_like(changed, shape=(min(count, 1),)), changed))
    (first,) = np.nonzero(starts)
    ends = np.concatenate((first[1:], np.full_like(first, count, shape=(min(count, 1),))))
    return first, np.cumsum(starts) - 1, ends - first


def _count_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    return "[n],[n]->[b]" if len(shapes) > 1 else "[n]->[b]"


class Bincount(Function):
    """How often each integer occurs, or the sum of its weights."""

    signature = _count_signature

    @staticmethod
    def forward(ctx: Context, a: Array, weights: Array | None = None, minlength: int = 0) -> Array:
        ctx.save(a)
        counts = np.bincount(a, weights, minlength)
        return counts if weights is None or weights.dtype.kind != "f" else counts.astype(weights.dtype)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return None, np.take(g, a, axis=0)
