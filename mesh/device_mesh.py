"""`DeviceMesh`: ranks laid out in a grid whose axes have names."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from shardwise.backend.errors import LayoutError
from shardwise.backend.select import get_backend
from shardwise.collectives import ProcessGroup, get_group, local_rank, rank, world_size

__all__ = ["DeviceMesh", "DeviceType", "init_device_mesh"]

DeviceType = Literal["auto", "cpu", "cuda"]


class DeviceMesh:
    """An n-d array of distinct global ranks; immutable, hashable, equal on all ranks.

    Parameters
    ----------
    device_type : "cpu" or "cuda"
    ranks : nested sequence or array of int
        Global ranks in the shape of the mesh.
    mesh_dim_names : sequence of str, optional
        One per axis, all different.
    """

    __slots__ = ("_names", "_ranks", "device_type")
    device_type: str

    def __init__(self, device_type: str, ranks: Any, mesh_dim_names: Any = None) -> None:
        array = _rank_array(ranks)
        _check_device(device_type)
        names = _checked_names(mesh_dim_names, array.shape)
        flat = array.ravel().tolist()
        if len(set(flat)) != len(flat) or not flat:
            raise LayoutError(f"a mesh needs distinct ranks, at least one; got {array.tolist()}")
        if min(flat) < 0 or max(flat) >= world_size():
            raise LayoutError(
                f"the mesh {array.tolist()} names ranks outside the world of {world_size()}; "
                f"start more ranks, or use 0 to {world_size() - 1}"
            )
        # over bytes, which nobody can make writeable again
        fixed = np.frombuffer(array.tobytes(), np.int64).reshape(array.shape)
        object.__setattr__(self, "device_type", device_type)
        object.__setattr__(self, "_ranks", fixed)
        object.__setattr__(self, "_names", names)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot set {name}: a DeviceMesh never changes; make another one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"cannot delete {name}: a DeviceMesh never changes; make another one")

    _ranks: np.ndarray[Any, np.dtype[np.int64]]
    _names: tuple[str, ...] | None

    @property
    def mesh(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The global ranks, int64, read-only, in the shape of the mesh."""
        return self._ranks

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of ranks along each axis."""
        shape: tuple[int, ...] = self._ranks.shape
        return shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._ranks.ndim

    @property
    def mesh_dim_names(self) -> tuple[str, ...] | None:
        """Names of the axes, or None."""
        return self._names

    def size(self, mesh_dim: int | str | None = None) -> int:
        """Return the number of ranks, in all or along one axis."""
        return int(self._ranks.size if mesh_dim is None else self._ranks.shape[self.axis(mesh_dim)])

    def get_rank(self) -> int:
        """Return this process's global rank."""
        return rank()

    def get_coordinate(self) -> tuple[int, ...] | None:
        """Return this rank's place in the mesh, or None if it has none."""
        found = np.argwhere(self._ranks == rank())
        return tuple(int(i) for i in found[0]) if len(found) else None

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Return this rank's place along one axis, which may be left out if there is only one."""
        axis = self._only_axis(mesh_dim)
        return self._here()[axis]

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """Return the group of the ranks that differ from this one only along `mesh_dim`."""
        axis = self._only_axis(mesh_dim)
        here = self._here()
        line = np.moveaxis(self._ranks, axis, -1)[here[:axis] + here[axis + 1 :]]
        return get_group(tuple(int(r) for r in line))

    def _here(self) -> tuple[int, ...]:
        coordinate = self.get_coordinate()
        if coordinate is None:
            raise LayoutError(f"rank {rank()} is not in {self!r}, so it has no place and no group there")
        return coordinate

    def _only_axis(self, mesh_dim: int | str | None) -> int:
        if mesh_dim is None and self.ndim != 1:
            raise LayoutError(f"{self!r} has {self.ndim} axes; say which one (mesh_dim=)")
        return self.axis(0 if mesh_dim is None else mesh_dim)

    def axis(self, mesh_dim: int | str) -> int:
        """Return the number of an axis, counted from the front, given by name or number."""
        if isinstance(mesh_dim, str):
            if self._names is None or mesh_dim not in self._names:
                raise LayoutError(f"{self!r} has no axis {mesh_dim!r}; its axes are {self._names}")
            return self._names.index(mesh_dim)
        if not -self.ndim <= mesh_dim < self.ndim:
            raise LayoutError(f"{self!r} has no axis {mesh_dim}; it has {self.ndim}")
        return mesh_dim % self.ndim

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceMesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.device_type, self._names, self.shape, self._ranks.tobytes()

    def __reduce__(self) -> Any:
        return DeviceMesh, (self.device_type, self._ranks.tolist(), self._names)

    def __repr__(self) -> str:
        names = self._names or tuple(str(i) for i in range(self.ndim))
        sizes = ", ".join(f"{name}={n}" for name, n in zip(names, self.shape, strict=True))
        flat = self._ranks.ravel()
        ordinary = bool((flat == np.arange(flat.size)).all())
        ranks = "" if ordinary else f", ranks={self._ranks.tolist()}"
        return f"DeviceMesh({self.device_type!r}, {sizes}{ranks})"


def init_device_mesh(
    device_type: DeviceType, mesh_shape: tuple[int, ...], *, mesh_dim_names: tuple[str, ...] | None = None
) -> DeviceMesh:
    """Lay the world's ranks out in a grid, row by row.

    Parameters
    ----------
    device_type : "auto", "cpu" or "cuda"
        ``"auto"`` takes CUDA where it can be used. With CUDA, this rank's device becomes number
        local rank modulo the number of devices.
    mesh_shape : tuple of int
        Ranks per axis; one may be -1, which takes what is left of the world.
    mesh_dim_names : tuple of str, optional
        One per axis.

    Returns
    -------
    DeviceMesh
        The world is created, if it was not yet. No group is made and nothing is sent.

    Raises
    ------
    LayoutError
        The shape does not fit the world, or the names do not fit the shape.
    DeviceError
        CUDA was asked for and cannot be used.

    Examples
    --------
    >>> init_device_mesh("cpu", (-1,), mesh_dim_names=("dp",))
    DeviceMesh('cpu', dp=1)
    """
    _check_device(device_type, auto=True)
    shape = tuple(mesh_shape) if isinstance(mesh_shape, (tuple, list)) else (mesh_shape,)
    whole = all(isinstance(n, (int, np.integer)) and (n > 0 or n == -1) for n in shape)
    if not whole or shape.count(-1) > 1 or not shape:
        raise LayoutError(f"a mesh shape has positive whole sizes and at most one -1; got {mesh_shape}")
    names = _checked_names(mesh_dim_names, shape)
    total = world_size()
    known = math.prod(n for n in shape if n != -1)
    if -1 in shape:
        if total % known:
            raise LayoutError(
                f"a mesh of shape {shape} needs a multiple of {known} ranks, but the world has {total}; "
                f"start {_either(total, known)} ranks, or change the shape"
            )
        shape = tuple(total // known if n == -1 else n for n in shape)
    if math.prod(shape) > total:
        raise LayoutError(
            f"a mesh of shape {shape} needs {math.prod(shape)} ranks, but the world has {total}; "
            f"start with `shardwise run -n {math.prod(shape)}`, or use -1 for one of the sizes"
        )
    if device_type == "auto":
        device_type = "cuda" if get_backend("auto").name == "cuda" else "cpu"
    if device_type == "cuda":
        backend = get_backend("cuda")
        backend.set_device(local_rank() % backend.device_count())
    return DeviceMesh(device_type, np.arange(math.prod(shape)).reshape(shape), names)


def _check_device(device_type: str, auto: bool = False) -> None:
    wanted = ("auto", "cpu", "cuda") if auto else ("cpu", "cuda")
    if device_type not in wanted:
        hint = ""
        if isinstance(device_type, str) and ":" in device_type:
            hint = "; a mesh takes the kind of device only, each rank gets its own index"
        raise LayoutError(f"device_type must be one of {wanted}, got {device_type!r}{hint}")


def _checked_names(names: Any, shape: tuple[int, ...]) -> tuple[str, ...] | None:
    if names is None:
        return None
    if isinstance(names, str) or not all(isinstance(name, str) and name for name in names):
        raise LayoutError(f"mesh_dim_names must be a tuple of names, such as ('dp',), got {names!r}")
    checked = tuple(str(name) for name in names)
    if len(checked) != len(shape):
        raise LayoutError(f"a mesh of shape {shape} needs {len(shape)} mesh_dim_names, got {checked}")
    if len(set(checked)) != len(checked):
        raise LayoutError(f"mesh_dim_names must be different from each other, got {checked}")
    return checked


def _rank_array(ranks: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    try:
        array = np.asarray(ranks)
    except ValueError:
        raise LayoutError(f"the ranks of a mesh must form a full grid, got {ranks}") from None
    if array.size and array.dtype.kind not in "iu":
        raise LayoutError(f"the ranks of a mesh must be integers, got {array.dtype}: {ranks}")
    if not array.ndim:
        raise LayoutError(f"a mesh has at least one axis; write [{ranks}] for a mesh of one rank")
    return array.astype(np.int64)


def _either(total: int, known: int) -> str:
    """Name the multiples of `known` around `total`."""
    low = total // known * known
    return f"{low} or {low + known}" if low else str(known)
