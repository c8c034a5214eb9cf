"""check_rule finds every wrong rule that it is shown, says where, and passes the right ones."""

from __future__ import annotations

import contextlib
import io
import re
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from house.floors import ROOT
from shardwise.dtensor import Layout, check_rule
from shardwise.dtensor.proof.part import part_of, partial_kinds
from shardwise.errors import ArgumentError, LayoutError
from shardwise.mesh import DeviceMesh
from shardwise.tensor import Function

X = np.arange(10.0).reshape(5, 2) / 7
REDUCE: dict[str, Any] = {
    "sum": np.add, "avg": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply,
    "band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor,
}  # fmt: skip


class Energy(Function):
    signature = "mn->"
    reduces = "sum"

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save(x)
        return np.sum(x * x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved
        return (2.0 * x * g,)


class Linear(Energy):
    """Says of a square that it is linear."""

    linear = "all"


class Scan(Function):
    """Says of a running sum that its places are independent."""

    signature = "m->m"

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return np.cumsum(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return (np.flip(np.cumsum(np.flip(g))),)


class Forgetful(Energy):
    """Gives the gradient of the number of parts, not of the whole."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.rows = x.shape[0]
        return Energy.forward(ctx, x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return (Energy.backward(ctx, g)[0] * (ctx.rows / 5.0),)


@pytest.mark.parametrize("shape", [(2,), (3,), (2, 2)], ids=str)
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i4", "u1", "?"])
def test_terms_differ_and_give_the_whole(dtype: str, shape: tuple[int, ...]) -> None:
    whole = (np.arange(1, 16).reshape(3, 5) % (2 if dtype == "?" else 7)).astype(dtype)
    world = int(np.prod(shape))

    def go(rank: int) -> None:
        mesh = DeviceMesh("cpu", np.arange(world).reshape(shape))
        for op in partial_kinds(whole.dtype):
            layout = Layout(mesh, [f"P({op})"] * mesh.ndim, whole.shape, whole.dtype)
            parts = np.array([part_of(whole, layout, at) for at in np.ndindex(*shape)])
            assert parts.dtype == whole.dtype
            total = REDUCE[op].reduce(parts, axis=0, dtype=whole.dtype)
            np.testing.assert_allclose(total / world if op == "avg" else total, whole, rtol=1e-5)
            assert not all(np.array_equal(each, whole) for each in parts)

    sw.collectives.run_threads(go, world)


def test_right_rules_pass() -> None:
    report = check_rule(Energy, X)
    assert report.tried == report.possible == 92
    assert "P" in report.layouts
    assert str(check_rule(Energy, X, mesh_shapes=[2])).splitlines() == [
        "Energy: 14 of 14 combinations of placements are right; 8 send nothing",
        "  R => R",
        "  S(0) => P",
        "  S(1) => P",
        "  S(0, [1, 4]) => P",
    ]


def test_functions_of_tensors_and_integers() -> None:
    index = np.array([2, 0, 1, 1])
    report = check_rule(lambda x, i, k: x[i] * k, X, index, 2.0, mesh_shapes=[3])
    assert report.tried == report.possible
    assert all(each.inputs[2] == "" for each in report.outcomes)
    assert check_rule(lambda x: x.topk(2, 0), X, mesh_shapes=[2]).tried


def test_draws_are_the_same_each_time() -> None:
    def once() -> Any:
        return check_rule(lambda x, y: x + y, X, X, mesh_shapes=[(2, 2)], most=20)

    one, other = once(), once()
    assert one == other
    assert one.tried == 42 < one.possible


@pytest.mark.parametrize(
    ("op", "array", "message"),
    [
        (
            Linear, X[:2],
            "check_rule(Linear) on a mesh of 2 with input 0 P: output 0, which came out as P, is ",
        ),
        (
            Scan, X[:, 1],
            "check_rule(Scan) on a mesh of 2 with input 0 S(0): output 0, which came out as S(0), is 1.0 at "
            "(3,), and 2.2857142857142856 of wholes; 2 of 5 differ",
        ),
        (
            Forgetful, X,
            "check_rule(Forgetful) on a mesh of 2 with input 0 S(0), gradients recorded: the gradient of "
            "input 0 (outputs came out as P) is ",
        ),
    ],
    ids=["linear", "scan", "gradient"],
)  # fmt: skip
def test_wrong_rules_are_found(op: Any, array: Any, message: str) -> None:
    with pytest.raises(LayoutError) as caught:
        check_rule(op, array)
    assert str(caught.value).startswith(message)


def test_what_cannot_be_checked() -> None:
    with pytest.raises(ArgumentError) as caught:
        check_rule(Energy, 3.0)
    assert str(caught.value) == (
        "check_rule(Energy): there is no array among the inputs, and nothing to shard"
    )
    with pytest.raises(ArgumentError) as caught:
        check_rule(Energy, X, mesh_shapes=[(5, 5)])
    assert str(caught.value) == (
        "check_rule(Energy): mesh_shapes has (5, 5), which takes 25 ranks; wanted 1 to 16, each a thread of "
        "this process"
    )


def test_the_page_shows_what_is_printed() -> None:
    page = (ROOT / "docs" / "how-to" / "sharding-rule.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "rule"}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for script in re.findall(r"^```python\n(.+?)^```$", page, re.M | re.S):
            exec(compile(script, "sharding-rule.md", "exec"), names)
    shown = re.findall(r"^```text\n(.+?)^```$", page, re.M | re.S)
    assert printed.getvalue().startswith("".join(shown))
