"""`Layout`: which part of a tensor each rank of a mesh holds. Pure arithmetic; nothing is sent."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

import numpy as np

from shardwise.backend.array import DTypeLike, Shape
from shardwise.backend.errors import LayoutError
from shardwise.dtensor.placement import (
    Partial,
    Placement,
    PlacementLike,
    Replicate,
    Shard,
    Spec,
    as_placement,
)
from shardwise.mesh import DeviceMesh

__all__ = ["Box", "Coordinate", "Layout", "Placements", "chunk_ranges", "read_placements"]

Coordinate: TypeAlias = tuple[int, ...]
Order: TypeAlias = tuple[tuple[int, ...], ...]
Ranges: TypeAlias = tuple[tuple[int, int], ...]
Placements: TypeAlias = PlacementLike | Sequence[PlacementLike] | Spec
"""One placement per mesh axis, or a `Spec`; on a mesh of one axis also the placement alone."""

_interned: WeakValueDictionary[Any, Layout] = WeakValueDictionary()
_lock = threading.Lock()


class Box(NamedTuple):
    """A rectangular part of a tensor: where it starts, and how large it is."""

    offset: Shape
    shape: Shape

    @property
    def slices(self) -> tuple[slice, ...]:
        """The index that takes it out of the whole."""
        return tuple([slice(at, at + n) for at, n in zip(self.offset, self.shape, strict=True)])


class Layout:
    """How a tensor of some shape and dtype lies on a mesh; frozen, and one object per value.

    Parameters
    ----------
    mesh : DeviceMesh
    placements : sequence of Placement, or Spec
        One per mesh axis. Where several axes shard one dim, the earlier one is the outer one; a `Spec` tells
        any other order.
    shape : tuple of int
        Of the whole tensor.
    dtype : dtype

    Attributes
    ----------
    placements : tuple of Placement
        One per mesh axis, dims counted from the front.
    order : tuple of tuple of int
        Per tensor dim, the mesh axes that shard it, the outermost first.
    plans : dict
        What `plan` has found for changes of this layout; it goes when the layout does.

    Examples
    --------
    >>> layout = Layout(DeviceMesh("cpu", [0]), ["S(0)"], (5, 7), "float32")
    >>> layout, layout.local_shape((0,))
    (Layout(float32[5, 7] on (1): S(0)), (5, 7))
    """

    __slots__ = (
        "__weakref__", "_boxes", "_ranges", "_sizes", "dtype", "is_plain", "mesh", "ndim", "order", "partial",
        "placements", "plans", "shape",
    )  # fmt: skip
    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    order: Order
    shape: Shape
    dtype: np.dtype[Any]
    ndim: int
    partial: tuple[int, ...]
    is_plain: bool
    plans: dict[Any, Any]

    def __new__(cls, mesh: DeviceMesh, placements: Placements, shape: Shape, dtype: DTypeLike) -> Layout:
        """Return the one layout of this value."""
        whole = tuple([int(n) for n in shape])
        kinds, order = read_placements(mesh, placements, len(whole))
        return cls.of(mesh, kinds, order, whole, np.dtype(dtype))

    if TYPE_CHECKING:  # for the pages, which look here for the parameters

        def __init__(
            self, mesh: DeviceMesh, placements: Placements, shape: Shape, dtype: DTypeLike
        ) -> None: ...

    @classmethod
    def of(
        cls,
        mesh: DeviceMesh,
        placements: tuple[Placement, ...],
        order: Order,
        shape: Shape,
        dtype: np.dtype[Any],
    ) -> Layout:
        """Return the one layout of placements that were read already; see `read_placements`."""
        key = (mesh, placements, order, shape, dtype)
        found = _interned.get(key)
        if found is None:
            made = object.__new__(cls)
            made._fill(mesh, placements, order, shape, dtype)
            key = (mesh, made.placements, order, shape, dtype)
            with _lock:
                found = _interned.setdefault(key, made)
        return found

    def _fill(
        self,
        mesh: DeviceMesh,
        placements: tuple[Placement, ...],
        order: Order,
        shape: Shape,
        dtype: np.dtype[Any],
    ) -> None:
        put = object.__setattr__
        ops = {p.reduce_op for p in placements if isinstance(p, Partial)}
        if len(ops) > 1 and not ops <= {"sum", "avg"}:
            raise LayoutError(
                f"a tensor cannot be {' and '.join(sorted(map(str, ops)))} at once: {list(placements)}; only "
                "sum and avg go together"
            )
        if "avg" in ops and dtype.kind in "iub":
            raise LayoutError(
                f"Partial(avg) of {dtype} has no exact value; use Partial(sum), or cast to a float"
            )
        plain = list(placements)
        given: list[tuple[int, ...] | None] = []
        for dim, axes in enumerate(order):
            sizes = _given_sizes(placements, axes)
            given.append(sizes)
            if sizes is None:
                continue
            even = chunk_ranges(shape[dim], [mesh.shape[axis] for axis in axes])
            if len(sizes) != len(even) or sum(sizes) != shape[dim]:
                raise LayoutError(
                    f"Shard({dim}, sizes={sizes}) of a dim of size {shape[dim]} over {len(even)} ranks: "
                    f"wanted {len(even)} sizes with the sum {shape[dim]}"
                )
            if sizes == tuple([stop - start for start, stop in even]):
                for axis in axes:
                    plain[axis] = Shard(dim)
                given[-1] = None
        put(self, "mesh", mesh)
        put(self, "placements", tuple(plain))
        put(self, "order", order)
        put(self, "shape", shape)
        put(self, "dtype", dtype)
        put(self, "ndim", len(shape))
        put(self, "_sizes", tuple(given))
        put(self, "_ranges", None)
        put(self, "partial", tuple([i for i, p in enumerate(plain) if isinstance(p, Partial)]))
        put(self, "is_plain", not any(given))
        put(self, "_boxes", {})
        put(self, "plans", {})

    _boxes: dict[Coordinate, Box]
    _ranges: tuple[Ranges, ...] | None
    _sizes: tuple[tuple[int, ...] | None, ...]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot set {name}: a Layout never changes; make another one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"cannot delete {name}: a Layout never changes; make another one")

    def __copy__(self) -> Layout:
        return self

    def __deepcopy__(self, memo: object) -> Layout:
        return self

    def __reduce__(self) -> Any:
        return Layout.of, (self.mesh, self.placements, self.order, self.shape, self.dtype)

    # ---- who holds what

    @property
    def ranges(self) -> tuple[Ranges, ...]:
        """Per tensor dim, start and stop of each piece, in the row-major order of the axes in `order`."""
        found = self._ranges
        if found is None:
            pieces = []
            for dim, axes in enumerate(self.order):
                sizes = self._sizes[dim]
                if sizes is None:
                    pieces.append(chunk_ranges(self.shape[dim], [self.mesh.shape[axis] for axis in axes]))
                else:
                    ends = list(itertools.accumulate(sizes))
                    pieces.append(tuple(zip([0, *ends[:-1]], ends, strict=True)))
            found = tuple(pieces)
            object.__setattr__(self, "_ranges", found)
        return found

    def _range(self, dim: int, coordinate: Coordinate) -> tuple[int, int]:
        # Cut axis by axis: a dim over thousands of ranks has thousands of pieces, of which few are asked for.
        axes, widths = self.order[dim], self.mesh.shape
        if self._sizes[dim] is not None:
            at = 0
            for axis in axes:
                at = at * widths[axis] + coordinate[axis]
            return self.ranges[dim][at]
        start, stop = 0, self.shape[dim]
        for axis in axes:
            step = -(-(stop - start) // widths[axis])
            start = min(start + coordinate[axis] * step, stop)
            stop = min(start + step, stop)
        return start, stop

    def box(self, coordinate: Coordinate) -> Box:
        """Return the part of the tensor at a coordinate of the mesh; it may be empty.

        A dim of which nothing is held starts at its end, as in ``offset=(5, 0), shape=(0, 7)``.
        """
        found = self._boxes.get(coordinate)
        if found is None:
            held = []
            for dim, length in enumerate(self.shape):
                start, stop = self._range(dim, coordinate)
                held.append((start if stop > start else length, stop - start))
            found = Box(tuple([at for at, _ in held]), tuple([n for _, n in held]))
            self._boxes[coordinate] = found
        return found

    def boxes(self, coordinate: Coordinate) -> tuple[Box, ...]:
        """Return the parts of the tensor at a coordinate that are not empty: one box, or none."""
        box = self.box(coordinate)
        return () if 0 in box.shape else (box,)

    def local_shape(self, coordinate: Coordinate | None) -> Shape:
        """Return the shape of the array at a coordinate; ``(0,)`` for ranks outside the mesh."""
        return (0,) if coordinate is None else self.box(coordinate).shape

    def local_offset(self, coordinate: Coordinate) -> Shape:
        """Return where the part at a coordinate starts in the whole."""
        return self.box(coordinate).offset

    def holders(self, index: Sequence[int]) -> tuple[Coordinate, ...]:
        """Return the coordinates that hold an element (under `Partial`: a term of it)."""
        place = self._place(index)
        free = [list(range(n)) for n in self.mesh.shape]
        for dim, axes in enumerate(self.order):
            if not axes:
                continue
            piece = next(i for i, (a, b) in enumerate(self.ranges[dim]) if a <= place[dim] < b)
            for axis, at in zip(
                axes, np.unravel_index(piece, [self.mesh.shape[a] for a in axes]), strict=True
            ):
                free[axis] = [int(at)]
        return tuple(itertools.product(*free))

    def owner(self, index: Sequence[int]) -> Coordinate:
        """Return the first coordinate that holds an element."""
        return self.holders(index)[0]

    def _place(self, index: Sequence[int]) -> Shape:
        if len(index) != self.ndim or not all(-n <= i < n for i, n in zip(index, self.shape, strict=True)):
            raise LayoutError(f"there is no element {tuple(index)} in a tensor of shape {self.shape}")
        return tuple([i % n for i, n in zip(index, self.shape, strict=True)])

    # ---- other layouts

    def with_placements(self, placements: Placements) -> Layout:
        """Return the layout of the same tensor with other placements."""
        return Layout(self.mesh, placements, self.shape, self.dtype)

    def with_dtype(self, dtype: DTypeLike) -> Layout:
        """Return the layout of a tensor of another dtype that lies alike."""
        return Layout.of(self.mesh, self.placements, self.order, self.shape, np.dtype(dtype))

    def replicated(self) -> Layout:
        """Return the layout in which every rank holds all."""
        return Layout.of(
            self.mesh, (Replicate(),) * self.mesh.ndim, ((),) * self.ndim, self.shape, self.dtype
        )

    def reduced(self) -> Layout:
        """Return the layout with Replicate in place of Partial: that of the gradient of such a tensor."""
        if not self.partial:
            return self
        kinds = tuple([Replicate() if isinstance(p, Partial) else p for p in self.placements])
        return Layout.of(self.mesh, kinds, self.order, self.shape, self.dtype)

    # ---- what it says of itself

    @property
    def is_replicated(self) -> bool:
        """Whether every rank holds all."""
        return not self.partial and not any(self.order)

    @property
    def numel(self) -> int:
        """Number of elements of the whole tensor."""
        return math.prod(self.shape)

    @property
    def spec(self) -> Spec:
        """The same told dim by dim, by the names of the axes where they have any."""
        names: Sequence[str | int] = self.mesh.mesh_dim_names or range(self.mesh.ndim)
        partial: Any = {
            name: p.reduce_op
            for name, p in zip(names, self.placements, strict=True)
            if isinstance(p, Partial)
        }
        return Spec(*[tuple([names[axis] for axis in axes]) for axes in self.order], partial=partial)

    def __str__(self) -> str:
        """Return the placements in short; ``S(0)#1`` is nested one deep, against the mesh's order."""
        words = []
        for axis, placement in enumerate(self.placements):
            word = str(placement)
            if isinstance(placement, Shard):
                axes = self.order[placement.dim]
                if axes != tuple(sorted(axes)):
                    word += f"#{axes.index(axis)}"
            words.append(word)
        return " ".join(words)

    def __repr__(self) -> str:
        names = self.mesh.mesh_dim_names
        sizes = self.mesh.shape
        where = ", ".join(
            [f"{a}={n}" for a, n in zip(names, sizes, strict=True)] if names else map(str, sizes)
        )
        return f"Layout({self.dtype}{list(self.shape)} on ({where}): {self})"


def chunk_ranges(n: int, widths: Sequence[int]) -> Ranges:
    """Cut `n` places over the ranks of some axes, one axis after the other, by the ceil rule.

    Returns
    -------
    tuple of (start, stop)
        One per combination of coordinates, the last axis fastest; empty pieces start and stop at the end
        of what they were cut from.
    """
    ranges = [(0, n)]
    for width in widths:
        finer = []
        for start, stop in ranges:
            step = -(-(stop - start) // width)
            finer += [(min(start + i * step, stop), min(start + (i + 1) * step, stop)) for i in range(width)]
        ranges = finer
    return tuple(ranges)


def read_placements(
    mesh: DeviceMesh, placements: Placements, ndim: int
) -> tuple[tuple[Placement, ...], Order]:
    """Read placements in any of their forms for a tensor of `ndim` dims.

    Returns
    -------
    placements : tuple of Placement
        One per mesh axis, dims counted from the front.
    order : tuple of tuple of int
        Per tensor dim, the mesh axes that shard it, the outermost first.

    Raises
    ------
    LayoutError
        A wrong number of placements, a dim or an axis that is not there, an axis used twice.
    """
    if isinstance(placements, Spec):
        return _read_spec(mesh, placements, ndim)
    if isinstance(placements, (str, Shard, Replicate, Partial)):
        placements = (placements,)
    given = tuple([as_placement(each) for each in placements])
    if len(given) != mesh.ndim:
        raise LayoutError(
            f"{mesh!r} has {mesh.ndim} axes and needs as many placements, got {len(given)}: {given}"
        )
    order: list[list[int]] = [[] for _ in range(ndim)]
    plain: list[Placement] = []
    for axis, placement in enumerate(given):
        if isinstance(placement, Shard):
            dim = _counted(placement.dim, ndim)
            placement = placement if dim == placement.dim else Shard(dim, placement.sizes)
            order[dim].append(axis)
        plain.append(placement)
    return tuple(plain), tuple([tuple(axes) for axes in order])


def _read_spec(mesh: DeviceMesh, spec: Spec, ndim: int) -> tuple[tuple[Placement, ...], Order]:
    if len(spec.dims) > ndim:
        raise LayoutError(f"{spec!r} tells of {len(spec.dims)} dims, but the tensor has {ndim}")
    plain: list[Placement] = [Replicate()] * mesh.ndim
    used: set[int] = set()

    def take(axis: str | int) -> int:
        at = mesh.axis(axis)
        if at in used:
            raise LayoutError(f"{spec!r} uses axis {axis!r} twice; an axis shards one dim, or is partial")
        used.add(at)
        return at

    order = []
    for dim, axes in enumerate(spec.dims):
        order.append(tuple([take(axis) for axis in axes]))
        for at in order[-1]:
            plain[at] = Shard(dim)
    for axis, op in spec.partial.items():
        plain[take(axis)] = Partial(op)
    return tuple(plain), (*order, *[()] * (ndim - len(order)))


def _counted(dim: int, ndim: int) -> int:
    if not -ndim <= dim < ndim:
        which = (
            f"the dims of a tensor with {ndim} are {-ndim} to {ndim - 1}"
            if ndim
            else "a tensor without dims has none"
        )
        raise LayoutError(f"Shard({dim}): {which}")
    return dim % ndim


def _given_sizes(placements: tuple[Placement, ...], axes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the sizes that the placements of the axes of one dim agree on; None where they give none."""
    given = {p.sizes for p in (placements[axis] for axis in axes) if isinstance(p, Shard)}
    if len(given) > 1:
        raise LayoutError(
            f"axes that shard one dim must tell the same sizes, all of them: "
            f"{[placements[axis] for axis in axes]}"
        )
    return next(iter(given), None)
