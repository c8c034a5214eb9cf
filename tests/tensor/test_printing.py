"""How tensors are written."""

from __future__ import annotations

import numpy as np
import pytest

import shardwise as sw


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (sw.tensor([1.0, 2.5]), "tensor([1. , 2.5])"),
        (sw.tensor(3), "tensor(3)"),
        (sw.tensor(True), "tensor(True)"),
        (sw.tensor(1 + 2j), "tensor(1.+2.j)"),
        (sw.tensor([1], dtype=np.int8), "tensor([1], dtype=int8)"),
        (sw.tensor([0.1]).double(), "tensor([0.1], dtype=float64)"),
        (sw.tensor([0.1]).bfloat16(), "tensor([0.10009766], dtype=bfloat16)"),
        (sw.tensor([]), "tensor([])"),
        (sw.zeros(0, 3), "tensor([], size=(0, 3))"),
        (sw.zeros(0, dtype=np.int64), "tensor([], dtype=int64)"),
        (sw.zeros(2, 3, device="shape"), "tensor(..., shape=(2, 3), device='shape')"),
        (sw.tensor([1.0], requires_grad=True), "tensor([1.], requires_grad=True)"),
        (sw.tensor([1.0], requires_grad=True) * 2.0, "tensor([2.], grad_fn=Mul)"),
        (sw.tensor([[1, 2], [3, 4]]), "tensor([[1, 2],\n        [3, 4]])"),
        (sw.tensor([float("nan"), float("inf")]), "tensor([nan, inf])"),
    ],
)
def test_repr(x: sw.Tensor, text: str) -> None:
    assert repr(x) == str(x) == f"{x}" == text


def test_large_tensors_are_summarised() -> None:
    text = repr(sw.arange(10_000))
    assert text == "tensor([   0,    1,    2, ..., 9997, 9998, 9999])"
    assert len(repr(sw.zeros(200, 200))) < 500


def test_numpy_s_options_hold() -> None:
    with np.printoptions(precision=2, suppress=True, threshold=3, edgeitems=1):
        assert repr(sw.tensor([1.0 / 3.0, 2.0])) == "tensor([0.33, 2.  ])"
        assert repr(sw.tensor([1, 2, 3, 4])) == "tensor([1, ..., 4])"


def test_format() -> None:
    x = sw.tensor(1.2345, requires_grad=True)
    assert (
        f"{x:.2f} {x * 2:8.1e} {sw.tensor(7):04d} {sw.tensor(0.5).bfloat16():.1f}" == "1.23  2.5e+00 0007 0.5"
    )
