"""Sums of products over named dims: two operands by one matrix product, several two by two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.conjugate import conj
from shardwise.tensor.ops.equation import plan_of
from shardwise.tensor.ops.matmul import product
from shardwise.tensor.ops.triangle import Diagonal

__all__ = ["Einsum", "einsum"]


class Einsum(Function):
    """The sum of products of two operands; no letter repeats within one, none is summed in one alone.

    Its gradients are ops of the same kind: of ``"ij,jk->ik"`` they are ``"ik,jk->ij"`` and ``"ik,ij->jk"``.
    """

    precision = "narrow"
    reduces = "sum"
    linear = "each"

    @staticmethod
    def signature(shapes: tuple[tuple[int, ...], ...], params: dict[str, Any]) -> str:
        equation: str = params["equation"]
        return equation

    @staticmethod
    def flops(shapes: tuple[tuple[int, ...], ...], params: dict[str, Any]) -> int:
        left, right, out = _terms(params["equation"])
        sizes = dict(zip(left + right, shapes[0] + shapes[1], strict=True))
        return math.prod(sizes.values()) * (2 if set(left + right) - set(out) else 1)

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array, equation: str) -> Array:
        ctx.equation = equation
        ctx.save(a if ctx.need[1] else None, b if ctx.need[0] else None)
        left, right, out = _terms(equation)
        if set(left) & set(right) <= set(out):
            return _aligned(a, left, out) * _aligned(b, right, out)
        return _contracted(a, left, b, right, out)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b = ctx.saved
        left, right, out = _terms(ctx.equation)
        da = Einsum.apply(g, conj(b), equation=f"{out},{right}->{left}") if ctx.need[0] else None
        db = Einsum.apply(g, conj(a), equation=f"{out},{left}->{right}") if ctx.need[1] else None
        return da, db


def einsum(equation: str, operands: Sequence[Any]) -> Any:
    """Return the sum of products that an equation describes; see `shardwise.tensor.einsum`.

    Parameters
    ----------
    equation : str
    operands : sequence of arrays or Tensors
    """
    plan = plan_of(equation, tuple([tuple(operand.shape) for operand in operands]))
    arrays = [
        _prepared(operand, term, kept)
        for operand, term, kept in zip(operands, plan.terms, plan.kept, strict=True)
    ]
    terms = list(plan.kept)
    for first, second in plan.path:
        b, right = arrays.pop(second), terms.pop(second)
        a, left = arrays.pop(first), terms.pop(first)
        needed = set(plan.output).union(*terms)
        out = plan.output if not terms else "".join(c for c in dict.fromkeys(left + right) if c in needed)
        arrays.append(Einsum.apply(a, b, equation=f"{left},{right}->{out}"))
        terms.append(out)
    return _ordered(arrays[0], terms[0], plan.output)


def _prepared(a: Any, term: str, kept: str) -> Any:
    """Take diagonals, sum over what nobody else has, drop the dims of size one that broadcast."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            first = term.index(letter)
            second = term.index(letter, first + 1)
            a = Diagonal.apply(a, offset=0, dim1=first, dim2=second)
            term = term[:first] + term[first + 1 : second] + term[second + 1 :] + letter
    summed = tuple([i for i, letter in enumerate(term) if letter not in kept and a.shape[i] != 1])
    if summed:
        a = np.sum(a, axis=summed)
        term = "".join([letter for i, letter in enumerate(term) if i not in summed])
    if len(term) > len(kept):
        a = np.reshape(a, tuple([n for n, letter in zip(a.shape, term, strict=True) if letter in kept]))
        term = "".join([letter for letter in term if letter in kept])
    return _ordered(a, term, kept)


def _terms(equation: str) -> tuple[str, str, str]:
    inputs, _, out = equation.partition("->")
    left, _, right = inputs.partition(",")
    return left, right, out


def _ordered(a: Any, term: str, wanted: str) -> Any:
    return a if term == wanted else np.transpose(a, tuple([term.index(letter) for letter in wanted]))


def _aligned(a: Array, term: str, out: str) -> Array:
    """Bring the dims into the order of `out`, with size one where a letter is missing."""
    a = _ordered(a, term, "".join([letter for letter in out if letter in term]))
    missing = tuple([i for i, letter in enumerate(out) if letter not in term])
    return np.expand_dims(a, missing) if missing else a


def _contracted(a: Array, left: str, b: Array, right: str, out: str) -> Array:
    """Multiply as matrices: letters of both and the result are batch dims, those of both alone are summed."""
    free_a = "".join([letter for letter in left if letter in out and letter not in right])
    free_b = "".join([letter for letter in right if letter in out and letter not in left])
    if free_a and free_b and min(map(out.index, free_b)) < min(map(out.index, free_a)):
        # the result's rows come from b: swapped, it needs no transposing
        a, left, free_a, b, right, free_b = b, right, free_b, a, left, free_a
    batch = "".join([letter for letter in out if letter in left and letter in right])
    larger = left if a.size >= b.size else right  # which is better not copied
    summed = "".join(
        [letter for letter in larger if letter in left and letter in right and letter not in out]
    )
    rows = _matrices(a, left, batch, free_a, summed)
    columns = _matrices(b, right, batch, free_b, summed)
    matrices = product(rows, np.swapaxes(columns, -1, -2))
    sizes = dict(zip(left + right, a.shape + b.shape, strict=True))
    free = free_a + free_b
    split = np.reshape(matrices, tuple([sizes[letter] for letter in batch + free]))
    return _ordered(split, batch + free, out)


def _matrices(a: Array, term: str, batch: str, rows: str, columns: str) -> Array:
    """Return `a` with shape (*batch, rows, columns), as a view where its memory allows that."""
    inner = [letter for letter in term if letter not in batch]
    turned = bool(rows) and inner[-1] in rows  # BLAS takes a matrix and its transpose alike
    order = columns + rows if turned else rows + columns
    a = _ordered(a, term, batch + order)
    lengths = [math.prod(a.shape[len(batch) : len(batch) + len(columns if turned else rows)])]
    lengths.append(math.prod(a.shape[len(batch) + len(columns if turned else rows) :]))
    a = np.reshape(a, (*a.shape[: len(batch)], *lengths))
    return np.swapaxes(a, -1, -2) if turned else a
