"""What a collective says of arguments that do not fit: alike on all ranks, before anything is sent."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from shardwise import collectives as c
from shardwise.backend.array import Array
from shardwise.backend.errors import CollectiveError, DTypeError, ShapeError, ShardwiseError
from shardwise.backend.select import get_backend

x = np.ones((4, 3), np.float32)
read_only = np.ones((4, 3), np.float32)
read_only.flags.writeable = False

FILLS = (
    "PyTorch's functions that fill what is given first have other names here, or return it; "
    "see the table in docs/how-to/from-pytorch.md."
)

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
        lambda: c.reduce_scatter(x, [x, x]),  # type: ignore[arg-type]
        CollectiveError,
        "reduce_scatter on world, rank {}: op is list, wanted one of sum, avg, prod, min, max, band, bor, "
        "bxor. " + FILLS,
    ),
    (
        lambda: c.all_reduce(x, [x, x]),  # type: ignore[arg-type]
        CollectiveError,
        "all_reduce on world, rank {}: op is list, wanted one of sum, avg, prod, min, max, band, bor, "
        "bxor. " + FILLS,
    ),
    (
        lambda: c.all_to_all_single(x, x),  # type: ignore[arg-type]
        DTypeError,
        "all_to_all_single on world, rank {}: output_split_sizes is ndarray of float32, wanted whole "
        "numbers. " + FILLS,
    ),
    (
        lambda: c.recv(x, src=0),  # type: ignore[call-overload]
        ShapeError,
        "recv on rank {}: shape is ndarray, wanted numbers; to fill it, give it as out=.",
    ),
    (
        lambda: c.irecv(x, src=0),  # type: ignore[call-overload]
        ShapeError,
        "recv on rank {}: shape is ndarray, wanted numbers; to fill it, give it as out=.",
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
    (
        lambda: c.all_gather(x, sizes=[4]),
        ShapeError,
        "all_gather on world, rank {}: sizes=[4]; wanted 2 numbers, one for each rank, none of them "
        "negative.",
    ),
    (
        lambda: c.reduce_scatter(x, sizes=[5, -1]),
        ShapeError,
        "reduce_scatter on world, rank {}: sizes=[5, -1]; wanted 2 numbers, one for each rank, none of them "
        "negative.",
    ),
    (
        lambda: c.gather(x, sizes=[3, 3]),
        ShapeError,
        "gather on world, rank {}: dim 0 of shape [4, 3] has 4 elements, but sizes[{}] says 3.",
    ),
    (
        lambda: c.scatter(x, dim=1, sizes=[1, 1]),
        ShapeError,
        "scatter on world, rank {}: dim 1 of shape [4, 3] has 3 elements, but the sum of sizes says 2.",
    ),
    (
        lambda: c.all_gather(x, sizes=[4, 4], out=np.empty((7, 3), np.float32)),
        ShapeError,
        "all_gather on world, rank {}: the result has shape [8, 3], out has [7, 3]; "
        "give out=numpy.empty((8, 3), 'float32').",
    ),
    (
        lambda: c.all_to_all(x, split_sizes=[1, 2]),
        ShapeError,
        "all_to_all on world, rank {}: dim 0 of shape [4, 3] has 4 elements, but the sum of split_sizes "
        "says 3.",
    ),
    (
        lambda: c.all_to_all(x, split_dim=0, concat_dim=1, concat_sizes=[2, 2]),
        ShapeError,
        "all_to_all on world, rank {}: dim 1 of shape [4, 3] has 3 elements, but concat_sizes[{}] says 2.",
    ),
    (
        lambda: c.all_to_all(x, split_sizes=[1, 3], concat_sizes=[2, 2]),
        ShapeError,
        "all_to_all on world, rank {}: split_sizes and concat_sizes are given along one dim; use "
        "all_to_all_single, which takes what this rank sends to each and gets from each.",
    ),
    (
        lambda: c.all_to_all_single(x, [1, 3], [1, 2]),
        ShapeError,
        "all_to_all_single on world, rank {}: dim 0 of shape [4, 3] has 4 elements, but the sum of "
        "input_split_sizes says 3.",
    ),
    (
        lambda: c.all_to_all_single(x, None, [1, 3]),
        ShapeError,
        "all_to_all_single on world, rank {}: input_split_sizes without output_split_sizes or out; say how "
        "much comes from each rank. If it is not known: all_to_all_single(numpy.array(input_split_sizes)).",
    ),
    (
        lambda: c.all_to_all_single(x, [1, 2, 3]),
        ShapeError,
        "all_to_all_single on world, rank {}: output_split_sizes=[1, 2, 3]; wanted 2 numbers, one for each "
        "rank, none of them negative.",
    ),
    (
        lambda: c.scan(x, "avg"),
        DTypeError,
        "scan on world, rank {}: a mean of means is not a mean; use op='sum', and divide by the number of "
        "ranks so far.",
    ),
    (
        lambda: c.exscan(np.ones(2, np.complex64), "max"),
        DTypeError,
        "exscan on world, rank {}: op='max' of dtype complex64: complex numbers have no order; reduce "
        "abs(x).",
    ),
    (
        lambda: c.all_gather([x, x], x),  # type: ignore[call-overload]
        CollectiveError,
        "all_gather on rank {}: group is ndarray, wanted a ProcessGroup. PyTorch's functions that fill "
        "what is given first have other names here, or return it; see the "
        "table in docs/how-to/from-pytorch.md.",
    ),
    (lambda: c.send(x, 2), CollectiveError, "send on rank {}: dst=2; wanted a global rank from 0 to 1."),
    (
        lambda: c.recv((3,), src=-1),
        CollectiveError,
        "recv on rank {}: src=-1; wanted a global rank from 0 to 1.",
    ),
    *(
        (
            message,
            CollectiveError,
            f"{op} on rank {{}}: tag is {got}, wanted a number. Messages take no group, as they do in "
            f"PyTorch: ranks are those of the world, and tag comes in its place.",
        )
        for op, got, message in (
            ("send", "ProcessGroup", lambda: c.isend(x, 0, c.get_group())),  # type: ignore[arg-type]
            ("send", "NoneType", lambda: c.send(x, 0, None)),  # type: ignore[call-overload]
            ("recv", "ProcessGroup", lambda: c.recv(src=0, tag=c.get_group(), out=x)),  # type: ignore[call-overload]
            (
                "batch_isend_irecv",
                "ProcessGroup",
                lambda: c.batch_isend_irecv([c.P2POp(c.isend, x, 0, c.get_group())]),  # type: ignore[arg-type]
            ),
        )
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
        assert str(caught.value) == message.format(rank, rank)
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
    sizes = [2 * i + 1 for i in range(n)]
    begin, end = rank * rank, (rank + 1) * (rank + 1)
    memory = np.zeros(n * n)
    memory[begin:end] = rank
    c.all_gather(memory[begin:end], sizes=sizes, out=memory)
    assert np.array_equal(memory, np.repeat(np.arange(n), sizes))
    memory = np.arange(float(n * n)) + rank
    c.reduce_scatter(memory, sizes=sizes, out=memory[begin:end])
    assert np.array_equal(memory[begin:end], n * np.arange(begin, end) + n * (n - 1) // 2)
    memory = np.full(n * n, float(rank))
    c.all_to_all_single(
        memory[: n * (rank + 1)], range(1, n + 1), [rank + 1] * n, out=memory[: n * (n + 1) // 2]
    )
    assert np.array_equal(memory[: n * (n + 1) // 2], np.repeat(np.arange(n), np.arange(1, n + 1)))
    memory = flat.copy()
    c.scan(memory[:-1], out=memory[1:])
    assert np.array_equal(memory[1:], sum(np.arange(4 * n - 1) + i for i in range(rank + 1)))


def test_arrays_without_data_give_shapes() -> None:
    def body(rank: int) -> None:
        def empty(*shape: int) -> Array:
            return get_backend("shape").empty(shape, np.dtype("f"))

        whole = empty(4, 3)
        with c.explain() as moved:
            assert c.all_gather(empty(rank, 3), sizes=[0, 1]).shape == (1, 3)
            assert c.reduce_scatter(whole, sizes=[1, 3]).shape == ([1, 3][rank], 3)
            assert c.scatter(whole, sizes=[3, 1]).shape == ([3, 1][rank], 3)
            assert c.gather(empty(rank, 3), sizes=[0, 1]).shape == (1, 3)  # type: ignore[union-attr]
            assert c.all_to_all_single(whole, [1, 2], [3, 1]).shape == (3, 3)
            turned = c.all_to_all(whole, None, 0, 1, split_sizes=[1, 3], concat_sizes=[3, 3])
            assert turned.shape == ([1, 3][rank], 6)
            assert c.scan(whole).shape == c.exscan(whole).shape == (4, 3)
            assert [x.shape for x in c.all_gather_coalesced([whole, empty(2)])] == [(8, 3), (4,)]
        assert len(moved.records) == 9

    c.run_threads(body, 2)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_overlaps_on_threads(n: int) -> None:
    c.run_threads(lambda rank: check_overlaps(), n)


@pytest.mark.mpi(min_size=2)
def test_overlaps_over_mpi() -> None:
    check_overlaps()
