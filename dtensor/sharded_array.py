"""`ShardedArray`: the `data` of a `DTensor`: this rank's part, and the layout of the whole."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from shardwise.backend.array import Array, Shape
from shardwise.backend.errors import LayoutError
from shardwise.backend.protocol import Backend
from shardwise.backend.select import backend_of
from shardwise.dtensor.layout import Layout
from shardwise.tensor.mode import override
from shardwise.tensor.tensor import Tensor

__all__ = ["ShardedArray", "ShardedBackend", "is_coming", "kept_array", "may_overlap"]

_LIKE = frozenset({np.zeros_like, np.ones_like, np.empty_like})


class ShardedArray(NDArrayOperatorsMixin):
    """An array of which this rank holds a part.

    Shape, dtype and size are those of the whole, so that code which only asks for these, as the engine and
    the methods of `Tensor` do, works on it unchanged. What computes with the values and is not an op gets the
    whole, gathered for it: a part is never taken for the whole.

    Parameters
    ----------
    local : Array
        Of the shape ``layout.local_shape(coordinate)``.
    layout : Layout
    """

    __slots__ = ("layout", "local", "pending")
    tensor_class: Callable[[Any], Any]  # DTensor, once it is there
    pending: Any  # what gives `local` when asked: a change of layout that goes on, or a copy that may be old
    relaid: Callable[..., list[Any]]  # `move.all_moved`, which stands on this

    def __init__(self, local: Array, layout: Layout) -> None:
        self.local = local
        self.layout = layout

    # ---- facts of the whole

    @property
    def shape(self) -> Shape:
        """Sizes of the dims of the whole."""
        return self.layout.shape

    @property
    def ndim(self) -> int:
        """Number of dims."""
        return self.layout.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return self.layout.dtype

    @property
    def size(self) -> int:
        """Number of elements of the whole."""
        return self.layout.numel

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.layout.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the whole."""
        return self.layout.numel * self.layout.dtype.itemsize

    @property
    def strides(self) -> Shape:
        """Bytes from one element of a dim to the next, in the whole as one rank would get it."""
        steps = [self.itemsize]
        for n in reversed(self.shape[1:]):
            steps.append(steps[-1] * n)
        return tuple(reversed(steps[: self.ndim]))

    @property
    def real(self) -> ShardedArray:
        """The real part."""
        return self._parted(np.real)

    @property
    def imag(self) -> ShardedArray:
        """The imaginary part."""
        return self._parted(np.imag)

    @property
    def flags(self) -> Any:
        """How this rank's part lies in memory."""
        return self.local.flags

    @property
    def base(self) -> Any:
        """What the memory belongs to: never to this object alone, since others may wrap the same part.

        Whoever looks for memory does not read values: nothing is waited for, and copies may be old.
        """
        kept = kept_array(self)
        return getattr(kept, "local", kept)

    # ---- what the engine does with gradients

    def copy(self) -> ShardedArray:
        """Return the same values in memory of their own."""
        return ShardedArray(self.local.copy(), self.layout)

    def __add__(self, other: Any) -> ShardedArray:
        if not isinstance(other, ShardedArray):
            return self._on_replicas(operator.add, (self, other), {})  # type: ignore[no-any-return]
        if self.layout is other.layout:
            return ShardedArray(np.asarray(self.local + other.local), self.layout)
        with override(grad=False):
            tensors = [ShardedArray.tensor_class(each) for each in (self, other)]
            total: ShardedArray = (tensors[0] + tensors[1]).data
        return total

    def astype(self, dtype: Any, copy: bool = True) -> ShardedArray:
        """Return the same values as another dtype; terms of a sum may be cast too."""
        return ShardedArray(self.local.astype(dtype, copy=copy), self.layout.with_dtype(dtype))

    def __getattr__(self, name: str) -> Any:
        """Give the methods of arrays, of the whole; and the part itself, if it has not come yet."""
        if name == "local":  # the slot is empty
            pending = self.pending
            local = pending.wait()
            if not pending.stays:
                self.local = local
                del self.pending
            return local
        if name.startswith("_") or not callable(getattr(np.ndarray, name, None)):
            raise AttributeError(
                f"a ShardedArray has no attribute {name!r}; to_local() gives this rank's part"
            )
        return lambda *args, **kwargs: self._on_replicas(getattr(self.whole(), name), args, kwargs)

    def __bool__(self) -> bool:
        return bool(self.whole())

    def whole(self) -> Array:
        """Return the array of the whole, the same on all ranks, which must all call this."""
        if self.layout.is_replicated:
            return self.local
        whole: ShardedArray = ShardedArray.relaid([(self, self.layout.replicated())])[0]
        return whole.local

    def __iadd__(self, other: Any) -> Self:
        """Become the sum: in this memory if both lie alike, else in other memory, and in another layout."""
        if self.layout is other.layout:
            self.local += other.local
        else:
            total = self + other
            self.local, self.layout = total.local, total.layout
        return self

    def lies_like(self, leaf: Any) -> bool:
        """Tell whether this is laid out as the gradient of a leaf must be."""
        return leaf.keep_grad or self.layout is leaf.data.layout.reduced()

    @staticmethod
    def laid_like(grads: Sequence[ShardedArray], leaves: Sequence[Any]) -> list[ShardedArray]:
        """Return gradients laid out as their leaves are, with one collective for many where that can be."""
        pairs = [(grad, leaf.data.layout.reduced()) for grad, leaf in zip(grads, leaves, strict=True)]
        moved = ShardedArray.relaid(pairs, True)  # who asks for gradients asks for them where the leaves are
        # A slice of a replica is that replica's memory, which others may hold, or which may be read-only.
        return [
            new.copy() if may_overlap(new.local, old.local) else new
            for new, old in zip(moved, grads, strict=True)
        ]

    @property
    def is_terms(self) -> bool:
        """Whether the values are spread over terms of sums."""
        return bool(self.layout.partial)

    @staticmethod
    def reduced(arrays: Sequence[ShardedArray]) -> list[ShardedArray]:
        """Return arrays with their terms added up, with one collective for many where that can be."""
        return ShardedArray.relaid([(array, array.layout.reduced()) for array in arrays], True)

    def counted(self) -> tuple[Array, tuple[int, ...] | None]:
        """Return a part such that all ranks' parts together have each element once, and the ranks.

        None stands for the ranks where this one has all. Of replicas, the first rank along an axis has all
        and the others nothing.
        """
        layout = self.layout
        if layout.is_replicated or layout.mesh.size() == 1:
            return self.local, None
        if layout.partial:
            raise LayoutError(f"terms of sums cannot be counted; reduce them first: {layout!r}")
        mesh = layout.mesh
        here = mesh.get_coordinate()
        ranks = tuple(sorted(mesh.mesh.reshape(-1).tolist()))
        alike = [axis for axis, p in enumerate(layout.placements) if p.is_replicate()]
        if here is None or any(here[axis] for axis in alike):
            return self.local.reshape(-1)[:0], ranks
        return self.local, ranks

    def __setitem__(self, index: Any, value: Any) -> None:
        if index is not Ellipsis:
            raise LayoutError("a part of a sharded array cannot be written by index; write to the DTensor")
        if self.layout.partial and getattr(value, "size", 1) == 1 and not isinstance(value, ShardedArray):
            value = ShardedArray(np.full_like(self.local, value), self.layout.reduced())
        if isinstance(value, ShardedArray):
            source: Any = ShardedArray.tensor_class(value)
            if value.shape != self.shape:
                source = source.expand(self.shape)
            value = source.placed_as(self.layout).data.local
        elif getattr(value, "size", 1) != 1:
            raise LayoutError(
                f"cannot write an array of shape {value.shape} into a DTensor: does each rank give its "
                "part, or the whole? Write to to_local(), or give distribute_tensor(x, mesh, [Replicate()], "
                "src_data_rank=None)"
            )
        self.local[...] = value

    def __getitem__(self, index: Any) -> ShardedArray:
        if index is Ellipsis:
            return ShardedArray(self.local, self.layout)
        chosen: ShardedArray = self._on_replicas(operator.getitem, (self, index), {})
        return chosen

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        if any(isinstance(each, Tensor) for each in inputs):
            return NotImplemented  # tensors take sharded arrays for constants, and know the tape
        if ufunc is np.add and out is not None and all(isinstance(each, ShardedArray) for each in inputs):
            if inputs[0] is out[0]:
                return inputs[0].__iadd__(inputs[1])
            total = inputs[0] + inputs[1]
            out[0].local, out[0].layout = total.local, total.layout
            return out[0]
        alike = self._alike(inputs if out is None else (*inputs, *out)) if method == "__call__" else None
        if alike is not None and ufunc.nout == 1:  # element by element, on the parts
            if out is not None:
                kwargs["out"] = out[0].local
            result = ufunc(*[getattr(each, "local", each) for each in inputs], **kwargs)
            result = np.asarray(result) if isinstance(result, np.generic) else result
            return out[0] if out is not None else ShardedArray(result, alike.with_dtype(result.dtype))
        if out is not None and not (len(out) == 1 and isinstance(out[0], ShardedArray)):
            raise LayoutError(f"{ufunc.__name__}: an input is sharded, and out= is not; leave out= out")
        result = self._on_replicas(getattr(ufunc, method), inputs, kwargs)
        if out is None:
            return result
        out[0][...] = result
        return out[0]

    @staticmethod
    def _alike(arrays: Sequence[Any]) -> Layout | None:
        """Return the layout if all are numbers, or arrays that lie alike and are no terms of sums."""
        layout: Layout | None = None
        for each in arrays:
            if isinstance(each, ShardedArray):
                own = each.layout
                if not own.shape and own.is_replicated:  # a number
                    continue
                same = layout is None or (own.order, own.shape, own.mesh) == (
                    layout.order, layout.shape, layout.mesh
                )  # fmt: skip
                if own.partial or not same or own.placements != (layout or own).placements:
                    return None
                layout = own
            elif not isinstance(each, (int, float, complex, np.generic)):
                return None
        return layout

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if len(types) > 1 and any(issubclass(kind, Tensor) for kind in types):
            return NotImplemented
        if function in _LIKE:
            return self._filled(function, (), *args[1:], **kwargs)
        if function is np.shape:
            return self.shape
        if function is np.ndim:
            return self.ndim
        if function is np.copyto and isinstance(args[0], ShardedArray):
            args[0][...] = args[1]
            return None
        if function is np.full_like:
            return self._filled(function, args[1:2], *args[2:], **kwargs)
        if function in (np.real, np.imag):
            return self._parted(function)
        if "like" in kwargs:
            return self._replica(function(*args, **{**kwargs, "like": self.local}))
        return self._on_replicas(function, args, kwargs)

    def __array_special__(self, function: Any, args: Any, kwargs: Any) -> Any:
        return self._on_replicas(function, args, kwargs)

    def _on_replicas(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Run a function on wholes, of which every rank gets a replica: for what is no op.

        Mostly these are the constants of formulas, which every rank holds; what lies in parts is gathered.
        """

        def local(value: Any) -> Any:
            if isinstance(value, ShardedArray):
                return value.whole()
            if isinstance(value, (tuple, list)):
                return type(value)(map(local, value))
            return value

        result = function(*local(args), **{name: local(value) for name, value in kwargs.items()})
        return tuple(map(self._replica, result)) if isinstance(result, tuple) else self._replica(result)

    def _replica(self, array: Any) -> Any:
        """Wrap an array that all ranks of the mesh hold; anything else stays as it is."""
        if not hasattr(array, "dtype"):
            return array
        mesh = self.layout.mesh
        array = np.asarray(array) if isinstance(array, np.generic) else array
        return ShardedArray(array, Layout(mesh, ("R",) * mesh.ndim, array.shape, array.dtype))

    @property
    def backend(self) -> Any:
        """That of this rank's part, but to the host comes the whole."""
        return ShardedBackend(self, backend_of(self.local))

    def _filled(
        self, function: Any, value: Any, dtype: Any = None, shape: Any = None, **_: Any
    ) -> ShardedArray:
        """Return zeros, ones or anything that lies as this does; of another shape, a replica."""
        layout = self.layout if dtype is None else self.layout.with_dtype(dtype)
        if shape is not None and tuple(shape) != layout.shape:
            whole = Layout(layout.mesh, ("R",) * layout.mesh.ndim, tuple(shape), layout.dtype)
            return ShardedArray(function(self.local, *value, dtype=whole.dtype, shape=whole.shape), whole)
        if layout.partial:
            layout = layout.reduced()
        return ShardedArray(function(self.local, *value, dtype=layout.dtype), layout)

    def _parted(self, function: Any) -> ShardedArray:
        """Return the real or imaginary part, which is taken of every element alike."""
        part = function(self.local)
        return ShardedArray(part, self.layout.with_dtype(part.dtype))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(backend_of(self.local).to_host(self.whole()), dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        local = "on its way" if is_coming(self) else list(self.local.shape)
        return f"ShardedArray({self.layout!r}, local={local})"


def kept_array(array: ShardedArray) -> Any:
    """Return what stands in the place of this rank's part: the part itself, or what gives it when asked."""
    try:
        return object.__getattribute__(array, "local")
    except AttributeError:
        return object.__getattribute__(array, "pending")


def is_coming(array: ShardedArray) -> bool:
    """Tell whether this rank's part is not there yet, because a change of layout goes on."""
    return getattr(kept_array(array), "stays", True) is False


def may_overlap(a: Any, b: Any) -> bool:
    """Tell whether two parts may lie in the same memory."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a is b or np.may_share_memory(a, b)
    return a is b or (a.base is not None and (a.base is b or a.base is b.base))


class ShardedBackend:
    """What methods ask of the place of a sharded array; see `backend.protocol`."""

    def __init__(self, array: ShardedArray, inner: Backend) -> None:
        self.array = array
        self.inner = inner
        self.name = inner.name

    def owns(self, array: object) -> bool:
        """Tell whether something is a sharded array."""
        return isinstance(array, ShardedArray)

    def device_of(self, array: ShardedArray) -> str:
        """Return where this rank's part is."""
        return self.inner.device_of(array.local)

    def asarray(self, obj: object, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return an array that all ranks hold as a replica."""
        return (
            obj
            if isinstance(obj, ShardedArray)
            else self.array._replica(self.inner.asarray(obj, dtype, copy))
        )

    def to_host(self, array: ShardedArray) -> Array:
        """Return the whole as a NumPy array, the same on all ranks."""
        return self.inner.to_host(array.whole())
