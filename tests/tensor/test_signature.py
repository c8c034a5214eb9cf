"""Index signatures: parsed, and in agreement with what the ops do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shardwise as sw
from gradient_cases import CASES
from shardwise.errors import ShapeError
from shardwise.nn import functional as F
from shardwise.tensor import intercept
from shardwise.tensor.ops import arithmetic, matmul
from shardwise.tensor.signature import Dim, FlopCounter, flops, known_shapes, parse, terms_of


def test_parse() -> None:
    terms = parse("...mk,[k]n->...m[n]")
    assert terms.inputs == ((Dim("..."), Dim("m"), Dim("k")), (Dim("k", True), Dim("n")))
    assert terms.outputs == ((Dim("..."), Dim("m"), Dim("n", True)),)
    assert terms.summed == {"k"}
    with pytest.raises(ShapeError, match="has no '->'"):
        parse("ab")
    with pytest.raises(ShapeError, match=r"cannot read '\(b\)'"):
        parse("a(b)->a")


def test_batch_dims_are_spelled_out() -> None:
    terms = terms_of(matmul.MatMul, ((5, 1, 2, 3), (4, 3, 6)), {})
    names = ["".join(d.name for d in term) for term in (*terms.inputs, *terms.outputs)]
    assert len(names[0]) == 4
    assert names[0][1] == "1"
    assert names[2][-2:] == "mn"
    assert known_shapes(matmul.MatMul, ((5, 1, 2, 3), (4, 3, 6)), {}) == ((5, 4, 2, 6),)


@pytest.mark.parametrize("name", CASES)
def test_signatures_tell_the_shapes(name: str) -> None:
    function, inputs = CASES[name]
    calls = 0

    def check(op: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        nonlocal calls
        calls += 1
        out = op.apply(*args, **params)
        outs = out if isinstance(out, tuple) else (out,)
        shapes = tuple(np.shape(getattr(arg, "data", arg)) for arg in args if arg is not None)
        told = known_shapes(op, shapes, params)
        assert len(told) == len(outs)
        for shape, real in zip(told, outs, strict=True):
            assert len(shape) == real.ndim, (op, told, real.shape)
            assert all(n is None or n == m for n, m in zip(shape, real.shape, strict=True)), (
                op,
                told,
                real.shape,
            )
        return out

    with intercept(check):
        function(*inputs)
    assert calls


def test_flops() -> None:
    assert flops(matmul.MatMul, ((5, 2, 3), (3, 7)), {}) == 2 * 5 * 2 * 3 * 7
    assert flops(matmul.Linear, ((8, 3), (7, 3), (7,)), {}) == 2 * 8 * 3 * 7
    assert flops(arithmetic.Add, ((2, 3), (3,)), {}) == 6
    with FlopCounter() as counter:
        x = F.linear(sw.ones(4, 3), sw.ones(5, 3))
        F.scaled_dot_product_attention(x, x, x)
    assert counter.by_op == {"Linear": 2 * 4 * 3 * 5, "Attention": 2 * 4 * 4 * (5 + 5)}
    assert counter.total == 120 + 320
