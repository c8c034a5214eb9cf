"""`DeviceMesh`: ranks laid out in a grid whose axes have names."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from types import TracebackType

import numpy as np
import numpy.typing as npt

from shardwise.backend.errors import LayoutError
from shardwise.collectives import (
    Communicator,
    ProcessGroup,
    communicator_ranks,
    get_group,
    get_world,
    rank,
    world_size,
)
from shardwise.mesh.argument import DeviceType, check_device, checked_names, chosen_device, rank_grid
from shardwise.mesh.drawing import draw_grid
from shardwise.mesh.grid import RankGrid, keep_axes
from shardwise.mesh.joining import join_grids, joined_names
from shardwise.mesh.line import grid_of_lines
from shardwise.mesh.reshaping import flattened, unflattened

__all__ = ["DeviceMesh", "get_current_mesh"]

_MOST_SHOWN = 16  # ranks that a repr lists in full


class DeviceMesh:
    """An n-d array of distinct global ranks; immutable, hashable, equal on all ranks.

    Meshes are values, and hold no groups: those are looked up when they are asked for, and made by their
    members at the first collective. Slicing, flattening and the like are arithmetic and send nothing.

    Parameters
    ----------
    device_type : "cpu" or "cuda"
    mesh : nested sequence or array of int
        Global ranks in the shape of the mesh.
    mesh_dim_names : sequence of str, optional
        One per axis, all different.

    Raises
    ------
    LayoutError
        If the ranks are not distinct ranks of the world in a full grid, or the names do not fit.

    Notes
    -----
    Equal are meshes of equal device type, ranks, shape and names, however they were made. Ranks of the world
    that the mesh does not list are outside: they may hold it, and have no coordinate, no group and no part.

    ``with mesh:`` makes it the mesh of the context, see `get_current_mesh`.

    Examples
    --------
    >>> mesh = DeviceMesh("cpu", [[0]], mesh_dim_names=("dp", "tp"))
    >>> mesh["tp"], mesh.flatten("all"), mesh.get_coordinate()
    (DeviceMesh('cpu', tp=1), DeviceMesh('cpu', all=1), (0, 0))
    """

    __slots__ = (
        "__weakref__", "_coordinates", "_hash", "_lines", "_names", "_parts", "_ranks", "_root",
        "device_type",
    )  # fmt: skip
    device_type: str
    _ranks: RankGrid
    _names: tuple[str, ...] | None
    _hash: int
    # The mesh that this one is a part of, None for itself: for `concatenate`, no part of the value.
    _root: DeviceMesh | None
    # Remembered per rank, since ranks that are threads share the mesh.
    _coordinates: dict[int, tuple[int, ...] | None]
    _lines: dict[tuple[int, int], tuple[int, ...]]
    _parts: dict[tuple[int, tuple[str, ...]], DeviceMesh]

    def __init__(
        self, device_type: str, mesh: npt.ArrayLike, mesh_dim_names: Sequence[str] | None = None
    ) -> None:
        ranks = rank_grid(mesh)
        check_device(device_type)
        names = checked_names(mesh_dim_names, ranks.shape)
        if ranks.min() < 0 or ranks.max() >= world_size():
            raise LayoutError(
                f"the mesh {ranks.tolist()} names ranks outside the world of {world_size()}; "
                f"start more ranks, or use 0 to {world_size() - 1}"
            )
        self._fill(device_type, ranks, names, None)

    def _fill(
        self, device_type: str, ranks: RankGrid, names: tuple[str, ...] | None, root: DeviceMesh | None
    ) -> None:
        flat = ranks.tobytes()
        # over bytes, which nobody can make writeable again
        fixed = np.frombuffer(flat, np.int64).reshape(ranks.shape)
        put = object.__setattr__
        put(self, "device_type", device_type)
        put(self, "_ranks", fixed)
        put(self, "_names", names)
        put(self, "_hash", hash((device_type, names, ranks.shape, flat)))
        put(self, "_root", root)
        put(self, "_coordinates", {})
        put(self, "_lines", {})
        put(self, "_parts", {})

    def _view(self, ranks: RankGrid, names: tuple[str, ...] | None) -> DeviceMesh:
        """Make a mesh of ranks of this one."""
        mesh = object.__new__(DeviceMesh)
        mesh._fill(self.device_type, ranks, names, self._origin())
        return mesh

    def _origin(self) -> DeviceMesh:
        return self if self._root is None else self._root

    @classmethod
    def from_group(
        cls,
        group: ProcessGroup | Sequence[ProcessGroup],
        device_type: DeviceType,
        mesh: npt.ArrayLike | None = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
    ) -> DeviceMesh:
        """Make a mesh of the ranks of groups that exist.

        Parameters
        ----------
        group : ProcessGroup or sequence of ProcessGroup
            One gives a mesh of one axis. Several are the groups that this rank is in along each axis.
        device_type : "auto", "cpu" or "cuda"
        mesh : nested sequence or array of int, optional
            Global ranks in the shape of the mesh, alike on all ranks; needed with several groups, of which
            each rank knows its own only.
        mesh_dim_names : sequence of str, optional
            One per axis.

        Returns
        -------
        DeviceMesh
            It keeps the ranks, not the groups: its own groups are those of `get_group`, in which operations
            have an order and a time-out of their own.

        Raises
        ------
        LayoutError
            If `mesh` is missing, or has other ranks on its axes through this rank than the groups.
        """
        groups = list(group) if isinstance(group, Sequence) else [group]
        if not all(isinstance(each, ProcessGroup) for each in groups):
            raise LayoutError(
                f"from_group: wanted a ProcessGroup for each axis, as get_group() gives; got {group}"
            )
        lines = [np.array(each.ranks, np.int64) for each in groups]
        ranks = grid_of_lines("from_group", lines, mesh, rank())
        return cls(chosen_device(device_type), ranks, mesh_dim_names)

    @classmethod
    def from_comm(
        cls,
        comm: Communicator | Sequence[Communicator],
        device_type: DeviceType = "cpu",
        mesh: npt.ArrayLike | None = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
    ) -> DeviceMesh:
        """Make a mesh of the processes of communicators of mpi4py.

        Parameters
        ----------
        comm : mpi4py.MPI.Intracomm or sequence of them
            One gives a mesh of one axis, or of the axes of its grid if it is Cartesian (``Create_cart``).
            Several are the communicators that this rank is in along each axis.
        device_type : "auto", "cpu" or "cuda"
        mesh : nested sequence or array of int, optional
            Global ranks in the shape of the mesh, alike on all ranks; needed with several communicators.
        mesh_dim_names : sequence of str, optional
            One per axis.

        Returns
        -------
        DeviceMesh
            Collectives on it do not run on these communicators, which may be freed.

        Raises
        ------
        CollectiveError
            If it is no communicator of processes of this world that this one is in.
        LayoutError
            If `mesh` is missing, or has other ranks on its axes through this rank than the communicators.
        """
        if isinstance(comm, Sequence):
            lines = [communicator_ranks(each).ravel() for each in comm]
        else:
            lines = [communicator_ranks(comm)]
        ranks = grid_of_lines("from_comm", lines, mesh, rank())
        return cls(chosen_device(device_type), ranks, mesh_dim_names)

    # ---- what it is

    @property
    def mesh(self) -> RankGrid:
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

    def axis(self, mesh_dim: int | str) -> int:
        """Return the number of an axis, counted from the front, given by name or number."""
        if isinstance(mesh_dim, str):
            if self._names is None or mesh_dim not in self._names:
                raise LayoutError(f"{self!r} has no axis {mesh_dim!r}; its axes are {self._names}")
            return self._names.index(mesh_dim)
        if not isinstance(mesh_dim, int | np.integer):
            raise LayoutError(f"an axis of {self!r} is told by its name or number; got {mesh_dim!r}")
        if not -self.ndim <= mesh_dim < self.ndim:
            raise LayoutError(f"{self!r} has no axis {mesh_dim}; it has {self.ndim}")
        return mesh_dim % self.ndim

    # ---- where this rank is

    def get_rank(self) -> int:
        """Return this process's global rank."""
        return rank()

    def get_coordinate(self) -> tuple[int, ...] | None:
        """Return this rank's place in the mesh, or None if it has none."""
        me = rank()
        try:
            return self._coordinates[me]
        except KeyError:
            found = np.argwhere(self._ranks == me)
            here = tuple(int(i) for i in found[0]) if len(found) else None
            self._coordinates[me] = here
            return here

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Return this rank's place along one axis, which may be left out if there is only one."""
        axis = self._only_axis(mesh_dim)
        return self._here("place and no group")[axis]

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """Return the group of the ranks that differ from this one only along `mesh_dim`.

        It is that of `get_group` for these ranks, in their order along the axis, so that equal meshes, and
        all other parts of a program that name the same ranks, have the same group.
        """
        axis = self._only_axis(mesh_dim)
        key = rank(), axis
        line = self._lines.get(key)
        if line is None:
            here = self._here("place and no group")
            line = self._lines[key] = tuple(keep_axes(self._ranks, [axis], here).tolist())
        return get_group(line)

    def get_all_groups(self) -> list[ProcessGroup]:
        """Return this rank's group along each axis."""
        return [self.get_group(axis) for axis in range(self.ndim)]

    def _here(self, lacks: str) -> tuple[int, ...]:
        coordinate = self.get_coordinate()
        if coordinate is None:
            raise LayoutError(f"rank {rank()} is not in {self!r}, so it has no {lacks} there")
        return coordinate

    def _only_axis(self, mesh_dim: int | str | None) -> int:
        if mesh_dim is None and self.ndim != 1:
            raise LayoutError(f"{self!r} has {self.ndim} axes; say which one (mesh_dim=)")
        return self.axis(0 if mesh_dim is None else mesh_dim)

    # ---- other meshes of the same ranks

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        """Return the part of the mesh that runs along these axes through this rank.

        Parameters
        ----------
        mesh_dim_names : str or tuple of str
            Axes of the result, in its order; any order will do.

        Returns
        -------
        DeviceMesh
            Another one on ranks that differ along other axes. The mesh itself for all of its axes in their
            order.

        Raises
        ------
        LayoutError
            If there is no such axis, one is named twice, or this rank is outside the mesh.
        """
        names = mesh_dim_names if isinstance(mesh_dim_names, tuple) else (mesh_dim_names,)
        try:
            return self._parts[rank(), names]
        except (KeyError, TypeError):  # what has no hash is no name
            part = self._parts[rank(), names] = self._part(names)
            return part

    def _part(self, names: tuple[str, ...]) -> DeviceMesh:
        if not all(isinstance(name, str) for name in names):
            raise LayoutError(f"{self!r} is sliced by names of axes, as mesh['dp', 'tp']; got {names}")
        axes = self._axes(names)
        if names == self._names:
            return self
        # Where nothing is fixed all ranks have the same part, those outside too.
        here = self._here(f"part along {names}") if len(axes) < self.ndim else (0,) * self.ndim
        return self._view(keep_axes(self._ranks, axes, here), names)

    def flatten(
        self, mesh_dims: str | Sequence[str | int] | None = None, mesh_dim_name: str | None = None
    ) -> DeviceMesh:
        """Return the mesh with some axes merged into one, by default all of them.

        Parameters
        ----------
        mesh_dims : sequence of (str or int), optional
            The axes to merge, neighbours or not; the last one runs fastest. By default all, in their order.
            A single name stands for `mesh_dim_name`.
        mesh_dim_name : str, optional
            Name of the merged axis, by default the old ones joined by ``_``.

        Returns
        -------
        DeviceMesh
            The merged axis stands where the outermost of them stood.

        Raises
        ------
        LayoutError
            If there is no such axis, one is given twice, or the name is that of another axis.

        Examples
        --------
        >>> mesh = DeviceMesh("cpu", [[[0]]], ("pp", "dp", "cp"))
        >>> mesh.flatten(("dp", "cp")), mesh["dp", "cp"].flatten("fsdp")
        (DeviceMesh('cpu', pp=1, dp_cp=1), DeviceMesh('cpu', fsdp=1))
        """
        if isinstance(mesh_dims, str):
            if mesh_dim_name is not None:
                raise LayoutError(
                    f"flatten: mesh_dims is {mesh_dims!r}, wanted a tuple of axes; write ({mesh_dims!r},)"
                )
            mesh_dims, mesh_dim_name = None, mesh_dims
        axes = self._axes(range(self.ndim) if mesh_dims is None else mesh_dims)
        ranks, names = flattened(self._ranks, self._names, axes, mesh_dim_name, f"flatten {self!r}")
        return self if len(axes) == 1 and names == self._names else self._view(ranks, names)

    def unflatten(
        self, mesh_dim: int | str, mesh_sizes: Sequence[int], mesh_dim_names: Sequence[str] | None = None
    ) -> DeviceMesh:
        """Return the mesh with one axis divided into several, the last of them running fastest.

        Parameters
        ----------
        mesh_dim : int or str
        mesh_sizes : sequence of int
            They multiply to the size of the axis; one may be -1, which takes what is left.
        mesh_dim_names : sequence of str, optional
            One for each size; needed if the mesh has names.

        Raises
        ------
        LayoutError
            If the sizes or names do not fit.

        Examples
        --------
        >>> DeviceMesh("cpu", [0], ("dp",)).unflatten("dp", (-1, 1), ("replicate", "shard"))
        DeviceMesh('cpu', replicate=1, shard=1)
        """
        axis, what = self.axis(mesh_dim), f"unflatten axis {mesh_dim!r} of {self!r}"
        return self._view(*unflattened(self._ranks, self._names, axis, mesh_sizes, mesh_dim_names, what))

    @staticmethod
    def concatenate(meshes: Sequence[DeviceMesh]) -> DeviceMesh:
        """Join parts of one mesh that run along different axes of it through this rank.

        Parameters
        ----------
        meshes : sequence of DeviceMesh
            Made of one mesh by slicing, flattening and the like.

        Returns
        -------
        DeviceMesh
            With the axes of the first, then those of the second, and so on.

        Raises
        ------
        LayoutError
            If they are no parts of one mesh, overlap, have no rank in common, or their names collide.

        Examples
        --------
        >>> mesh = DeviceMesh("cpu", [[[0]]], ("pp", "dp", "tp"))
        >>> DeviceMesh.concatenate([mesh["tp"], mesh["dp"]])
        DeviceMesh('cpu', tp=1, dp=1)
        """
        parts = tuple(meshes)
        if not parts or not all(isinstance(part, DeviceMesh) for part in parts):
            raise LayoutError(f"concatenate: wanted a list of meshes, at least one; got {list(parts)}")
        if len(parts) == 1:
            return parts[0]
        what = f"concatenate on rank {rank()}: {', '.join(map(repr, parts))}"
        if len({part.device_type for part in parts}) > 1:
            raise LayoutError(f"{what}: they are on different kinds of device")
        names = joined_names([part._names for part in parts], what)
        root = _root_of(parts)
        if root is None:
            raise LayoutError(f"{what}: they are no parts of one mesh; slice all of them from one")
        ranks = join_grids(root._ranks, [part._ranks for part in parts], what)
        return root._view(ranks, names)

    def _axes(self, mesh_dims: Sequence[str | int]) -> tuple[int, ...]:
        given = tuple(mesh_dims) if isinstance(mesh_dims, Sequence) else (mesh_dims,)
        axes = tuple(self.axis(each) for each in given)
        if not axes or len(set(axes)) < len(axes):
            raise LayoutError(f"wanted different axes of {self!r}, at least one; got {given}")
        return axes

    # ---- the mesh of the context

    def __enter__(self) -> DeviceMesh:
        _current.set((*_current.get(), self))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _current.set(_current.get()[:-1])

    # ---- a value

    def draw(self) -> str:
        """Return a picture of the mesh: tables of its ranks, with their hosts where there are several.

        Examples
        --------
        >>> print(DeviceMesh("cpu", [[0]], ("dp", "tp")).draw())
        dp │ tp  0
        ───┼──────
         0 │     0
        """
        names = self._names or tuple(str(axis) for axis in range(self.ndim))
        return draw_grid(self._ranks, names, get_world().hosts)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot set {name}: a DeviceMesh never changes; make another one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"cannot delete {name}: a DeviceMesh never changes; make another one")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, DeviceMesh)
            and self._hash == other._hash
            and self.device_type == other.device_type
            and self._names == other._names
            and self._ranks.shape == other._ranks.shape
            and self._ranks.tobytes() == other._ranks.tobytes()
        )

    def __hash__(self) -> int:
        return self._hash

    def __copy__(self) -> DeviceMesh:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> DeviceMesh:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        value = self.device_type, self._ranks.tolist(), self._names
        return (DeviceMesh, value) if self._root is None else (_part_of, (self._root, *value))

    def __repr__(self) -> str:
        names = self._names or tuple(str(i) for i in range(self.ndim))
        sizes = ", ".join(f"{name}={n}" for name, n in zip(names, self.shape, strict=True))
        flat = self._ranks.ravel()
        if (flat == np.arange(flat.size)).all():
            return f"DeviceMesh({self.device_type!r}, {sizes})"
        shown = np.array2string(
            self._ranks, separator=", ", threshold=_MOST_SHOWN, edgeitems=2, formatter={"int": str}
        )
        return f"DeviceMesh({self.device_type!r}, {sizes}, ranks={' '.join(shown.split())})"


_current: ContextVar[tuple[DeviceMesh, ...]] = ContextVar("shardwise_meshes", default=())


def get_current_mesh() -> DeviceMesh | None:
    """Return the mesh of the innermost ``with mesh:`` around this code, or None outside of all.

    Examples
    --------
    >>> with DeviceMesh("cpu", [0], ("dp",)):
    ...     print(get_current_mesh())
    DeviceMesh('cpu', dp=1)
    >>> get_current_mesh() is None
    True
    """
    meshes = _current.get()
    return meshes[-1] if meshes else None


def _part_of(
    root: DeviceMesh, device_type: str, ranks: Sequence[object], names: tuple[str, ...] | None
) -> DeviceMesh:
    """Make a part of a mesh again that was pickled."""
    return root._view(np.array(ranks, np.int64), names)


def _root_of(parts: Sequence[DeviceMesh]) -> DeviceMesh | None:
    """Find the mesh that all of these are parts of, among those that they come from."""
    ranks = set().union(*(part._ranks.ravel().tolist() for part in parts))
    for part in parts:
        root = part._origin()
        if ranks <= set(root._ranks.ravel().tolist()):
            return root
    return None
