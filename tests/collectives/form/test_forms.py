"""Batched messages, exchanges between two ranks, lists of any shapes, PyTorch's tensor forms, barriers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from shardwise import collectives as c
from shardwise.backend.errors import (
    ArgumentError,
    CollectiveError,
    CollectiveMismatchError,
    CollectiveTimeoutError,
    DTypeError,
    ShapeError,
)
from shardwise.tensor import Tensor, grad


def batches() -> None:
    """Every rank to every rank, also to itself, twice, in lists of different orders."""
    rank, n = c.rank(), c.world_size()
    came = {(src, turn): np.empty(3, int) for src in range(n) for turn in range(2)}
    ops = [c.P2POp(c.isend, np.array([rank, dst, turn]), dst, turn) for dst in range(n) for turn in range(2)]
    ops += [c.P2POp(c.irecv, out, src, turn) for (src, turn), out in came.items()]
    order = np.random.default_rng(rank).permutation(len(ops)).tolist()
    works = c.batch_isend_irecv([ops[i] for i in order])
    for i, work in zip(order, works, strict=True):
        got = work.wait()
        assert got is (ops[i].x if ops[i].op is c.irecv else None)
    for (src, turn), out in came.items():
        assert out.tolist() == [src, rank, turn]
    tensor = Tensor(np.zeros(2))
    work, _ = c.batch_isend_irecv(
        [c.P2POp(c.irecv, tensor, (rank - 1) % n), c.P2POp(c.isend, Tensor(np.ones(2)), (rank + 1) % n)]
    )
    assert work.wait() is tensor
    assert tensor.tolist() == [1.0, 1.0]
    assert c.batch_isend_irecv([]) == []
    with pytest.raises(ArgumentError) as wrong:
        c.batch_isend_irecv([c.P2POp(c.isend, np.ones(1), rank), c.P2POp(c.recv, np.ones(1), 0)])
    assert str(wrong.value).startswith(f"batch_isend_irecv on rank {rank}: op 1 is <function recv at ")
    assert str(wrong.value).endswith("; wanted isend or irecv.")
    with pytest.raises(CollectiveError) as peer:
        c.batch_isend_irecv([c.P2POp(c.isend, np.ones(1), n)])
    assert str(peer.value) == (
        f"batch_isend_irecv on rank {rank}: peer={n}; wanted a global rank from 0 to {n - 1}."
    )


def around_the_ring() -> None:
    rank, n = c.rank(), c.world_size()
    after, before = (rank + 1) % n, (rank - 1) % n
    assert c.sendrecv(np.full((2, 3), rank), after, before).tolist() == [[before] * 3] * 2
    out = np.empty(before + 1)
    assert c.sendrecv(np.ones(rank + 1), after, before, out=out) is out
    assert c.sendrecv(np.ones(rank), after, before, 3, shape=(before,)).shape == (before,)
    large = np.full(300_000, float(rank))  # longer than a message that needs no receiver
    assert c.sendrecv(large, after, before, 1, 1)[-1] == before
    # <Ax, y> = <x, A*y>, A being the turn of the ring
    x = Tensor(np.arange(3.0) + rank, requires_grad=True)
    y = c.sendrecv(x, after, before)
    (g,) = grad((y * float(rank + 1)).sum(), [x])
    assert g.tolist() == [float(after + 1)] * 3


def lists_of_any_shapes() -> None:
    rank, n = c.rank(), c.world_size()
    got = c.all_gather_list(np.full((rank, 2), rank))
    assert [each.tolist() for each in got] == [[[i, i]] * i for i in range(n)]
    assert [each.shape for each in c.all_gather_list(np.array(3.0))] == [()] * n
    came = c.all_to_all_list([np.full((rank, i + 1), 10 * rank + i) for i in range(n)])
    assert [each.tolist() for each in came] == [[[10 * i + rank] * (rank + 1)] * i for i in range(n)]
    xs = [Tensor(np.arange(float(i + rank)), requires_grad=True) for i in range(n)]
    ys = c.all_to_all_list(xs)
    assert [y.shape for y in ys] == [(i + rank,) for i in range(n)]
    gradients = grad(sum((y * float(rank + 1)).sum() for y in ys), xs)  # type: ignore[arg-type]
    for i, g in enumerate(gradients):
        assert g.tolist() == [float(i + 1)] * (i + rank)
    z = Tensor(np.ones(rank + 1), requires_grad=True)
    (g,) = grad(sum((y * float(i + 1)).sum() for i, y in enumerate(c.all_gather_list(z))), [z])  # type: ignore[arg-type]
    assert g.tolist() == [float(n * (rank + 1))] * (rank + 1)
    with pytest.raises(ShapeError) as few:
        c.all_to_all_list([np.ones(1)] * (n + 1))
    assert str(few.value) == (
        f"all_to_all_list on world, rank {rank}: got {n + 1} arrays; wanted {n}, one for each rank of the "
        f"group."
    )
    if n > 1:
        with pytest.raises(DTypeError) as kinds:
            c.all_gather_list(np.ones(2, "f" if rank else "d"))
        assert str(kinds.value) == (
            f"all_gather_list on world, rank {rank}: ranks {list(range(n))} have dtypes "
            f"{['float64'] + ['float32'] * (n - 1)}; convert them to one."
        )


def filled_tensors() -> None:
    rank, n = c.rank(), c.world_size()
    mine = np.array([[1.0, 2.0]]) + rank
    want = np.concatenate([np.array([[1.0, 2.0]]) + i for i in range(n)])
    for shape in ((n, 2), (n, 1, 2)):
        output = np.empty(shape)
        assert c.all_gather_into_tensor(output, mine) is None
        assert np.array_equal(output, want.reshape(shape))
        tensor = Tensor(np.empty(shape))
        assert c.all_gather_into_tensor(tensor, Tensor(mine), async_op=True).wait() is tensor
        assert np.array_equal(tensor.data, want.reshape(shape))
        part = np.empty((1, 2))
        assert c.reduce_scatter_tensor(part, want.reshape(shape)) is None
        assert np.array_equal(part, n * want[rank : rank + 1])
        work = c.reduce_scatter_tensor(part, want.reshape(shape), "max", async_op=True)
        work.wait()
        assert np.array_equal(part, want[rank : rank + 1])
    strided = np.zeros((n, 4))[:, ::2]
    c.all_gather_into_tensor(strided, mine)
    assert np.array_equal(strided, want)
    with pytest.raises(ShapeError):
        c.all_gather_into_tensor(np.empty((n + 1, 2)), mine)


def barriers() -> None:
    for _ in range(3):
        c.monitored_barrier()
    work = c.barrier(async_op=True)
    assert work.wait() is None
    if c.world_size() > 1:
        pair = c.get_group([1, 0])
        if pair.rank is not None:
            c.monitored_barrier(pair, timeout=30.0)


BODIES = (batches, around_the_ring, lists_of_any_shapes, filled_tensors, barriers)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("body", BODIES)
def test_on_threads(body: Callable[[], None], n: int) -> None:
    c.run_threads(lambda rank: body(), n)


@pytest.mark.mpi(min_size=1)
@pytest.mark.parametrize("body", BODIES)
def test_over_mpi(body: Callable[[], None]) -> None:
    body()


def check_who_is_missing() -> None:
    """The last rank comes when the others have given up: they name it, and the next barrier is for all."""
    rank, n = c.rank(), c.world_size()
    c.barrier()
    if rank == n - 1:
        for other in range(n - 1):
            assert c.recv_object(other) == "given up"
        c.monitored_barrier()
    else:
        with pytest.raises(CollectiveTimeoutError) as caught:
            c.monitored_barrier(timeout=0.5)
        c.send_object("given up", n - 1)
        assert str(caught.value).startswith(
            f"monitored_barrier on world, rank {rank}: rank {n - 1} of {n} has not come within 0.5 s to "
            f"the barrier at "
        )
        assert "test_forms.py:" in str(caught.value)
        assert str(caught.value).endswith("; look what they wait for, or give them more time by timeout=.")
    c.barrier()
    c.monitored_barrier()


def test_who_is_missing_on_threads() -> None:
    c.run_threads(lambda rank: check_who_is_missing(), 3)


@pytest.mark.mpi(min_size=2)
def test_who_is_missing_over_mpi() -> None:
    check_who_is_missing()


def disagree_on_sizes() -> None:
    rank = c.rank()
    if rank > 1:
        return
    pair = c.new_group([0, 1])
    sent, came = ([1, 2], [1, 1]) if rank == 0 else ([1, 1], [1, 1])
    x = np.ones(sum(sent), np.float32)
    if rank == 0:
        try:
            c.all_to_all_single(x, came, sent, pair)
        except CollectiveMismatchError:
            assert c.get_world().transport.name == "threads"
    else:
        with pytest.raises(CollectiveMismatchError) as caught:
            c.all_to_all_single(x, came, sent, pair)
        assert str(caught.value) in (
            "ranks disagree on the sizes of what they exchange: rank 0 sends 2 elements to rank 1, which "
            "receives 1.",
            "ranks disagree on the sizes of what they exchange: rank 1 received a longer message from rank "
            "0.",
        )


def test_sizes_that_do_not_match_on_threads() -> None:
    c.run_threads(lambda rank: disagree_on_sizes(), 2)


@pytest.mark.mpi(min_size=2)
def test_sizes_that_do_not_match_over_mpi() -> None:
    disagree_on_sizes()
