"""DeviceMesh: shapes, names, coordinates, groups, values, and what it refuses."""

from __future__ import annotations

import contextvars
import copy
import gc
import math
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise.backend.select import get_backend
from shardwise.collectives import explain, run_threads
from shardwise.errors import DeviceError, LayoutError
from shardwise.mesh import DeviceMesh, get_current_mesh, init_device_mesh


def message(call: Callable[[], object], kind: type[Exception] = LayoutError) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def everywhere(world: int, call: Callable[[], Any]) -> Any:
    """Run on all ranks and return the one result that all must have."""
    results = run_threads(lambda _: call(), world)
    assert all(result == results[0] for result in results)
    return results[0]


SHAPES = [
    (1, (-1,), (1,)),
    (4, (-1,), (4,)),
    (4, (-1, 2), (2, 2)),
    (6, (3, -1), (3, 2)),
    (6, (2, -1, 3), (2, 1, 3)),
    (5, (5,), (5,)),
    (6, (1, 2, 3), (1, 2, 3)),
    (4, (2,), (2,)),  # smaller than the world
]


@pytest.mark.parametrize(("world", "asked", "shape"), SHAPES)
def test_ranks_are_laid_out_row_by_row(world: int, asked: tuple[int, ...], shape: tuple[int, ...]) -> None:
    def one() -> DeviceMesh:
        with explain() as moved:
            mesh = init_device_mesh("cpu", asked)
        assert moved.records == []  # nothing is sent
        return mesh

    mesh = everywhere(world, one)
    assert mesh.shape == shape
    assert mesh.ndim == len(shape)
    assert mesh.size() == math.prod(shape)
    assert [mesh.size(i) for i in range(mesh.ndim)] == list(shape)
    assert mesh.mesh.tolist() == np.arange(math.prod(shape)).reshape(shape).tolist()
    assert mesh.mesh.dtype == np.int64
    assert mesh.mesh_dim_names is None
    assert mesh.device_type == "cpu"


@pytest.mark.parametrize("world", [1, 2, 3, 4, 5, 6])
def test_coordinates_and_groups_on_two_axes(world: int) -> None:
    """Against the definition: a group is the ranks that differ along one axis only."""
    for rows in (n for n in range(1, world + 1) if world % n == 0):
        columns = world // rows

        def one(rank: int, rows: int = rows, columns: int = columns) -> None:
            mesh = init_device_mesh("cpu", (rows, columns), mesh_dim_names=("dp", "tp"))
            row, column = divmod(rank, columns)
            assert mesh.get_rank() == rank
            assert mesh.get_coordinate() == (row, column)
            assert [mesh.get_local_rank(a) for a in ("dp", "tp", 0, -1)] == [row, column, row, column]
            down = mesh.get_group("dp")
            assert down.ranks == tuple(r * columns + column for r in range(rows))
            assert down.rank == row
            across = mesh.get_group("tp")
            assert across.ranks == tuple(row * columns + c for c in range(columns))
            assert across.rank == column
            assert mesh.get_group(0) is mesh.get_group(-2) is down
            got = sw.all_reduce(np.array([rank]), group=down), sw.all_reduce(np.array([rank]), group=across)
            assert got == (sum(down.ranks), sum(across.ranks))

        run_threads(one, world)


@pytest.mark.mpi(min_size=2)
def test_groups_under_mpi() -> None:
    mesh = sw.init_device_mesh("cpu", (-1, 1), mesh_dim_names=("dp", "tp"))
    n = sw.world_size()
    assert mesh.shape == (n, 1)
    assert sw.all_reduce(np.array([sw.rank()]), group=mesh.get_group("dp")).item() == n * (n - 1) // 2
    assert mesh.get_group("tp").ranks == (sw.rank(),)


def test_ranks_in_any_order() -> None:
    def one(rank: int) -> tuple[Any, ...]:
        mesh = DeviceMesh("cpu", [[3, 1], [0, 2]], mesh_dim_names=["a", "b"])
        return mesh.get_coordinate(), mesh.get_group("a").ranks, mesh.get_group("b").ranks, repr(mesh)

    shown = "DeviceMesh('cpu', a=2, b=2, ranks=[[3, 1], [0, 2]])"
    assert run_threads(one, 4) == [
        ((1, 0), (3, 0), (0, 2), shown),
        ((0, 1), (1, 2), (3, 1), shown),
        ((1, 1), (1, 2), (0, 2), shown),
        ((0, 0), (3, 0), (3, 1), shown),
    ]


def test_one_axis_need_not_be_named() -> None:
    def one(rank: int) -> tuple[int, tuple[int, ...]]:
        mesh = init_device_mesh("cpu", (-1,))
        return mesh.get_local_rank(), mesh.get_group().ranks

    assert run_threads(one, 3) == [(r, (0, 1, 2)) for r in range(3)]


def test_a_rank_outside_the_mesh() -> None:
    def one(rank: int) -> Any:
        mesh = init_device_mesh("cpu", (2,))
        if rank < 2:
            return mesh.get_coordinate()
        return mesh.get_coordinate(), message(mesh.get_group), message(mesh.get_local_rank)

    expected = "rank 2 is not in DeviceMesh('cpu', 0=2), so it has no place and no group there"
    assert run_threads(one, 3) == [(0,), (1,), (None, expected, expected)]


def test_meshes_are_values() -> None:
    def one() -> list[str]:
        mesh = init_device_mesh("cpu", (2, -1), mesh_dim_names=("dp", "tp"))
        same = DeviceMesh("cpu", [[0, 1], [2, 3]], ("dp", "tp"))
        assert mesh == same
        assert hash(mesh) == hash(same)
        copy = pickle.loads(pickle.dumps(mesh))
        assert copy == mesh
        assert {mesh: 1}[copy] == 1
        for other in (
            DeviceMesh("cuda", [[0, 1], [2, 3]], ("dp", "tp")),
            DeviceMesh("cpu", [[0, 1], [2, 3]]),
            DeviceMesh("cpu", [[0, 1], [2, 3]], ("tp", "dp")),
            DeviceMesh("cpu", [[0, 2], [1, 3]], ("dp", "tp")),
            DeviceMesh("cpu", [[0, 1, 2, 3]], ("dp", "tp")),
            "mesh",
        ):
            assert mesh != other
        return [repr(mesh), repr(DeviceMesh("cpu", [[0, 1], [2, 3]]))]

    assert everywhere(4, one) == ["DeviceMesh('cpu', dp=2, tp=2)", "DeviceMesh('cpu', 0=2, 1=2)"]


def test_copies_are_the_mesh_itself() -> None:
    mesh = DeviceMesh("cpu", [0])
    assert copy.copy(mesh) is mesh
    assert copy.deepcopy([mesh])[0] is mesh


def test_a_mesh_and_its_parts_can_be_collected() -> None:
    mesh = DeviceMesh("cpu", [[0]], ("dp", "tp"))
    alive = weakref.ref(mesh), weakref.ref(mesh["tp"])
    part = pickle.loads(pickle.dumps(mesh["tp"]))
    assert part == mesh["tp"]
    del mesh
    gc.collect()
    assert [each() for each in alive] == [None, None]


def test_large_meshes_are_shown_by_their_ends() -> None:
    def one(rank: int) -> str:
        return repr(init_device_mesh("cpu", (4, 5), mesh_dim_names=("dp", "tp"))["tp", "dp"])

    assert set(run_threads(one, 20)) == {
        "DeviceMesh('cpu', tp=5, dp=4, ranks=[[0, 5, 10, 15], [1, 6, 11, 16], ..., [3, 8, 13, 18], "
        "[4, 9, 14, 19]])"
    }


# ---- the mesh of the context


def test_the_innermost_mesh_is_current() -> None:
    outer, inner = DeviceMesh("cpu", [0], ("dp",)), DeviceMesh("cpu", [0], ("tp",))
    assert get_current_mesh() is None
    with outer as entered:
        assert entered is outer is get_current_mesh()
        with inner, outer:
            assert get_current_mesh() is outer
        with pytest.raises(LayoutError), inner:
            get_current_mesh()["dp"]  # type: ignore[index]
        assert get_current_mesh() is outer
    assert get_current_mesh() is None


def test_each_context_has_a_current_mesh_of_its_own() -> None:
    mesh = DeviceMesh("cpu", [0])
    seen = []
    with mesh:
        copied = contextvars.copy_context()
        for run in (lambda: seen.append(get_current_mesh()), lambda: copied.run(seen.append, 1)):
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
        assert run_threads(lambda rank: get_current_mesh() is mesh, 2) == [True, True]  # ranks begin with it
    assert seen == [None, 1]
    assert copied.run(get_current_mesh) is mesh

    def one(rank: int) -> bool:
        mine = DeviceMesh("cpu", [rank])
        with mine:
            sw.barrier()
            return get_current_mesh() is mine

    assert run_threads(one, 3) == [True] * 3


def test_meshes_never_change() -> None:
    source = np.array([0])
    mesh = DeviceMesh("cpu", source)
    for name in ("device_type", "_ranks", "mesh", "other"):
        assert message(lambda n=name: setattr(mesh, n, 1), AttributeError) == (
            f"cannot set {name}: a DeviceMesh never changes; make another one"
        )
        assert message(lambda n=name: delattr(mesh, n), AttributeError) == (
            f"cannot delete {name}: a DeviceMesh never changes; make another one"
        )
    with pytest.raises(ValueError, match="read-only"):
        mesh.mesh[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        mesh.mesh.flags.writeable = True
    source[0] = 7
    assert mesh.mesh.tolist() == [0]


# ---- devices


def test_auto_takes_what_is_there() -> None:
    usable, _ = next(b for b in sw.backend.select.BACKENDS if b.name == "cuda").available()
    assert init_device_mesh("auto", (-1,)).device_type == ("cuda" if usable else "cpu")


def test_cuda_where_there_is_none() -> None:
    try:
        get_backend("cuda")
    except DeviceError as error:
        reason = str(error)
    else:
        assert init_device_mesh("cuda", (-1,)).device_type == "cuda"
        return
    assert reason.startswith("cannot use device 'cuda': ")
    assert everywhere(3, lambda: message(lambda: init_device_mesh("cuda", (-1,)), DeviceError)) == reason


# ---- refused


def refusal(world: int, *args: Any, **kwargs: Any) -> str:
    return everywhere(world, lambda: message(lambda: init_device_mesh(*args, **kwargs)))


@pytest.mark.parametrize(
    ("world", "shape", "known", "start"),
    [(3, (-1, 2), 2, "2 or 4"), (1, (2, -1), 2, "2"), (4, (-1, 3), 3, "3 or 6"), (2, (2, -1, 2), 4, "4")],
)
def test_free_sizes_that_do_not_fit(world: int, shape: tuple[int, ...], known: int, start: str) -> None:
    assert refusal(world, "cpu", shape) == (
        f"a mesh of shape {shape} needs a multiple of {known} ranks, but the world has {world}; "
        f"start {start} ranks, or change the shape"
    )


def test_shapes_that_do_not_fit() -> None:
    assert refusal(2, "cpu", (2, 3)) == (
        "a mesh of shape (2, 3) needs 6 ranks, but the world has 2; start with `shardwise run -n 6`, or "
        "use -1 "
        "for one of the sizes"
    )
    assert everywhere(2, lambda: init_device_mesh("cpu", -1)).shape == (2,)
    for shape in ((), (-1, -1), (0,), (2, -2), (1.5,), ("2",)):
        assert refusal(2, "cpu", shape) == (
            f"a mesh shape has positive whole sizes and at most one -1; got {shape}"
        )


def test_names_that_do_not_fit() -> None:
    assert refusal(1, "cpu", (1, 1), mesh_dim_names=("dp",)) == (
        "a mesh of shape (1, 1) needs 2 mesh_dim_names, got ('dp',)"
    )
    assert refusal(1, "cpu", (1, 1), mesh_dim_names=("dp", "dp")) == (
        "mesh_dim_names must be different from each other, got ('dp', 'dp')"
    )
    for names in ("dp", ("", "x"), (1, 2), 5):
        assert refusal(1, "cpu", (1, 1), mesh_dim_names=names) == (
            f"mesh_dim_names must be a tuple of names, such as ('dp',), got {names!r}"
        )


def test_devices_that_do_not_fit() -> None:
    assert refusal(1, "gpu", (1,)) == "device_type must be one of ('auto', 'cpu', 'cuda'), got 'gpu'"
    assert refusal(1, "cuda:1", (1,)) == (
        "device_type must be one of ('auto', 'cpu', 'cuda'), got 'cuda:1'; a mesh takes the kind of "
        "device only, "
        "each rank gets its own index"
    )
    assert (
        message(lambda: DeviceMesh("auto", [0])) == "device_type must be one of ('cpu', 'cuda'), got 'auto'"
    )


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ([0, 0], "a mesh needs distinct ranks, at least one; got [0, 0]"),
        ([], "a mesh needs distinct ranks, at least one; got []"),
        ([[0], [1, 2]], "the ranks of a mesh must form a full grid, got [[0], [1, 2]]"),
        ([0.0, 1.0], "the ranks of a mesh must be integers, got float64: [0.0, 1.0]"),
        (0, "a mesh has at least one axis; write [0] for a mesh of one rank"),
        ([0, 9], "the mesh [0, 9] names ranks outside the world of 2; start more ranks, or use 0 to 1"),
        ([-1, 0], "the mesh [-1, 0] names ranks outside the world of 2; start more ranks, or use 0 to 1"),
    ],
)
def test_ranks_that_do_not_fit(ranks: Any, expected: str) -> None:
    assert everywhere(2, lambda: message(lambda: DeviceMesh("cpu", ranks))) == expected


def test_axes_that_do_not_exist() -> None:
    plain, named = DeviceMesh("cpu", [[0]]), DeviceMesh("cpu", [[0]], ("dp", "tp"))
    for call in (named.size, named.get_group, named.get_local_rank):
        assert message(lambda c=call: c("pp")) == (
            "DeviceMesh('cpu', dp=1, tp=1) has no axis 'pp'; its axes are ('dp', 'tp')"
        )
        for axis in (2, -3):
            assert message(lambda c=call, a=axis: c(a)) == (
                f"DeviceMesh('cpu', dp=1, tp=1) has no axis {axis}; it has 2"
            )
    assert message(lambda: plain.size("dp")) == (
        "DeviceMesh('cpu', 0=1, 1=1) has no axis 'dp'; its axes are None"
    )
    assert message(plain.get_group) == "DeviceMesh('cpu', 0=1, 1=1) has 2 axes; say which one (mesh_dim=)"
