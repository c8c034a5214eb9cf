"""What a collective says of arguments that do not fit: alike on all ranks, before anything is sent."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from shardwise import collectives as c
from shardwise.backend.errors import CollectiveError, DTypeError, ShapeError, ShardwiseError

x = np.ones((4, 3), np.float32)
read_only = np.ones((4, 3), np.float32)
read_only.flags.writeable = False

CASES: list[tuple[Callable[[], object], type[ShardwiseError], str]] = [
    (
        lambda: c.all_gather(x, dim=2),
        ShapeError,
        "all_gather on world, rank {}: dim=2 of an array with 2 dims; choose one from -2 to 1.",
    ),
    (
        lambda: c.reduce_scatter(np.float32(1)),
        ShapeError,
        "reduce_scatter on world, rank {}: dim=0 of an array with 0 dims; reshape it to one dim first, "
        "x.reshape(1).",
    ),
    (
        lambda: c.reduce_scatter(x, dim=1),
        ShapeError,
        "reduce_scatter on world, rank {}: dim 1 of shape [4, 3] has 3 elements, which 2 ranks cannot share "
        "equally; pad it to 4, or use a group whose size divides 3.",
    ),
    (
        lambda: c.all_to_all(x, split_dim=1),
        ShapeError,
        "all_to_all on world, rank {}: dim 1 of shape [4, 3] has 3 elements, which 2 ranks cannot share "
        "equally; pad it to 4, or use a group whose size divides 3.",
    ),
    (
        lambda: c.all_to_all(x, concat_dim=5),
        ShapeError,
        "all_to_all on world, rank {}: concat_dim=5 of an array with 2 dims; choose one from -2 to 1.",
    ),
    (
        lambda: c.broadcast(x, src=2),
        CollectiveError,
        "broadcast on world, rank {}: src=2 is not one of its global ranks [0, 1]; src counts in the world, "
        "and "
        "group.ranks[i] gives it for rank i of the group.",
    ),
    (
        lambda: c.reduce(x, dst=-1),
        CollectiveError,
        "reduce on world, rank {}: dst=-1 is not one of its global ranks [0, 1]; dst counts in the world, "
        "and "
        "group.ranks[i] gives it for rank i of the group.",
    ),
    (
        lambda: c.broadcast(None),
        ShapeError,
        "broadcast on world, rank {}: neither x nor out is given; only a rank that is not src may leave out "
        "x, "
        "and it gives out= to say which shape and dtype comes.",
    ),
    (
        lambda: c.all_reduce(np.array([{}, None])),
        DTypeError,
        "all_reduce on world, rank {}: wanted an array of numbers, got ndarray of dtype object; "
        "use all_gather_object for Python objects.",
    ),
    (
        lambda: c.all_reduce(np.ones(3, int), "avg"),
        DTypeError,
        "all_reduce on world, rank {}: op='avg' of dtype int64 would not be an integer; convert first, "
        "x.astype('float64'), or use op='sum' and divide.",
    ),
    (
        lambda: c.all_reduce(x, out=np.empty((3, 4), np.float32)),
        ShapeError,
        "all_reduce on world, rank {}: the result has shape [4, 3], out has [3, 4]; "
        "give out=numpy.empty((4, 3), 'float32').",
    ),
    (
        lambda: c.all_gather(x, out=np.empty((8, 3), np.float64)),
        DTypeError,
        "all_gather on world, rank {}: the result has dtype float32, out has float64; "
        "give out=numpy.empty((8, 3), 'float32').",
    ),
    (
        lambda: c.all_reduce(x, out=read_only),
        ShapeError,
        "all_reduce on world, rank {}: out is read-only; give a writable array.",
    ),
    (
        lambda: c.all_reduce(x, out=[0.0]),  # type: ignore[call-overload]
        DTypeError,
        "all_reduce on world, rank {}: out must be a numpy.ndarray, got list.",
    ),
    (lambda: c.send(x, 2), CollectiveError, "send on rank {}: dst=2; wanted a global rank from 0 to 1."),
    (
        lambda: c.recv((3,), src=-1),
        CollectiveError,
        "recv on rank {}: src=-1; wanted a global rank from 0 to 1.",
    ),
    (lambda: c.send(x, 0, tag=-1), CollectiveError, "send on rank {}: tag=-1; choose one from 0 to 1048575."),
    (lambda: c.recv(), ShapeError, "recv on rank {}: neither shape nor out is given; say what comes."),
    (
        lambda: c.recv((3,), object),
        DTypeError,
        "recv on rank {}: dtype object cannot be received; use recv_object.",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), CASES, ids=[message[:60] for *_, message in CASES])
def test_message(call: Callable[[], object], kind: type[ShardwiseError], message: str) -> None:
    def body(rank: int) -> None:
        with pytest.raises(ShardwiseError) as caught:
            call()
        assert type(caught.value) is kind
        assert str(caught.value) == message.format(rank)
        c.barrier()  # nobody is left in a collective

    c.run_threads(body, 2)


def test_a_root_counts_in_the_world() -> None:
    def body(rank: int) -> None:
        group = c.get_group([2, 1])
        if rank:
            assert c.broadcast(np.array(rank), src=2, group=group) == 2
            with pytest.raises(
                CollectiveError, match=r"^broadcast on ranks 2,1, rank \d: src=0 is not one of"
            ):
                c.broadcast(np.array(rank), src=0, group=group)

    c.run_threads(body, 3)


def test_arrays_of_any_make() -> None:
    """Views, transposes, Fortran order, foreign byte order, lists, numbers and scalars are all inputs."""
    base = np.arange(24.0).reshape(4, 6)

    def body(rank: int) -> None:
        for made in (
            base[::2, 1::2],
            base.T,
            np.asfortranarray(base),
            base[::-1],
            base.astype(">f8"),
            read_only,
        ):
            before = made.copy()
            assert np.array_equal(c.all_reduce(made), 2 * made)
            assert np.array_equal(c.all_gather(made, dim=1), np.concatenate([made, made], 1))
            assert np.array_equal(made, before)
            out = np.empty(made.shape[::-1], made.dtype.newbyteorder("=")).T
            assert c.all_reduce(made, out=out) is out
            assert np.array_equal(out, 2 * made)
        assert c.all_reduce([1, 2]).tolist() == [2, 4]
        assert c.all_reduce(1.5).item() == 3.0
        assert c.all_reduce(np.float32(2)).dtype == np.float32

    c.run_threads(body, 2)


def check_overlaps() -> None:
    """In place, in every way in which input and output may share memory."""
    rank, n = c.rank(), c.world_size()
    flat = np.arange(float(n * 4)) + rank
    total = sum(np.arange(float(n * 4)) + i for i in range(n))
    memory = flat.copy()
    c.all_reduce(memory[:], out=memory)
    assert np.array_equal(memory, total)
    memory = flat.copy()
    c.all_reduce(memory[:-1], out=memory[1:])
    assert np.array_equal(memory[1:], total[:-1])
    memory = flat.copy()
    own = memory[4 * rank : 4 * rank + 4]
    c.reduce_scatter(memory, out=own)
    assert np.array_equal(own, total[4 * rank : 4 * rank + 4])
    memory = np.zeros(4 * n)
    memory[4 * rank : 4 * rank + 4] = rank
    c.all_gather(memory[4 * rank : 4 * rank + 4], out=memory)
    assert np.array_equal(memory, np.repeat(np.arange(n), 4))
    memory = flat.copy()
    c.all_gather(memory[:4], out=memory)
    assert np.array_equal(memory, np.concatenate([np.arange(4) + i for i in range(n)]))
    memory = flat.copy()
    c.all_to_all(memory, out=memory)
    assert np.array_equal(memory, np.concatenate([np.arange(4) + 4 * rank + i for i in range(n)]))
    memory = flat.copy()
    c.scatter(memory, out=memory[:4])
    assert np.array_equal(memory[:4], np.arange(4) + 4 * rank)
    memory = flat.copy()
    c.broadcast(memory, src=n - 1, out=memory)
    assert np.array_equal(memory, np.arange(4 * n) + n - 1)
    c.reduce(memory, out=memory)
    assert np.array_equal(memory, (np.arange(4 * n) + n - 1) * (n if rank == 0 else 1))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_overlaps_on_threads(n: int) -> None:
    c.run_threads(lambda rank: check_overlaps(), n)


@pytest.mark.mpi(min_size=2)
def test_overlaps_over_mpi() -> None:
    check_overlaps()
