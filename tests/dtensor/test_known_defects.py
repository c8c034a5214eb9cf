"""What goes wrong with sharded tensors elsewhere, one test each: here it must not.

The names T1 to T6 and the numbers are those of `spec/dtensor.md`, section 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from part_oracle import array_of
from shardwise import nn
from shardwise.backend.errors import CollectiveError, LayoutError
from shardwise.collectives import run_threads
from shardwise.dtensor import DTensor, distribute_tensor, from_local, local_map, plan, rand, zeros
from shardwise.dtensor.layout import Layout
from shardwise.mesh import DeviceMesh
from shardwise.nn import functional as F


def on(world: int, body: Callable[[DeviceMesh, int], Any], shape: Any = None) -> list[Any]:
    """Run a body on the ranks of a mesh that are threads."""

    def go(rank: int) -> Any:
        ranks = np.arange(world).reshape(shape or world)
        return body(DeviceMesh("cpu", ranks.tolist()), rank)

    return run_threads(go, world)


def near(got: Any, want: Any) -> None:
    np.testing.assert_allclose(array_of(got.detach()), want, rtol=1e-9, atol=1e-12)


# ---- T1 to T6


def test_t1_item_of_a_sum_gives_the_sum_and_not_one_term() -> None:
    def body(mesh: DeviceMesh, rank: int) -> Any:
        x = from_local(np.array(float(rank)), mesh, ["P"])
        return x.item(), float(x), int(x), bool(x == 6.0), x.tolist(), f"{x:.1f}"

    assert on(4, body) == [(6.0, 6.0, 6, True, 6.0, "6.0")] * 4


def test_t2_a_norm_reduces_maxima_before_it_takes_absolute_values() -> None:
    terms = np.array([[-5.0, -6.0], [-7.0, -9.0]])
    out = on(2, lambda mesh, rank: from_local(terms[rank], mesh, ["P(max)"]).norm(np.inf).item())
    assert out == [6.0] * 2


@pytest.mark.parametrize("op", ["max", "min", "amax", "amin", "argmax", "argmin", "norm"])
def test_t3_an_extreme_of_fewer_elements_than_ranks(op: str) -> None:
    whole = np.array([3.0, 1.0, 4.0, 1.5, 9.0])

    def apply(x: Any) -> Any:
        return x.norm(np.inf) if op == "norm" else getattr(x, op)()

    wanted = apply(sw.tensor(whole)).item()
    assert on(4, lambda mesh, _: apply(distribute_tensor(whole, mesh, ["S(0)"])).item()) == [wanted] * 4


def test_t4_norms_convolutions_and_attention_over_dims_in_parts() -> None:
    x, kernel = np.sin(np.arange(48.0)).reshape(2, 4, 6), np.cos(np.arange(24.0)).reshape(2, 4, 3)
    wanted = [
        F.rms_norm(sw.tensor(x), 6).numpy(),
        F.conv1d(sw.tensor(x), sw.tensor(kernel)).numpy(),
        F.scaled_dot_product_attention(*[sw.tensor(x[:, None])] * 3, is_causal=True).numpy(),
    ]

    def body(mesh: DeviceMesh, _: int) -> None:
        for placement in ("S(0)", "S(1)", "S(2)", "S(-3)"):
            part = distribute_tensor(x, mesh, [placement])
            near(F.rms_norm(part, 6), wanted[0])
            near(F.conv1d(part, distribute_tensor(kernel, mesh, ["R"])), wanted[1])
            heads = part.unsqueeze(1)
            near(F.scaled_dot_product_attention(heads, heads, heads, is_causal=True), wanted[2])

    on(3, body)


def test_t4_a_dim_that_there_is_not_is_named() -> None:
    def body(mesh: DeviceMesh, _: int) -> str:
        with pytest.raises(LayoutError) as raised:
            distribute_tensor(np.ones((2, 2)), mesh, ["S(-3)"])
        return str(raised.value)

    first, second = on(2, body)
    assert first == second
    assert "-3" in first


def test_t5_a_mean_of_uneven_batches_and_a_softmax_that_gathers_nothing() -> None:
    logits, labels = np.sin(np.arange(35.0)).reshape(7, 5), np.arange(7) % 5
    wanted = F.cross_entropy(sw.tensor(logits), sw.tensor(labels)).item()

    def body(mesh: DeviceMesh, _: int) -> tuple[float, int]:
        x = distribute_tensor(logits, mesh, ["S(0)"])
        loss = F.cross_entropy(x, distribute_tensor(labels, mesh, ["S(0)"])).item()
        wide = zeros(4, 30000, device_mesh=mesh, placements=["S(1)"])
        with sw.explain() as seen:
            wide.softmax(1)
        return loss, seen.total_bytes()

    for loss, sent in on(4, body):
        assert loss == pytest.approx(wanted, rel=1e-12)
        assert sent <= 2 * 2 * 4 * 4  # two all-reduces of four numbers


@pytest.mark.parametrize("op", ["argmax", "topk", "sort", "var"])
def test_t6_what_needs_little_does_not_gather_everything(op: str) -> None:
    whole = np.sin(np.arange(40000.0)).astype(np.float32)
    apply: dict[str, Callable[[Any], Any]] = {
        "argmax": lambda x: x.argmax(),
        "topk": lambda x: x.topk(5)[0],
        "sort": lambda x: x.sort()[0],
        "var": lambda x: x.var(),
    }
    wanted = apply[op](sw.tensor(whole)).numpy()

    def body(mesh: DeviceMesh, _: int) -> int:
        x = distribute_tensor(whole, mesh, ["S(0)"])
        with sw.explain() as seen:
            out = apply[op](x)
        np.testing.assert_allclose(array_of(out), wanted, rtol=1e-5)
        return seen.total_bytes()

    gathered = 3 * whole.nbytes // 4
    assert max(on(4, body)) < (3 * gathered if op == "sort" else gathered // 50)


# ---- 1: terms of sums that were taken for values


def test_1_numbers_are_added_to_a_sum_once() -> None:
    def body(mesh: DeviceMesh, rank: int) -> list[float]:
        x = from_local(np.array(float(rank)), mesh, ["P"])
        y = from_local(np.array(1.0), mesh, ["R"])
        return [each.item() for each in (x + 1.0, 1.0 - x, x * 2.0, x * 3.0, x / 2.0, x + y, x * x, -x, x**2)]

    assert on(4, body) == [[7.0, -5.0, 12.0, 18.0, 3.0, 7.0, 36.0, -6.0, 36.0]] * 4


def test_1_comparing_printing_and_branching_see_the_value() -> None:
    def body(mesh: DeviceMesh, rank: int) -> Any:
        x = from_local(np.array([1.0, -2.0]) * rank, mesh, ["P"])
        return (x > 0).tolist(), "[ 3., -6.]" in str(x), x.max().item(), bool((x == x.clone()).all())

    assert on(3, body) == [([True, False], True, 3.0, True)] * 3


# ---- 2: uneven and empty shards


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 9])
def test_2_reductions_of_uneven_shards(n: int) -> None:
    whole = np.sin(np.arange(float(n)) + 1.0)

    def body(mesh: DeviceMesh, _: int) -> None:
        x = distribute_tensor(whole, mesh, ["S(0)"])
        near(x.sum(), whole.sum())
        near(x.prod(), whole.prod())
        if n:
            near(x.mean(), whole.mean())
        near(local_map(lambda part: part * 2.0, ["S(0)"])(x), whole * 2.0)
        assert x.full_tensor().shape == (n,)
        assert from_local(x.to_local(), mesh, ["S(0)"]).shape == (n,)

    on(4, body)


def test_2_nested_pieces_have_their_own_offsets() -> None:
    def body(mesh: DeviceMesh, _: int) -> list[int]:
        return distribute_tensor(np.arange(7), mesh, ["S(0)", "S(0)"]).to_local().tolist()

    assert on(6, body, (2, 3)) == [[0, 1], [2, 3], [], [4], [5], [6]]


# ---- 3 to 5: mixing, missing rules, views


def test_3_a_plain_tensor_is_refused_by_name_with_the_fix() -> None:
    def body(mesh: DeviceMesh, _: int) -> str:
        with pytest.raises(LayoutError) as raised:
            distribute_tensor(np.ones(3), mesh, ["S(0)"]) + sw.ones(3)
        return str(raised.value)

    for said in on(2, body):
        assert said.startswith("Add: input 1 is a Tensor of shape (3,), and others are DTensors on")
        assert "implicit_replication()" in said


def test_4_an_op_without_a_rule_runs_all_the_same() -> None:
    class Backwards(sw.Function):
        signature = "[d]->[d]"

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x[::-1] * 1.0

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return (g[::-1],)

    def body(mesh: DeviceMesh, _: int) -> None:
        x = distribute_tensor(np.arange(5.0), mesh, ["S(0)"]).requires_grad_()
        out = Backwards.apply(x)
        near(out, np.arange(5.0)[::-1])
        (out * distribute_tensor(np.arange(5.0), mesh, ["R"])).sum().backward()
        near(x.grad, np.arange(5.0)[::-1])

    on(2, body)


@pytest.mark.parametrize("placement", ["S(0)", "S(1)"])
@pytest.mark.parametrize("shape", [(96,), (2, 4, 12), (8, 4, 3), (8, 3, 4), (12, 8), (4, 24)])
def test_5_a_view_is_right_or_refused_and_a_reshape_is_right(shape: tuple[int, ...], placement: str) -> None:
    whole = np.arange(96.0).reshape(8, 12)

    def body(mesh: DeviceMesh, _: int) -> str:
        x = distribute_tensor(whole, mesh, [placement])
        near(x.reshape(shape), whole.reshape(shape))
        try:
            seen = x.view(shape)
        except LayoutError as error:
            return str(error)
        near(seen, whole.reshape(shape))
        return ""

    first, *rest = on(4, body)
    assert all(each == first for each in rest)
    assert not first or "reshape() moves it to" in first


# ---- 6: random numbers


def test_6_random_numbers_do_not_depend_on_the_mesh() -> None:
    sw.manual_seed(7)
    wanted = F.dropout(sw.rand(5, 6)).numpy()

    def body(mesh: DeviceMesh, _: int) -> None:
        for placement in ("R", "S(0)", "S(1)"):
            sw.manual_seed(7)
            x = F.dropout(rand(5, 6, device_mesh=mesh, placements=[placement]))
            np.testing.assert_array_equal(array_of(x), wanted)

    for world in (1, 2, 3):
        on(world, body)


# ---- 8 to 10: what is sent


def test_8_what_is_sent_unasked_is_in_the_ledger_and_can_be_forbidden() -> None:
    def body(mesh: DeviceMesh, _: int) -> None:
        x = distribute_tensor(np.ones((4, 4)), mesh, ["S(0)"])
        with sw.explain() as seen:
            x @ x.t()
        assert seen.records
        with pytest.raises(CollectiveError, match="no_implicit"), sw.no_implicit():
            x @ x.t()
        near(x.sum(), 16.0)

    on(2, body)


def test_9_no_way_round_is_cheaper_than_the_plan() -> None:
    def body(mesh: DeviceMesh, _: int) -> None:
        layouts = [Layout(mesh, [a, b], (64, 64), np.float32)
                   for a in ("R", "S(0)", "S(1)") for b in ("R", "S(0)", "S(1)")]  # fmt: skip
        cost = {(a, b): plan(a, b).cost for a in layouts for b in layouts}
        for a in layouts:
            for b in layouts:
                best = min(cost[a, c] + cost[c, b] for c in layouts)
                assert cost[a, b] <= best * 1.0001 + 1e-12, (str(a), str(b))

    on(6, lambda mesh, rank: body(mesh, rank) if rank == 0 else None, (2, 3))


def test_10_from_one_mesh_to_another() -> None:
    whole = np.arange(35.0).reshape(7, 5)

    def body(mesh: DeviceMesh, _: int) -> None:
        x = distribute_tensor(whole, mesh, ["S(0)", "S(1)"])
        other = DeviceMesh("cpu", [3, 0, 2])
        y = x.redistribute(mesh=other, placements=["S(1)"])
        if other.get_coordinate() is not None:
            near(y, whole)
        near(y.redistribute(mesh=mesh, placements=["R", "S(0)"]), whole)

    on(4, body, (2, 2))


# ---- 11, 12, 18: models over several axes


def test_11_one_norm_over_parameters_on_several_meshes() -> None:
    whole = [np.sin(np.arange(12.0)).reshape(4, 3), np.cos(np.arange(6.0))]
    wanted = np.sqrt(sum((each**2).sum() for each in whole))

    def body(mesh: DeviceMesh, _: int) -> tuple[float, float]:
        line = DeviceMesh("cpu", [0, 1, 2, 3])
        ps = [
            nn.Parameter(distribute_tensor(sw.tensor(whole[0]), mesh, ["S(0)", "R"])),
            nn.Parameter(distribute_tensor(sw.tensor(whole[1]), line, ["S(0)"])),
        ]
        for p in ps:
            p.grad = p.detach().clone()
        total = float(nn.utils.clip_grad_norm_(ps, 1.0))
        left = np.sqrt(sum((p.grad.full_tensor().numpy() ** 2).sum() for p in ps))
        return total, float(left)

    for total, left in on(4, body, (2, 2)):
        assert total == pytest.approx(wanted, rel=1e-9)
        assert left == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("order", [("dp", "tp"), ("tp", "dp")])
def test_12_two_axes_cut_one_dim_in_either_order(order: tuple[str, str]) -> None:
    whole = np.arange(21.0).reshape(7, 3)

    def go(rank: int) -> None:
        mesh = DeviceMesh("cpu", [[0, 1], [2, 3]], mesh_dim_names=("dp", "tp"))
        x = distribute_tensor(whole, mesh, sw.dtensor.Spec(order))
        near(x, whole)
        near(x @ x.t(), whole @ whole.T)

    run_threads(go, 4)


def test_18_gradients_of_leaves_lie_as_the_leaves_do() -> None:
    def body(mesh: DeviceMesh, _: int) -> tuple[str, str]:
        x = distribute_tensor(np.ones((4, 6)), mesh, ["S(0)"])
        weight = nn.Parameter(distribute_tensor(sw.tensor(np.ones(6)), mesh, ["R"]))
        cut = nn.Parameter(distribute_tensor(sw.tensor(np.ones(6)), mesh, ["S(0)"]))
        (F.layer_norm(x * cut, (6,)) * weight).square().sum().backward()
        assert isinstance(weight.grad, DTensor)
        return str(weight.grad.layout), str(cut.grad.layout)

    assert on(2, body) == [("R", "S(0)")] * 2


# ---- others


def test_iteration_over_a_sharded_dim_and_shapes_that_data_tell() -> None:
    whole = np.array([3.0, 0.0, 1.0, 0.0, 3.0])

    def body(mesh: DeviceMesh, _: int) -> None:
        x = distribute_tensor(whole, mesh, ["S(0)"])
        assert [float(each) for each in x] == whole.tolist()
        near(x[x > 0], whole[whole > 0])
        near(x.unique(), np.unique(whole))
        assert x.nonzero().tolist() == [[0], [2], [4]]
        assert x.numpy().tolist() == x.tolist() == whole.tolist()

    on(3, body)


@pytest.mark.parametrize(
    "placements", [("S(0)", "S(1)"), ("S(1)", "S(0)"), ("S(0)", "S(0)"), ("R", "S(0)"), ("P", "S(1)")]
)
def test_13_ranks_in_any_order(placements: tuple[str, str]) -> None:
    whole = np.sin(np.arange(42.0)).reshape(7, 6)

    def value(x: Any) -> Any:
        return (x @ x.t()).cumsum(0).softmax(1).var(0).sum()

    plain = sw.tensor(whole, requires_grad=True)
    value(plain).backward()
    assert plain.grad is not None

    def go(rank: int) -> None:
        mesh = DeviceMesh("cpu", [[3, 1], [0, 2]], mesh_dim_names=("a", "b"))
        x = distribute_tensor(sw.tensor(whole, requires_grad=True), mesh, placements)
        out = value(x)
        near(out, value(plain).item())
        out.backward()
        near(x.grad, plain.grad.numpy())
        near(x.redistribute(mesh=DeviceMesh("cpu", [2, 0, 3, 1]), placements=["S(1)"]), whole)

    run_threads(go, 4)
