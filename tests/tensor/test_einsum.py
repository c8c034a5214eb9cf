"""Einsum and what is made of it: NumPy's values, the order of contractions, messages."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shardwise as sw
from shardwise.backend import ShapeArray
from shardwise.errors import ArgumentError, AutogradError, ShapeError
from shardwise.tensor import Tensor
from shardwise.tensor.einsum import chain_matmul, einsum, tensordot
from shardwise.tensor.ops import product
from shardwise.tensor.ops.einsum import Einsum
from shardwise.tensor.ops.path import contraction_path
from shardwise.tensor.signature import FlopCounter, flops

SIZES = {"a": 2, "b": 3, "c": 4, "d": 1, "e": 2}


def draw(shape: tuple[int, ...], seed: int) -> Tensor:
    return sw.tensor(np.random.default_rng(seed).standard_normal(shape))


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_numpy_agrees(data: st.DataObject) -> None:
    terms = data.draw(st.lists(st.text("abcde", max_size=4), min_size=1, max_size=4))
    dots = [data.draw(st.booleans()) for _ in terms]
    shapes = [
        (*((1, 3) if i % 2 else (2, 1)), *(SIZES[c] for c in term)) if dot else tuple(SIZES[c] for c in term)
        for i, (term, dot) in enumerate(zip(terms, dots, strict=True))
    ]
    left = ",".join(f"...{term}" if dot else term for term, dot in zip(terms, dots, strict=True))
    equation = left
    if data.draw(st.booleans()):
        used = sorted(set("".join(terms)))
        out = data.draw(st.lists(st.sampled_from(used), unique=True)) if used else []
        equation = f"{left} -> {'...' if any(dots) else ''}{''.join(out)}"
    operands = [draw(shape, i) for i, shape in enumerate(shapes)]
    result = einsum(equation, *operands)
    expected = np.einsum(equation, *(x.data for x in operands))
    assert result.shape == expected.shape
    np.testing.assert_allclose(result.data, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("bqhd,bkhd->bhqk", ((2, 5, 3, 4), (2, 6, 3, 4))),
        ("ij,kj->ki", ((2, 3), (4, 3))),
        ("ij,jkl->lik", ((2, 3), (3, 4, 5))),
        ("ijkl,jmkl->imk", ((2, 3, 4, 5), (3, 6, 4, 5))),
        ("i,j->ji", ((2,), (3,))),
        ("ab,ab,ab->b", ((2, 3), (2, 3), (2, 3))),
        ("ij,jk,kl,lm,mn,no,op->ip", tuple((n, n + 1) for n in range(2, 9))),
        (",ij,->ji", ((), (2, 3), ())),
    ],
)
def test_transposed_and_interleaved(equation: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    operands = [draw(shape[::-1], i).T for i, shape in enumerate(shapes)]
    np.testing.assert_allclose(
        einsum(equation, *operands).data, np.einsum(equation, *(x.data for x in operands)), atol=1e-10
    )


def test_a_dim_of_size_one_broadcasts() -> None:
    a, b = draw((1, 3), 0), draw((4, 3), 1)
    np.testing.assert_allclose(einsum("ij,ij->i", a, b).data, (a.data * b.data).sum(1))
    np.testing.assert_allclose(einsum("ij,ij->j", a, b).data, (a.data * b.data).sum(0))
    np.testing.assert_allclose(einsum("ij,jk->ik", draw((2, 1), 0), draw((5, 2), 1)).shape, (2, 2))


def test_other_forms() -> None:
    a, b = draw((2, 3), 0), draw((3, 4), 1)
    expected = a.data @ b.data
    np.testing.assert_allclose(einsum(a, [0, 1], b, [1, 2], [0, 2]).data, expected)
    np.testing.assert_allclose(einsum(a, [0, 1], b, [1, 2]).data, expected)
    np.testing.assert_allclose(einsum(a, [..., 1], b, [1, 2], [..., 2]).data, expected)
    np.testing.assert_allclose(einsum("ij,jk", [a, b]).data, expected)
    np.testing.assert_allclose(np.einsum("ij,jk", a, b).data, expected)
    assert isinstance(np.einsum("ij,jk", a, b), Tensor)
    with pytest.raises(ArgumentError, match="a list of numbers for its dims, got Tensor"):
        einsum(a, b)
    with pytest.raises(ArgumentError, match="wanted numbers from 0 to 51 or Ellipsis for dims, got 52"):
        einsum(a, [0, 52])


def test_no_operand_is_copied_for_a_batched_product() -> None:
    """Attention's layout stays a view: every matrix of the batch lies where it was."""
    q = ShapeArray((2, 5, 3, 4), np.float32)
    assert Einsum.apply(q, q, equation="bqhd,bkhd->bhqk").shape == (2, 3, 5, 5)
    a, b = draw((2, 5, 3, 4), 0), draw((2, 6, 3, 4), 1)
    out = einsum("bqhd,bkhd->bhqk", a, b)
    assert out.is_contiguous()
    assert einsum("ij,kj->ki", draw((2, 3), 0), draw((4, 3), 1)).is_contiguous()


def test_gradients_are_contractions() -> None:
    a, b = sw.ones(2, 3), sw.ones(3, 4)
    a.requires_grad_()
    b.requires_grad_()
    out = einsum("ij,jk->ik", a, b).sum()
    with FlopCounter() as counter:
        einsum("ij,jk->ik", a, b)
    assert counter.by_op == {"Einsum": 2 * 2 * 3 * 4}
    out.backward()
    assert a.grad is not None
    assert a.grad.tolist() == [[4.0] * 3] * 2


def test_flops() -> None:
    assert flops(Einsum, ((2, 3), (3, 4)), {"equation": "ij,jk->ik"}) == 48
    assert flops(Einsum, ((2,), (3,)), {"equation": "i,j->ij"}) == 6


MESSAGES: list[tuple[str, tuple[tuple[int, ...], ...], str]] = [
    ("ij,jk->ik", ((2, 3),), "it names 2 operands, and got 1 of shapes ((2, 3),)"),
    (
        "ij,jk->ik",
        ((2, 3), (4, 5)),
        "the letter 'j' has size 3 in operand 0 and size 4 in operand 1 (shapes (2, 3) and (4, 5))",
    ),
    ("ij->k", ((2, 3),), "no operand has the letter 'k' of the result"),
    ("ij->ii", ((2, 3),), "the letter 'i' occurs 2 times in the result; once is allowed"),
    (
        "ii->i",
        ((2, 3),),
        "the letter 'i' repeats in operand 0 of shape (2, 3), so its dims 0 and 1 must be equal, and are 2 "
        "and 3",
    ),
    (
        "ijk->i",
        ((2, 3),),
        "the term 'ijk' names 3 dims, and operand 0 has shape (2, 3); write '...' for dims without a letter",
    ),
    (
        "i->i",
        ((2, 3),),
        "the term 'i' names 1 dim, and operand 0 has shape (2, 3); write '...' for dims without a letter",
    ),
    ("i1->i", ((2, 3),), "cannot read '1' in the term 'i1'; wanted letters, ',', '->' and '...'"),
    ("i...j...->i", ((2, 3),), "the term 'i...j...' has several ellipses; one is allowed"),
    (
        "...i,...i->...",
        ((2, 3), (4, 3)),
        "a dim of the ellipsis has size 2 in operand 0 and size 4 in operand 1 (shapes (2, 3) and (4, 3))",
    ),
]


@pytest.mark.parametrize(("equation", "shapes", "why"), MESSAGES)
def test_messages(equation: str, shapes: tuple[tuple[int, ...], ...], why: str) -> None:
    with pytest.raises(ShapeError) as caught:
        einsum(equation, *(sw.zeros(*shape) for shape in shapes))
    assert str(caught.value) == f"einsum {equation!r}: {why}"


@pytest.mark.parametrize("count", [3, 4, 5])
def test_the_order_is_the_cheapest(count: int) -> None:
    rng = np.random.default_rng(count)
    for _ in range(10):
        terms = ["".join(rng.choice(list("abcdef"), 3, replace=False)) for _ in range(count)]
        sizes = {c: int(rng.integers(1, 9)) for c in "abcdef"}
        ours = cost_of(contraction_path(terms, "a", sizes), terms, "a", sizes)
        assert ours == min(cost_of(path, terms, "a", sizes) for path in every_path(count))


def every_path(count: int) -> Any:
    pairs = [list(itertools.combinations(range(n), 2)) for n in range(count, 1, -1)]
    return itertools.product(*pairs)


def cost_of(path: Any, terms: list[str], output: str, sizes: dict[str, int]) -> int:
    left, total = [set(term) for term in terms], 0
    for i, j in path:
        other, one = left.pop(j), left.pop(i)
        total += math.prod(sizes[c] for c in one | other)
        left.append((one | other) & set(output).union(*left))
    return total


def test_many_operands_take_the_greedy_order() -> None:
    path = contraction_path(["ab", "bc", "cd", "de", "ef", "fg", "gh"], "ah", dict.fromkeys("abcdefgh", 5))
    assert len(path) == 6
    terms = [f"{c}{d}" for c, d in itertools.pairwise("abcdefgh")]
    assert cost_of(path, terms, "ah", dict.fromkeys("abcdefgh", 5)) == 6 * 125


def test_tensordot() -> None:
    a, b = draw((2, 3, 4), 0), draw((4, 3, 5), 1)
    for dims in (0, 1, ([1, 2], [1, 0]), ([-1], [0]), (2, 0)):
        x, y = a.data, b.data
        axes = ([2], [0]) if dims == (2, 0) else dims
        np.testing.assert_allclose(tensordot(a, b, dims).data, np.tensordot(x, y, axes), atol=1e-12)
    np.testing.assert_allclose(
        np.tensordot(a, b, axes=([1], [1])).data, np.tensordot(a.data, b.data, ([1], [1]))
    )
    with pytest.raises(
        ShapeError, match=r"tensordot: dim 2 of the first has size 4, and dim 1 of the second has size 3"
    ):
        tensordot(a, b, ([2], [1]))
    with pytest.raises(
        ArgumentError, match=r"wanted dims between 0 and 3 for shapes \(2, 3, 4\) and \(4, 3, 5\), got 4"
    ):
        tensordot(a, b, 4)
    with pytest.raises(ArgumentError, match="as many dims of each, and none twice"):
        tensordot(a, b, ([0, 1], [1]))


def test_chains() -> None:
    for sizes in ([2, 9, 3, 8, 1, 5, 4, 7], [3, 4, 5], [5, 6]):
        matrices = [draw(pair, i) for i, pair in enumerate(itertools.pairwise(sizes))]
        expected = np.eye(sizes[0])
        for m in matrices:
            expected = expected @ m.data
        np.testing.assert_allclose(chain_matmul(*matrices).data, expected, atol=1e-10)
    v, a, b = draw((3,), 0), draw((3, 4), 1), draw((4, 5), 2)
    np.testing.assert_allclose(product.multi_dot([v, a, b]).data, v.data @ a.data @ b.data)
    np.testing.assert_allclose(product.multi_dot([v, a, draw((4,), 3)]).shape, ())
    with FlopCounter() as counter:
        chain_matmul(sw.ones(10, 100), sw.ones(100, 5), sw.ones(5, 50))
    assert counter.total == 2 * (10 * 100 * 5 + 10 * 5 * 50)
    with pytest.raises(
        ShapeError,
        match=r"operand 0 of shape \(3, 4\) and operand 1 of shape \(3, 4\) do not fit: 4 is not 3",
    ):
        chain_matmul(a, a)
    with pytest.raises(
        ShapeError, match=r"wanted matrices, or vectors at the ends; operand 1 has shape \(3,\)"
    ):
        chain_matmul(a, v, a)
    with pytest.raises(ArgumentError, match="at least one matrix"):
        chain_matmul()


def test_strict_products() -> None:
    a, b, v = draw((2, 3), 0), draw((3, 4), 1), draw((3,), 2)
    np.testing.assert_array_equal(a.mm(b).data, a.data @ b.data)
    np.testing.assert_array_equal(a.mv(v).data, a.data @ v.data)
    np.testing.assert_array_equal(v.dot(v).data, v.data @ v.data)
    x, y = draw((5, 2, 3), 0), draw((5, 3, 4), 1)
    np.testing.assert_array_equal(x.bmm(y).data, x.data @ y.data)
    for call, message in (
        (lambda: a.mm(v), r"mm: wanted operands with 2 dims and 2 dims, got shapes \(2, 3\) and \(3,\)"),
        (lambda: a.mv(b), r"mv: wanted operands with 2 dims and 1 dim, got shapes \(2, 3\) and \(3, 4\)"),
        (lambda: v.dot(a), "dot: wanted operands with 1 dim and 1 dim"),
        (lambda: x.bmm(y[:2]), r"bmm: wanted batches of one size, got \(5, 2, 3\) and \(2, 3, 4\)"),
        (lambda: a.outer(v), "outer: wanted operands with 1 dim and 1 dim"),
        (lambda: a.inner(draw((2, 4), 0)), r"inner: the last dims differ in shapes \(2, 3\) and \(2, 4\)"),
        (
            lambda: v.addmm(a, b),
            r"addmm: an input of shape \(3,\) does not broadcast to the product's \(2, 4\)",
        ),
    ):
        with pytest.raises(ShapeError, match=message):
            call()


def test_products_of_other_kinds() -> None:
    a, b, v, w = draw((2, 3), 0), draw((4, 3), 1), draw((3,), 2), draw((5,), 3)
    np.testing.assert_allclose(a.inner(b).data, np.inner(a.data, b.data))
    np.testing.assert_allclose(a.inner(sw.tensor(2.0)).data, a.data * 2)
    np.testing.assert_array_equal(v.outer(w).data, np.outer(v.data, w.data))
    for x, y in ((a, b), (v, a), (a, draw((2, 1, 2), 4))):
        np.testing.assert_array_equal(x.kron(y).data, np.kron(x.data, y.data))
    z = sw.tensor(v.data + 1j * v.data[::-1])
    np.testing.assert_allclose(z.vdot(z).data, np.vdot(z.data, z.data))
    np.testing.assert_allclose(product.vecdot(a, v, dim=-1).data, np.vecdot(a.data, v.data))
    np.testing.assert_allclose(product.vecdot(a, a, dim=0).data, (a.data * a.data).sum(0))


def test_products_that_are_added() -> None:
    a, b, v, w = draw((2, 3), 0), draw((3, 4), 1), draw((3,), 2), draw((2,), 3)
    base = draw((4,), 4)
    np.testing.assert_allclose(base.addmm(a, b, beta=2, alpha=-1).data, 2 * base.data - a.data @ b.data)
    np.testing.assert_allclose(w.addmv(a, v, alpha=0.5).data, w.data + 0.5 * (a.data @ v.data))
    np.testing.assert_allclose(a.addr(w, v).data, a.data + np.outer(w.data, v.data))
    x, y = draw((5, 2, 3), 0), draw((5, 3, 4), 1)
    np.testing.assert_allclose(base.baddbmm(x, y).data, base.data + x.data @ y.data)
    np.testing.assert_allclose(base.addbmm(x, y, beta=3).data, 3 * base.data + (x.data @ y.data).sum(0))
    lost = sw.full((4,), np.nan)
    np.testing.assert_array_equal(lost.addmm(a, b, beta=0).data, a.data @ b.data)


def test_products_added_in_place() -> None:
    a, b, v, w = draw((2, 3), 0), draw((3, 4), 1), draw((3,), 2), draw((2,), 3)
    x, y = draw((5, 2, 3), 0), draw((5, 3, 4), 1)
    for name, base, operands in (
        ("addmm", draw((2, 4), 4), (a, b)),
        ("addmv", w.clone(), (a, v)),
        ("addr", a.clone(), (w, v)),
        ("baddbmm", draw((5, 2, 4), 4), (x, y)),
        ("addbmm", draw((2, 4), 4), (x, y)),
    ):
        expected = getattr(base, name)(*operands, beta=2, alpha=-1)
        memory = base.data
        assert getattr(base, f"{name}_")(*operands, beta=2, alpha=-1) is base
        assert base.data is memory
        np.testing.assert_array_equal(base.data, expected.data)
    weight = b.clone().requires_grad_()
    total = sw.zeros(2, 4, dtype=np.float64).addmm_(a, weight)
    total.sum().backward()
    assert weight.grad is not None
    np.testing.assert_allclose(weight.grad.data, a.data.T @ np.ones((2, 4)))
    with pytest.raises(AutogradError, match="addmm_"):
        weight.addmm_(draw((3, 2), 0), draw((2, 4), 1))
    with pytest.raises(ShapeError, match=r"addmm_.* into shape \(4,\)"):
        sw.zeros(4).addmm_(a, b)
