"""Collectives on Tensors: the adjoint as backward, proved by <Ax, y> = <x, A*y> over all ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwise import collectives as c
from shardwise.backend.errors import AutogradError, DTypeError
from shardwise.collectives.adjoint.message import Recv, Send
from shardwise.tensor import Function, Tensor, grad, intercept, no_grad
from shardwise.tensor.signature import FlopCounter, known_shapes

Apply = Callable[[Tensor, int], Tensor | None]


def splits(n: int, rank: int) -> list[int]:
    """How many rows go from one rank to each: 0, 1 or 2, a few of each."""
    return [(rank + 2 * i) % 3 for i in range(n)]


LINEAR: dict[str, Apply] = {
    "all_reduce sum": lambda x, n: c.all_reduce(x),
    "all_reduce avg": lambda x, n: c.all_reduce(x, "avg"),
    "all_gather 0": lambda x, n: c.all_gather(x),
    "all_gather 1": lambda x, n: c.all_gather(x, dim=1),
    "reduce_scatter sum": lambda x, n: c.reduce_scatter(x),
    "reduce_scatter avg 1": lambda x, n: c.reduce_scatter(x, "avg", dim=1),
    "all_to_all": lambda x, n: c.all_to_all(x),
    "all_to_all 0 1": lambda x, n: c.all_to_all(x, split_dim=0, concat_dim=1),
    "all_gather by sizes": lambda x, n: c.all_gather(x[: c.rank()], sizes=range(n)),
    "all_gather by sizes 1": lambda x, n: c.all_gather(x[:, c.rank() :], dim=1, sizes=range(n, 0, -1)),
    "reduce_scatter by sizes": lambda x, n: c.reduce_scatter(x, sizes=[2 * n, *[0] * (n - 1)]),
    "reduce_scatter by sizes 1": lambda x, n: c.reduce_scatter(x, "avg", dim=1, sizes=[*[0] * (n - 1), n]),
    "gather by sizes": lambda x, n: c.gather(x[: c.rank()], dst=n - 1, sizes=range(n)),
    "scatter by sizes": lambda x, n: c.scatter(x, src=n - 1, sizes=[*[1] * (n - 1), n + 1]),
    "all_to_all by sizes": lambda x, n: c.all_to_all(
        x[:, c.rank() :],
        split_dim=0,
        concat_dim=1,
        split_sizes=[*[1] * (n - 1), n + 1],
        concat_sizes=range(n, 0, -1),
    ),
    "all_to_all by sizes of one dim": lambda x, n: c.all_to_all(x, split_sizes=[*[1] * (n - 1), n + 1]),
    "all_to_all_single": lambda x, n: c.all_to_all_single(x),
    "all_to_all_single by sizes": lambda x, n: c.all_to_all_single(
        x[: sum(splits(n, c.rank()))], [splits(n, i)[c.rank()] for i in range(n)], splits(n, c.rank())
    ),
    "scan": lambda x, n: c.scan(x),
    "scan reversed": lambda x, n: c.scan(x, reverse=True),
    "exscan": lambda x, n: c.exscan(x),
    "exscan reversed": lambda x, n: c.exscan(x, reverse=True),
    "broadcast": lambda x, n: c.broadcast(x, src=n - 1),
    "reduce sum": lambda x, n: c.reduce(x, dst=n - 1),
    "reduce avg": lambda x, n: c.reduce(x, 0, "avg"),
    "gather": lambda x, n: c.gather(x, dst=n - 1),
    "gather -1": lambda x, n: c.gather(x, dim=-1),
    "scatter": lambda x, n: c.scatter(x, src=n - 1),
    "scatter 1": lambda x, n: c.scatter(x, dim=1),
}


def check_adjoint(apply: Apply, dtype: str, seed: int) -> None:
    """On one rank of the world."""
    rank, n = c.rank(), c.world_size()
    rng = np.random.default_rng([seed, rank])

    def draw(shape: tuple[int, ...]) -> np.ndarray:  # type: ignore[type-arg]
        numbers = rng.standard_normal(shape)
        return (numbers + 1j * rng.standard_normal(shape) if dtype == "D" else numbers).astype(dtype)

    x = Tensor(draw((2 * n, n)), requires_grad=True)
    out = apply(x, n)
    assert isinstance(out, Tensor)
    y = draw(out.shape)
    out.backward(Tensor(y))
    assert x.grad is not None
    assert x.grad.shape == x.shape
    left, right = c.all_reduce(
        np.array([np.vdot(y, out.data).real, np.vdot(x.grad.data, x.data).real])
    ).tolist()
    assert left == pytest.approx(right, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", LINEAR)
def test_adjoint_on_threads(name: str) -> None:
    @given(st.integers(1, 4), st.integers(0, 1000))
    def law(n: int, seed: int) -> None:
        c.run_threads(lambda rank: check_adjoint(LINEAR[name], "d", seed), n)

    law()


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("dtype", ["d", "D"])
def test_adjoint_over_mpi(dtype: str) -> None:
    for apply in LINEAR.values():
        check_adjoint(apply, dtype, seed=1)


def test_adjoint_of_a_subgroup() -> None:
    def body(rank: int) -> None:
        group = c.get_group([2, 0])
        x = Tensor(np.full((2, 2), float(rank)), requires_grad=True)
        if rank == 1:
            return
        y = c.reduce_scatter(x, group=group)
        (y * float(rank + 1)).sum().backward()
        assert x.grad is not None
        # Part 0 is rank 2's, whose gradient is 3; part 1 is rank 0's, whose gradient is 1.
        assert x.grad.data.tolist() == [[3.0, 3.0], [1.0, 1.0]]

    c.run_threads(body, 3)


def test_extremes_share_their_gradient_evenly() -> None:
    def body(rank: int) -> list[float]:
        x = Tensor(np.array([[1.0, 5.0, 2.0], [1.0, 4.0, 3.0], [0.0, 5.0, 1.0]][rank]), requires_grad=True)
        (c.all_reduce(x, "max") * 2.0).sum().backward()
        assert x.grad is not None
        return x.grad.data.tolist()

    # The loss is the sum of every rank's, so each maximum counts three times, twice over.
    assert c.run_threads(body, 3) == [[3.0, 3.0, 0.0], [3.0, 0.0, 6.0], [0.0, 3.0, 0.0]]


def check_products(
    values: np.ndarray,  # type: ignore[type-arg]
    reduce: Callable[[Tensor], Tensor],
    scattered: bool,
) -> None:
    """On one rank: gradients of a product over ranks are those of a product over rows; row r is rank r's."""
    rank = c.rank()
    x = Tensor(values[rank].copy(), requires_grad=True)
    y = reduce(x)
    weight = np.arange(1.0, y.data.size + 1) + rank
    (first,) = grad((y * weight).sum(), [x], create_graph=True)
    (second,) = grad((first * first).sum(), [x])
    whole = Tensor(values, requires_grad=True)
    weights = c.all_gather(weight) if scattered else c.all_reduce(weight)
    (want,) = grad((whole.prod(0) * weights).sum(), [whole], create_graph=True)
    (want_second,) = grad((want * want).sum(), [whole])
    assert np.allclose(first.data, want.data[rank])
    assert np.allclose(second.data, want_second.data[rank])


@pytest.mark.parametrize("n", [2, 3])
def test_products_also_with_zeros(n: int) -> None:
    values = np.random.default_rng(n).standard_normal((n, 6))
    values[0, 0] = values[-1, 1] = values[0, 1] = 0.0

    def body(rank: int) -> None:
        check_products(values, lambda x: c.all_reduce(x, "prod"), scattered=False)
        check_products(values, lambda x: c.reduce_scatter(x, "prod"), scattered=True)

    c.run_threads(body, n)


@pytest.mark.parametrize("op", ["min", "max", "prod"])
def test_reductions_that_are_not_linear_have_one_gradient(op: str) -> None:
    """reduce and reduce_scatter give the parts of what all_reduce gives."""

    def body(rank: int) -> None:
        values = np.random.default_rng(rank).integers(0, 3, (4, 2)).astype(float)

        def gradient(of: Callable[[Tensor], Tensor | None], weight: Any) -> Any:
            x = Tensor(values.copy(), requires_grad=True)
            y = of(x)
            assert isinstance(y, Tensor)
            (y * weight).sum().backward()
            assert x.grad is not None
            return x.grad.data

        weight = np.arange(8.0).reshape(4, 2) + 1
        mine = weight if rank == 1 else np.zeros_like(weight)
        want = gradient(lambda x: c.all_reduce(x, op), mine)  # type: ignore[call-overload]
        assert np.array_equal(gradient(lambda x: c.reduce(x, 1, op), weight), want)  # type: ignore[call-overload]
        part = weight[2 * rank : 2 * rank + 2]
        assert np.array_equal(gradient(lambda x: c.reduce_scatter(x, op), part), want)  # type: ignore[call-overload]
        uneven = weight[[slice(0, 1), slice(1, 4)][rank]]
        assert np.array_equal(
            gradient(lambda x: c.reduce_scatter(x, op, sizes=[1, 3]), uneven),  # type: ignore[call-overload]
            want,
        )

    c.run_threads(body, 2)


@pytest.mark.parametrize("dtype", ["e", "bfloat16"])
def test_narrow_tensors_are_sent_narrow(dtype: str) -> None:
    def body(rank: int) -> None:
        x = Tensor(np.ones(4, np.dtype(dtype)), requires_grad=True)
        with c.explain() as moved:
            y = c.all_reduce(x)
            y.backward(Tensor(np.ones(4, np.dtype(dtype))))
        assert [record.dtype for record in moved.records] == [np.dtype(dtype)] * 2
        assert y.dtype == np.dtype(dtype)

    c.run_threads(body, 2)


def test_second_derivatives() -> None:
    def body(rank: int) -> None:
        x = Tensor(np.array([1.0 + rank, 2.0]), requires_grad=True)
        y = c.all_reduce(x * x * x)
        (first,) = grad((y * y).sum(), [x], create_graph=True)
        (second,) = grad(first.sum(), [x])
        values = [np.array([1.0 + i, 2.0]) for i in range(2)]
        s = sum(v**3 for v in values)
        # The loss L of all ranks is 2 s**2, with s = sum x_i**3; the gradient here is dL/dx, and what is
        # differentiated again is its sum over the elements and the ranks.
        mine = values[rank]
        assert np.allclose(first.data, 4 * s * 3 * mine**2)
        total = sum(3 * v**2 for v in values)
        assert np.allclose(second.data, 4 * s * 6 * mine + 4 * 3 * mine**2 * total)

    c.run_threads(body, 2)


def pass_along() -> None:
    """A value goes from rank 0 to the last rank, and its gradient comes back."""
    rank, n = c.rank(), c.world_size()
    w = Tensor(np.array([2.0, 3.0]), requires_grad=True)
    if rank == 0:
        h = w * 1.0
    else:
        h = c.recv((2,), float, src=rank - 1, tag=rank, requires_grad=True) * w
    if rank < n - 1:
        token = c.send(h, rank + 1, tag=rank + 1)
        assert isinstance(token, Tensor)
        assert token.shape == ()
        token.backward()
    else:
        h.sum().backward()
    assert w.grad is not None
    assert w.grad.data.tolist() == [2.0 ** (n - 1), 3.0 ** (n - 1)]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_messages_on_threads(n: int) -> None:
    c.run_threads(lambda rank: pass_along(), n)


@pytest.mark.mpi(min_size=2)
def test_messages_over_mpi() -> None:
    pass_along()


def test_tensors_without_grad() -> None:
    def body(rank: int) -> None:
        x = Tensor(np.array([1.0, 2.0]))
        got = c.all_reduce(x)
        assert isinstance(got, Tensor)
        assert not got.requires_grad
        work = c.all_reduce(x, async_op=True)
        assert isinstance(work.wait(), Tensor)
        out = Tensor(np.empty(2))
        count = out.version.count
        assert c.all_reduce(x, out=out) is out
        assert out.data.tolist() == [2.0, 4.0]
        assert out.version.count == count + 1
        assert c.send(x, rank) is None
        assert c.recv(src=rank, out=out) is out
        leaf = Tensor(np.array([1.0]), requires_grad=True)
        with no_grad():
            assert c.all_reduce(leaf, out=leaf) is leaf
        assert leaf.data.tolist() == [2.0]
        assert c.all_gather(Tensor(np.array(3.0), requires_grad=True)).shape == (2,)

    c.run_threads(body, 2)


def test_a_number_gathers_and_its_gradient_is_a_number() -> None:
    def body(rank: int) -> None:
        x = Tensor(np.array(float(rank)), requires_grad=True)
        (c.all_gather(x) * Tensor(np.array([1.0, 10.0]))).sum().backward()
        assert x.grad is not None
        assert x.grad.shape == ()
        assert x.grad.item() == [2.0, 20.0][rank]

    c.run_threads(body, 2)


@pytest.mark.parametrize("name", LINEAR)
def test_signatures_tell_the_shapes(name: str) -> None:
    def body(rank: int) -> None:
        seen = []

        def door(function: type[Function], args: tuple[Any, ...], params: dict[str, Any]) -> Any:
            out = function.apply(*args, **params)
            if function.__module__.startswith("shardwise.collectives"):
                seen.append((out.shape, known_shapes(function, (args[0].shape,), params)))
            return out

        with intercept(door):
            LINEAR[name](Tensor(np.ones((4, 2)), requires_grad=True), 2)
        ((shape, (known,)),) = seen
        assert len(known) == len(shape)
        assert all(told in (None, n) for told, n in zip(known, shape, strict=True))

    c.run_threads(body, 2)


def test_signatures_of_messages() -> None:
    assert known_shapes(Send, ((3, 4),), {"dst": 0}) == ((),)
    assert known_shapes(Recv, ((2,),), {"shape": (3, 4)}) == ((None, None),)
    assert known_shapes(Recv, ((),), {"shape": 3}) == ((None,),)
    with FlopCounter() as counter:
        c.all_gather(Tensor(np.ones((3, 4)), requires_grad=True))
    assert counter.by_op == {"AllGather": 12}


def test_what_would_lose_a_gradient_is_refused() -> None:
    x = Tensor(np.ones(2), requires_grad=True)
    for call in (lambda: c.all_reduce(x, async_op=True), lambda: c.all_reduce(x, out=Tensor(np.ones(2)))):
        with pytest.raises(AutogradError) as caught:
            call()
        assert str(caught.value) == (
            "all_reduce: out= and async_op=True are not recorded, and a tensor requires grad; leave them "
            "out, "
            "or say no_grad() or x.detach()."
        )
    with pytest.raises(AutogradError) as product:
        c.exscan(x, "prod")
    assert str(product.value) == (
        "exscan with op='prod' has no gradient; use all_gather, and cumulate along a dim."
    )
    with pytest.raises(DTypeError) as mixed:
        c.all_reduce(Tensor(np.ones(2)), out=np.ones(2))  # type: ignore[call-overload]
    assert str(mixed.value) == (
        "all_reduce: x and out must both be Tensors, or both arrays; one is ndarray, so give the .data of "
        "the other."
    )
