"""Lists of arrays give what each array gives, in few operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ranks.definition import BFLOAT16, inputs, reduced, same
from shardwise import collectives as c
from shardwise.backend.array import Array
from shardwise.backend.errors import AutogradError, DTypeError, ShapeError, ShardwiseError
from shardwise.tensor import Tensor


def lists(n: int) -> list[list[Array]]:
    """For each of several arrays, small and large, of several dtypes, every rank's."""
    shapes = [
        ((2 * n, 3), "f"),
        ((n,), "d"),
        ((3 * n,), "f"),
        ((0, 4), "f"),
        ((n, 40_000), "d"),
        ((n, 2, 2), BFLOAT16),
    ]
    return [inputs(n, shape, np.dtype(dtype), seed) for seed, (shape, dtype) in enumerate(shapes)]


def check_lists(wait: Callable[[Any], Any], background: bool) -> None:
    """On one rank of the world: each function, with and without `out`."""
    rank, n = c.rank(), c.world_size()
    every = lists(n)
    xs = [each[rank] for each in every]
    how: dict[str, Any] = {"async_op": True} if background else {}

    def hold(function: Callable[..., Any], wants: list[Array], *args: Any) -> None:
        for got, want in zip(wait(function(xs, *args, **how)), wants, strict=True):
            same(got, want)
        out = [np.empty_like(want) for want in wants]
        given = wait(function(xs, *args, out=out, **how))
        for got, room, want in zip(given, out, wants, strict=True):
            assert got is room
            same(got, want)

    sums = [reduced("sum", each) for each in every]
    hold(c.all_reduce_coalesced, sums)
    hold(c.all_reduce_coalesced, [reduced("max", each) for each in every], "max")
    hold(c.all_gather_coalesced, [np.concatenate(each) for each in every])
    hold(c.reduce_scatter_coalesced, [np.split(total, n)[rank] for total in sums])
    hold(c.broadcast_coalesced, [each[n - 1] for each in every], n - 1)
    fresh = [x.copy() for x in xs]
    given = wait(c.all_reduce_coalesced(fresh, out=fresh, **how))
    for got, x, want in zip(given, fresh, sums, strict=True):
        assert got is x
        same(x, want)
    assert wait(c.all_reduce_coalesced([], **how)) == []
    assert [each.tolist() for each in wait(c.all_gather_coalesced([np.array(rank)], **how))] == [
        list(range(n))
    ]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_on_threads(n: int) -> None:
    def body(rank: int) -> None:
        check_lists(lambda got: got, background=False)
        check_lists(lambda work: work.wait(), background=True)

    c.run_threads(body, n)


@pytest.mark.mpi(min_size=2)
def test_over_mpi() -> None:
    check_lists(lambda got: got, background=False)
    check_lists(lambda work: work.wait(), background=True)


def test_small_arrays_of_one_dtype_go_together() -> None:
    def body(rank: int) -> None:
        xs = [np.ones(3, np.float32), np.ones(2), np.ones((2, 2), np.float32), np.ones(100_000, np.float32)]
        with c.explain() as moved:
            c.all_reduce_coalesced(xs)
        assert [(record.dtype.char, record.shape) for record in moved.records] == [
            ("f", (7,)),
            ("d", (2,)),
            ("f", (100_000,)),
        ]

    c.run_threads(body, 2)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_tensors_are_recorded(n: int) -> None:
    """The gradients are those of the functions on single tensors."""

    def body(rank: int) -> None:
        pairs: list[tuple[Callable[..., list[Tensor]], Callable[..., Any], tuple[Any, ...]]] = [
            (c.all_reduce_coalesced, c.all_reduce, ("sum",)),
            (c.all_gather_coalesced, c.all_gather, ()),
            (c.reduce_scatter_coalesced, c.reduce_scatter, ("avg",)),
            (c.broadcast_coalesced, c.broadcast, (n - 1,)),
        ]
        for many, one, args in pairs:
            gradients = []
            for together in (True, False):
                rng = np.random.default_rng(rank)
                xs = [Tensor(rng.standard_normal((n, 2)), requires_grad=True) for _ in range(3)]
                ys = many(xs, *args) if together else [one(x, *args) for x in xs]
                loss = sum((y * y * float(i + 1 + rank)).sum() for i, y in enumerate(ys))
                loss.backward()  # type: ignore[union-attr]
                gradients.append([x.grad.data for x in xs])  # type: ignore[union-attr]
            assert all(np.allclose(a, b) for a, b in zip(*gradients, strict=True))

    c.run_threads(body, n)


def test_tensors_that_are_not_recorded() -> None:
    def body(rank: int) -> None:
        xs = [Tensor(np.array([1.0, 2.0])), Tensor(np.array([3.0]))]
        got = c.all_reduce_coalesced(xs, async_op=True).wait()
        assert [type(each) for each in got] == [Tensor, Tensor]
        assert [each.tolist() for each in got] == [[2.0, 4.0], [6.0]]
        counts = [x.version.count for x in xs]
        assert all(a is b for a, b in zip(c.all_reduce_coalesced(xs, out=xs), xs, strict=True))
        assert [x.tolist() for x in xs] == [[2.0, 4.0], [6.0]]
        assert [x.version.count for x in xs] == [count + 1 for count in counts]
        leaf = Tensor(np.ones(2), requires_grad=True)
        with pytest.raises(AutogradError):
            c.all_reduce_coalesced([leaf, leaf], async_op=True)

    c.run_threads(body, 2)


def test_messages() -> None:
    x = np.ones((4, 3), np.float32)
    cases: list[tuple[Callable[[], object], type[ShardwiseError], str]] = [
        (
            lambda: c.all_reduce_coalesced([x, x], out=[x]),
            ShapeError,
            "all_reduce_coalesced on world, rank {}: out has 1 arrays, xs has 2.",
        ),
        (
            lambda: c.all_gather_coalesced([x], out=[np.empty((4, 3), np.float32)]),
            ShapeError,
            "all_gather_coalesced on world, rank {}: the result has shape [8, 3], out has [4, 3]; "
            "give out=numpy.empty((8, 3), 'float32').",
        ),
        (
            lambda: c.all_reduce_coalesced([x, np.ones(2, int)], "avg"),
            DTypeError,
            "all_reduce_coalesced on world, rank {}: op='avg' of dtype int64 would not be an integer; "
            "convert first, x.astype('float64'), or use op='sum' and divide.",
        ),
        (
            lambda: c.reduce_scatter_coalesced([x, np.ones(3)]),
            ShapeError,
            "reduce_scatter_coalesced on world, rank {}: dim 0 of shape [3] has 3 elements, which 2 ranks "
            "cannot share equally; pad it to 4, or use a group whose size divides 3.",
        ),
    ]

    def body(rank: int) -> None:
        for call, kind, message in cases:
            with pytest.raises(kind) as caught:
                call()
            assert str(caught.value) == message.format(rank)
        c.barrier()

    c.run_threads(body, 2)
