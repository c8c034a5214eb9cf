"""Meshes made of groups and communicators that exist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise.collectives import communicator_ranks, get_group, new_group, run_threads
from shardwise.errors import CollectiveError, LayoutError
from shardwise.mesh import DeviceMesh


def message(call: Callable[[], object], kind: type[Exception] = LayoutError) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


# ---- groups


def test_one_group_is_one_axis() -> None:
    def one(rank: int) -> None:
        mesh = DeviceMesh.from_group(get_group([2, 0, 1]), "cpu", mesh_dim_names=("dp",))
        assert repr(mesh) == "DeviceMesh('cpu', dp=3, ranks=[2, 0, 1])"
        assert mesh.get_group() is get_group([2, 0, 1])
        assert DeviceMesh.from_group(new_group([2, 0, 1]), "auto").mesh.tolist() == [2, 0, 1]
        assert DeviceMesh.from_group([get_group()], "cpu", [0, 1, 2]) == DeviceMesh("cpu", [0, 1, 2])

    run_threads(one, 3)


def test_a_group_for_each_axis() -> None:
    def one(rank: int) -> None:
        wanted = DeviceMesh("cpu", [[3, 1], [0, 2]], ("dp", "tp"))
        groups = wanted.get_all_groups()
        mesh = DeviceMesh.from_group(groups, "cpu", wanted.mesh, mesh_dim_names=("dp", "tp"))
        assert mesh == wanted

    run_threads(one, 4)


def test_ranks_outside_make_the_same_mesh() -> None:
    def one(rank: int) -> str:
        groups = [get_group([rank]), get_group([0, 1])]
        return repr(DeviceMesh.from_group(groups, "cpu", [[0, 1]]))

    assert run_threads(one, 3) == ["DeviceMesh('cpu', 0=1, 1=2)"] * 3


def test_groups_that_do_not_fit() -> None:
    def one(rank: int) -> list[str]:
        row, column = get_group([rank // 2 * 2, rank // 2 * 2 + 1]), get_group([rank % 2, rank % 2 + 2])
        return [
            message(lambda: DeviceMesh.from_group([], "cpu")),
            message(lambda: DeviceMesh.from_group([0, 1], "cpu")),  # type: ignore[list-item]
            message(lambda: DeviceMesh.from_group([column, row], "cpu")),
            message(lambda: DeviceMesh.from_group([row, column], "cpu", [[0, 1], [2, 3]])),
            message(lambda: DeviceMesh.from_group(get_group(), "cpu", [[0, 1], [2, 3]])),
            message(lambda: DeviceMesh.from_group([column], "cpu", [0, 1, 2, 3])),
        ]

    got = run_threads(one, 4)
    assert got[3] == [
        "from_group: there is nothing in the list; give a group or communicator for each axis",
        "from_group: wanted a ProcessGroup for each axis, as get_group() gives; got [0, 1]",
        "from_group: 2 axes through one rank do not say who is elsewhere in the mesh; give mesh=, the global "
        "ranks of all in its shape",
        "from_group on rank 3: along the axes of the mesh [[0, 1], [2, 3]] this rank is with [1, 3], [2, 3], "
        "but what was given has [2, 3], [1, 3]; give one for each axis, in order",
        "from_group on rank 3: along the axes of the mesh [[0, 1], [2, 3]] this rank is with [[0, 1], [2, "
        "3]], but what was given has [0, 1, 2, 3]; give one for each axis, in order",
        "from_group on rank 3: along the axes of the mesh [0, 1, 2, 3] this rank is with [0, 1, 2, 3], but "
        "what was given has [1, 3]; give one for each axis, in order",
    ]


# ---- communicators


@pytest.mark.mpi(min_size=1)
def test_communicators_become_ranks_of_the_world() -> None:
    from mpi4py import MPI

    me, n = sw.rank(), sw.world_size()
    backwards = MPI.COMM_WORLD.Split(0, -me)
    mine = MPI.COMM_WORLD.Split(me % 2)
    assert communicator_ranks(MPI.COMM_WORLD).tolist() == list(range(n))
    assert communicator_ranks(MPI.COMM_SELF).tolist() == [me]
    assert communicator_ranks(backwards).tolist() == list(range(n))[::-1]
    assert communicator_ranks(mine).tolist() == list(range(me % 2, n, 2))
    mesh = DeviceMesh.from_comm(backwards, "cpu", mesh_dim_names=("dp",))
    backwards.Free()
    mine.Free()
    assert mesh.mesh.tolist() == list(range(n))[::-1]
    assert sw.all_reduce(np.array([me]), group=mesh.get_group("dp")).item() == n * (n - 1) // 2
    assert mesh.get_local_rank() == n - 1 - me


@pytest.mark.mpi(min_size=2)
def test_a_process_that_is_alone_is_rank_0() -> None:
    from mpi4py import MPI

    from shardwise.collectives.context import rank_thread
    from shardwise.collectives.thread.alone import alone_transport

    with rank_thread(alone_transport):
        assert communicator_ranks(MPI.COMM_SELF).tolist() == [0]
        assert DeviceMesh.from_comm(MPI.COMM_SELF).get_coordinate() == (0,)


@pytest.mark.mpi(min_size=4)
def test_a_cartesian_communicator_is_a_grid() -> None:
    from mpi4py import MPI

    cart = MPI.COMM_WORLD.Create_cart([2, 2], reorder=False)
    rows, columns = cart.Sub([False, True]), cart.Sub([True, False])
    mesh = DeviceMesh.from_comm(cart, mesh_dim_names=("dp", "tp"))
    assert mesh.mesh.tolist() == [[0, 1], [2, 3]]
    assert mesh.get_coordinate() == tuple(cart.coords)
    same = DeviceMesh.from_comm([columns, rows], "cpu", mesh.mesh, mesh_dim_names=("dp", "tp"))
    assert same == mesh
    assert DeviceMesh.from_comm(rows) == DeviceMesh("cpu", mesh["tp"].mesh)
    said = message(lambda: DeviceMesh.from_comm([rows, columns], "cpu", mesh.mesh))
    here = [mesh["dp"].mesh.tolist(), mesh["tp"].mesh.tolist()]
    assert said == (
        f"from_comm on rank {sw.rank()}: along the axes of the mesh [[0, 1], [2, 3]] this rank is with "
        f"{here[0]}, {here[1]}, but what was given has {here[1]}, {here[0]}; give one for each axis, in order"
    )
    for comm in (cart, rows, columns):
        comm.Free()


@pytest.mark.mpi(min_size=2)
def test_what_is_no_communicator_of_this_world() -> None:
    from mpi4py import MPI

    me = sw.rank()
    where = f"communicator_ranks on rank {me}"
    some = MPI.COMM_WORLD.Split(0 if me == 0 else MPI.UNDEFINED)
    if me:
        assert message(lambda: DeviceMesh.from_comm(some), CollectiveError) == (
            f"{where}: the communicator is null: it was freed, or this rank is not in it. Only the members "
            f"of a communicator know its ranks; others may use DeviceMesh(device_type, ranks)."
        )
    else:
        assert DeviceMesh.from_comm(some).mesh.tolist() == [0]
        some.Free()
    half = MPI.COMM_WORLD.Split(me == 0)
    both = half.Create_intercomm(0, MPI.COMM_WORLD, 1 if me == 0 else 0)
    assert message(lambda: communicator_ranks(both), CollectiveError) == (
        f"{where}: the communicator is an Intercomm, between two groups; Merge() makes one of both."
    )
    merged = both.Merge(me != 0)
    assert communicator_ranks(merged).tolist() == list(range(sw.world_size()))
    for comm in (merged, both, half):
        comm.Free()
    assert message(lambda: communicator_ranks(5), CollectiveError) == (  # type: ignore[arg-type]
        f"{where}: comm is int, wanted a communicator of mpi4py."
    )

    def thread(rank: int) -> str:
        return message(lambda: communicator_ranks(MPI.COMM_WORLD), CollectiveError)

    assert run_threads(thread, 3)[1] == (
        f"communicator_ranks on rank 1: the world of 3 goes over 'threads', so its ranks are not the "
        f"{sw.world_size()} processes of the communicator; start it with mpirun or `shardwise run`."
    )


@pytest.mark.mpi(min_size=4)
def test_ranks_dealt_out_over_hosts_under_mpi() -> None:
    """On ranks of one machine that take themselves for two hosts."""
    from mpi4py import MPI

    from shardwise.collectives.context import rank_thread
    from shardwise.collectives.mpi.transport import MPITransport

    sw.world_size()
    with rank_thread(lambda: MPITransport(MPI, hosts="abab")):
        mesh: Any = sw.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        assert mesh.mesh.tolist() == [[0, 2], [1, 3]]
        got = sw.all_reduce(np.array([sw.rank()]), group=mesh.get_group("tp"))
        assert got.item() == sum(mesh["tp"].mesh)
        sw.shutdown()
