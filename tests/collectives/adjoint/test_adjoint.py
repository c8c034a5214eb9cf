"""The adjoint test, <Ax, y> = <x, A*y>, over shapes, sizes, dims and world sizes; gradcheck across ranks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwise import collectives as c
from shardwise.backend.array import Array, Shape
from shardwise.tensor import Tensor, grad

Apply = Callable[[Tensor], Tensor | None]


def normal(rng: np.random.Generator, shape: Shape, dtype: str) -> Array:
    numbers = rng.standard_normal(shape)
    return (numbers + 1j * rng.standard_normal(shape) if dtype == "D" else numbers).astype(dtype)


def check_law(apply: Apply, shape: Shape, dtype: str, seed: int) -> None:
    """On one rank of the world, which holds an array of this shape."""
    rng = np.random.default_rng([seed, c.rank()])
    x = Tensor(normal(rng, shape, dtype), requires_grad=True)
    out = apply(x)
    assert isinstance(out, Tensor)
    y = normal(rng, out.shape, dtype)
    out.backward(Tensor(y))
    assert x.grad is not None
    assert x.grad.shape == x.shape
    assert x.grad.dtype == x.dtype
    left, right = c.all_reduce(
        np.array([np.vdot(y, out.data).real, np.vdot(x.grad.data, x.data).real])
    ).tolist()
    assert left == pytest.approx(right, rel=1e-11, abs=1e-11)


@st.composite
def uneven(draw: st.DrawFn) -> tuple[int, tuple[int, ...], int, list[int], str, int]:
    """World size, shape whose dim is to be shared, that dim, its sizes, a dtype and a seed."""
    n = draw(st.integers(1, 4))
    shape = tuple(draw(st.lists(st.integers(0, 3), min_size=1, max_size=3)))
    dim = draw(st.integers(0, len(shape) - 1))
    sizes = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    return n, shape, dim, sizes, draw(st.sampled_from("dD")), draw(st.integers(0, 1000))


@settings(max_examples=25)
@given(uneven())
def test_parts_of_any_size(case: tuple[int, tuple[int, ...], int, list[int], str, int]) -> None:
    n, shape, dim, sizes, dtype, seed = case

    def with_extent(extent: int) -> Shape:
        return (*shape[:dim], extent, *shape[dim + 1 :])

    def body(rank: int) -> None:
        own, whole = with_extent(sizes[rank]), with_extent(sum(sizes))
        root = seed % n
        laws: list[tuple[Apply, Shape]] = [
            (lambda x: c.all_gather(x, dim=dim, sizes=sizes), own),
            (lambda x: c.reduce_scatter(x, "avg", dim=dim, sizes=sizes), whole),
            (lambda x: c.gather(x, root, dim=dim, sizes=sizes), own),
            (lambda x: c.scatter(x, root, dim=dim, sizes=sizes), whole),
            (lambda x: c.all_to_all(x, split_dim=dim, split_sizes=sizes), whole),
            (
                lambda x: c.all_to_all(x, split_dim=dim, concat_sizes=sizes),
                with_extent(n * sizes[rank]),
            ),
        ]
        for apply, of in laws:
            check_law(apply, of, dtype, seed)

    c.run_threads(body, n)


@settings(max_examples=15)
@given(st.integers(1, 4), st.data())
def test_rows_of_a_matrix_of_sizes(n: int, data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.lists(st.integers(0, 3), min_size=n, max_size=n), min_size=n, max_size=n))
    before = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    after = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    dtype, seed = data.draw(st.sampled_from("dD")), data.draw(st.integers(0, 1000))

    def body(rank: int) -> None:
        came = [sizes[i][rank] for i in range(n)]
        check_law(lambda x: c.all_to_all_single(x, came, sizes[rank]), (sum(sizes[rank]), 2), dtype, seed)
        check_law(
            lambda x: c.all_to_all(x, split_dim=1, concat_dim=0, split_sizes=after, concat_sizes=before),
            (before[rank], sum(after)),
            dtype,
            seed,
        )
        after_rank, before_rank = (rank + 1) % n, (rank - 1) % n
        shape = (sizes[before_rank][0], 2)
        check_law(
            lambda x: c.sendrecv(x, after_rank, before_rank, shape=shape), (sizes[rank][0], 2), dtype, seed
        )

    c.run_threads(body, n)


@settings(max_examples=15)
@given(
    st.integers(1, 4),
    st.lists(st.integers(0, 3), max_size=3).map(tuple),
    st.sampled_from("dD"),
    st.integers(0, 1000),
)
def test_scans(n: int, shape: Shape, dtype: str, seed: int) -> None:
    def body(rank: int) -> None:
        for reverse in (False, True):
            check_law(lambda x: c.scan(x, reverse=reverse), shape, dtype, seed)  # noqa: B023
            check_law(lambda x: c.exscan(x, reverse=reverse), shape, dtype, seed)  # noqa: B023

    c.run_threads(body, n)


@pytest.mark.mpi(min_size=2)
def test_over_mpi() -> None:
    rank, n = c.rank(), c.world_size()
    sizes, rows = list(range(n)), [[(i + 2 * j) % 3 for j in range(n)] for i in range(n)]
    for dtype in "dD":
        check_law(lambda x: c.all_gather(x, dim=1, sizes=sizes), (2, rank), dtype, 1)
        check_law(lambda x: c.reduce_scatter(x, dim=1, sizes=sizes), (2, sum(sizes)), dtype, 2)
        came = [rows[i][rank] for i in range(n)]
        check_law(lambda x: c.all_to_all_single(x, came, rows[rank]), (sum(rows[rank]), 3), dtype, 3)  # noqa: B023
        check_law(c.scan, (5,), dtype, 4)
        check_law(lambda x: c.exscan(x, reverse=True), (3000,), dtype, 5)
        check_law(lambda x: c.sendrecv(x, (rank + 1) % n, (rank - 1) % n), (4,), dtype, 6)


OPS: dict[str, Callable[[Tensor, int], Tensor | None]] = {
    "all_reduce prod": lambda x, n: c.all_reduce(x, "prod"),
    "all_reduce max": lambda x, n: c.all_reduce(x, "max"),
    "all_reduce min": lambda x, n: c.all_reduce(x, "min"),
    "all_reduce avg": lambda x, n: c.all_reduce(x, "avg"),
    "reduce prod": lambda x, n: c.reduce(x, n - 1, "prod"),
    "reduce max": lambda x, n: c.reduce(x, 0, "max"),
    "reduce_scatter prod": lambda x, n: c.reduce_scatter(x, "prod"),
    "reduce_scatter min": lambda x, n: c.reduce_scatter(x, "min", sizes=[2 * n, *[0] * (n - 1)]),
    "scan": lambda x, n: c.scan(x),
    "coalesced": lambda x, n: c.all_reduce_coalesced([x, x * x], "prod")[1],
    "list": lambda x, n: c.all_gather_list(x[c.rank() :])[n - 1],
}


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("name", OPS)
def test_gradients_are_those_of_differences(name: str, n: int) -> None:
    """The loss of all ranks moves with one element of one rank as its gradient says."""

    def body(rank: int) -> None:
        values = np.random.default_rng([5, rank]).standard_normal(2 * n)
        values[0] *= rank > 0  # a zero among the factors

        def loss(array: Array) -> tuple[Tensor, Tensor]:
            x = Tensor(array, requires_grad=True)
            y = OPS[name](x, n)
            assert isinstance(y, Tensor)
            return x, (y * y * (np.arange(1.0, y.shape[0] + 1) + rank)).sum()

        x, total = loss(values)
        (mine,) = grad(total, [x])
        for owner in range(n):
            for i in range(2 * n):
                step = np.zeros(2 * n)
                step[i] = 1e-6 if rank == owner else 0.0
                up, down = (float(c.all_reduce(loss(values + sign * step)[1].data)) for sign in (1.0, -1.0))
                if rank == owner:
                    assert (up - down) / 2e-6 == pytest.approx(mine.data[i], rel=1e-5, abs=1e-6)

    c.run_threads(body, n)
