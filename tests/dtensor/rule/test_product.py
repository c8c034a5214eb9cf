"""Products of sharded matrices and tensors, and attention, against the unsharded ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shardwise as sw
from part_oracle import WORLDS, compare, moved, numbers, sizes
from shardwise.nn import functional as F

PRODUCTS: dict[str, Any] = {
    "matmul": lambda a, b: a @ b,
    "linear": lambda a, b: F.linear(a, b.mT),
    "einsum": lambda a, b: sw.einsum("mk,kn->nm", a, b),
    "einsum of sums": lambda a, b: sw.einsum("mk,kn->m", a, b),
    "tensordot": lambda a, b: sw.tensordot(a, b, ([1], [0])),
    "outer": lambda a, b: sw.outer(a[:, 0], b[0]),
    "kron": lambda a, b: sw.kron(a, b),
    "vector": lambda a, b: a @ b[:, 0],
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str, world: int) -> None:
    for n in sizes(world)[1:]:
        compare(PRODUCTS[name], numbers(n, n), numbers(n, 2, seed=1), world=world)


@pytest.mark.parametrize("world", WORLDS)
def test_batches(world: int) -> None:
    for n in sizes(world):
        compare(lambda a, b: a @ b, numbers(n, 2, 3), numbers(n, 3, 2, seed=1), world=world)
        compare(lambda a, b: a @ b, numbers(n, 2, 3), numbers(3, 2, seed=1), world=world)
        compare(
            lambda a: sw.linalg.inv(a @ a.mT + 9 * sw.eye(2, dtype=a.dtype)), numbers(n, 2, 2), world=world
        )


@pytest.mark.parametrize(
    ("placed", "laid", "bytes_at_most"),
    [
        (("S(0)", "R"), "S(0)", 0),
        (("R", "S(1)"), "S(1)", 0),
        (("S(1)", "S(0)"), "P", 0),
        (("R", "S(0)"), "P", 0),
        (("S(1)", "R"), "P", 0),
        (("P", "R"), "P", 0),
        (("R", "P"), "P", 0),
        (("R", "R"), "R", 0),
        (("S(0)", "S(0)"), "S(0)", 8 * 600 * 6 * 2),
        (("P", "S(0)"), "P", 8 * 600 * 600),
    ],
)
def test_what_matrix_products_send(placed: Any, laid: str, bytes_at_most: int) -> None:
    sent, found = moved(lambda a, b: a @ b, [numbers(600, 600), numbers(600, 6)], placed, 3)
    assert found == [laid]
    assert sent <= bytes_at_most


def test_attention_by_batch_heads_and_queries() -> None:
    q, k, v = (numbers(4, 3, 5, 2, seed=s) * 0.01 for s in range(3))
    for causal in (False, True):
        compare(
            lambda q, k, v, causal=causal: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
            q, k, v, world=3, partial=False, most=40,
        )  # fmt: skip
    for placed in ("S(0)", "S(1)"):
        assert moved(F.scaled_dot_product_attention, [q, k, v], [placed] * 3, 3) == (0, [placed])
    assert moved(F.scaled_dot_product_attention, [q, k, v], ["S(2)", "R", "R"], 3) == (0, ["S(2)"])


@pytest.mark.parametrize(
    "name",
    ["inv", "cholesky", "qr", "svd", "eigh", "det", "slogdet", "matrix_exp", "pinv", "solve", "eigvalsh"],
)
def test_batches_of_matrices_stay_in_parts(name: str) -> None:
    a = numbers(7, 3, 3)
    a = a @ a.swapaxes(1, 2) + 9 * np.eye(3)
    fn = getattr(sw.linalg, name)
    sent, laid = moved(lambda a: fn(a, a[..., :1]) if name == "solve" else fn(a), [a], ["S(0)"], 3)
    assert sent == 0
    assert set(laid) == {"S(0)"}
