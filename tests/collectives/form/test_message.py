"""Messages and objects, on threads and over MPI."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from shardwise import collectives as c
from shardwise.backend.errors import CollectiveError, CollectiveMismatchError


def ring_of_objects() -> None:
    rank, n = c.rank(), c.world_size()
    obj = {"rank": rank, "data": np.arange(rank + 1), "text": "x" * (100_000 * rank)}
    if n > 1:
        for turn in range(n):
            if turn == rank:
                c.send_object(obj, (rank + 1) % n, tag=1)
            if turn == (rank - 1) % n:
                got = c.recv_object(turn, tag=1)
                assert isinstance(got, dict)
                assert got["rank"] == turn
                assert got["data"].tolist() == list(range(turn + 1))
                assert len(got["text"]) == 100_000 * turn


def collective_objects() -> None:
    rank, n = c.rank(), c.world_size()
    everyone = c.all_gather_object(("x" * rank * 1000, rank))
    assert everyone == [("x" * each * 1000, each) for each in range(n)]
    for root in range(n):
        assert c.broadcast_object([rank], src=root) == [root]
        assert c.gather_object(rank, dst=root) == (list(range(n)) if rank == root else None)
        assert c.scatter_object_list([(root, i) for i in range(n)] if rank == root else None, root) == (
            root,
            rank,
        )
        filled = [root, "x"] if rank == root else [None, None, None]
        assert c.broadcast_object_list(filled, src=root) is filled
        assert filled == [root, "x"]
    assert c.all_to_all_object([(rank, i) for i in range(n)]) == [(i, rank) for i in range(n)]
    assert c.broadcast_object(None) is None
    mine = [rank]
    assert c.all_gather_object(mine)[rank] is not mine


def arrays_in_objects() -> None:
    """Large arrays arrive aligned, writable and as they were made; one that comes twice is one."""
    rank, n = c.rank(), c.world_size()
    large = np.arange(100_000.0) + rank
    obj = {
        "large": large,
        "again": large,
        "fortran": np.asfortranarray(np.arange(90_000.0).reshape(300, 300)),
        "strided": large[::-2],
        "narrow": np.arange(70_000, dtype=np.int8),
        "small": np.arange(3),
        "empty": np.empty((0, 2)),
        "bytes": bytes(200_000),
    }
    for got, owner in zip(c.all_gather_object(obj), range(n), strict=True):
        assert np.array_equal(got["large"], np.arange(100_000.0) + owner)
        assert got["large"] is got["again"]
        assert got["fortran"].flags.f_contiguous
        assert np.array_equal(got["fortran"], obj["fortran"])
        assert np.array_equal(got["strided"], got["large"][::-2])
        for key in ("large", "fortran", "strided", "narrow", "small"):
            assert got[key].flags.aligned
            assert got[key].flags.writeable
        assert got["empty"].shape == (0, 2)
        assert len(got["bytes"]) == 200_000
        got["large"][:] = -1.0
    assert large[0] == rank


def objects_and_arrays_of_one_tag() -> None:
    rank, n = c.rank(), c.world_size()
    peer = (rank + 1) % n
    if n > 1 and rank < 2:
        peer = 1 - rank
        if rank == 0:
            array = c.isend(np.ones(3), peer, tag=7)
            c.send_object("object", peer, tag=7)
            array.wait()
        else:
            assert c.recv_object(peer, tag=7) == "object"
            assert c.recv((3,), float, peer, tag=7).tolist() == [1.0, 1.0, 1.0]


def unpicklable() -> None:
    rank, n = c.rank(), c.world_size()
    obj = (lambda: None) if rank == n - 1 else rank
    with pytest.raises(CollectiveError) as caught:
        c.all_gather_object(obj)
    message = str(caught.value)
    assert message.startswith(
        f"all_gather_object on world, rank {rank}: rank {n - 1} cannot pickle function: "
    )
    with pytest.raises(CollectiveError, match=f"rank {n - 1} cannot pickle function"):
        c.broadcast_object(obj, src=n - 1)
    with pytest.raises(CollectiveError, match=f"rank {n - 1} cannot pickle function"):
        c.scatter_object_list([obj] * n if rank == n - 1 else None, src=n - 1)
    with pytest.raises(CollectiveError, match=f"rank {n - 1} cannot pickle function"):
        c.all_to_all_object([obj] * n)
    with pytest.raises(CollectiveError) as few:
        c.all_to_all_object([0] * (n if rank else n + 1))
    assert str(few.value) == (
        f"all_to_all_object on world, rank {rank}: rank 0 gave {n + 1} objects; wanted {n}, one for each "
        f"rank."
    )
    with pytest.raises(CollectiveError) as none:
        c.scatter_object_list()
    assert str(none.value) == (
        f"scatter_object_list on world, rank {rank}: rank 0 gave no objects; wanted {n}, one for each rank."
    )
    with pytest.raises(CollectiveError) as unsent:
        c.send_object(lambda: None, rank)
    assert str(unsent.value).startswith(f"send_object on rank {rank}: rank {rank} cannot pickle function: ")
    # and everyone is in step
    assert c.all_gather_object(rank) == list(range(n))


def out_of_order() -> None:
    """Tags are chosen by the receiver; messages of one tag keep their order."""
    rank, n = c.rank(), c.world_size()
    if n < 2 or rank > 1:
        return
    if rank == 0:
        works = [c.isend(np.array([i, tag]), 1, tag=tag) for i in range(4) for tag in (0, 1, 2)]
        for work in works:
            work.wait()
    else:
        for tag in (2, 0, 1):
            for i in range(4):
                out = np.empty(2, int)
                assert c.recv(src=0, tag=tag, out=out) is out
                assert out.tolist() == [i, tag]


def non_contiguous() -> None:
    rank, n = c.rank(), c.world_size()
    base = np.arange(12.0).reshape(3, 4)
    work = c.isend(base.T, (rank + 1) % n)
    out = np.zeros((3, 4)).T
    c.recv(src=(rank - 1) % n, out=out)
    work.wait()
    assert np.array_equal(out, base.T)


BODIES = (
    ring_of_objects,
    collective_objects,
    arrays_in_objects,
    objects_and_arrays_of_one_tag,
    unpicklable,
    out_of_order,
    non_contiguous,
)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("body", BODIES)
def test_on_threads(body: Callable[[], None], n: int) -> None:
    c.run_threads(lambda rank: body(), n)


@pytest.mark.mpi(min_size=1)
@pytest.mark.parametrize("body", BODIES)
def test_over_mpi(body: Callable[[], None]) -> None:
    body()


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize(
    ("sent", "wanted", "got"), [(2, 3, "8 bytes in place of 12"), (4, 3, "a longer message")]
)
def test_a_message_of_another_size_over_mpi(sent: int, wanted: int, got: str) -> None:
    rank = c.rank()
    if rank == 0:
        c.send(np.ones(sent, np.float32), 1)
    elif rank == 1:
        with pytest.raises(CollectiveMismatchError) as caught:
            c.recv((wanted,), np.float32, src=0)
        assert str(caught.value) == (
            f"rank 1 receives float32[{wanted}] from rank 0 with tag 0, which sent {got}; "
            f"send and receive the same shape and dtype."
        )


@pytest.mark.mpi(min_size=2)
def test_messages_make_no_group() -> None:
    """Two ranks talk while the others know nothing of it."""
    if c.rank() == 0:
        c.send(np.ones(3), c.world_size() - 1)
    elif c.rank() == c.world_size() - 1:
        assert c.recv((3,), float, src=0).sum() == 3.0
