"""Styles of tensor parallelism on single modules: results, gradients, layouts, and what they refuse."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from house.floors import ROOT
from shardwise import nn
from shardwise.backend.errors import ArgumentError, LayoutError, ModuleError
from shardwise.collectives import explain, run_threads
from shardwise.dtensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from shardwise.mesh import DeviceMesh
from shardwise.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

X = np.random.default_rng(0).standard_normal((3, 5, 6))


class MLP(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(6)
        self.up, self.down = nn.Linear(6, hidden), nn.Linear(hidden, 6)

    def forward(self, x: sw.Tensor) -> sw.Tensor:
        return self.down(nn.functional.relu(self.up(self.norm(x))))


def make(hidden: int) -> MLP:
    sw.manual_seed(5)
    return MLP(hidden).to("float64")


def alone(hidden: int) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    model, x = make(hidden), sw.tensor(X, requires_grad=True)
    y = model(x)
    (y * y).sum().backward()
    assert x.grad is not None
    return y.detach().numpy(), x.grad.numpy(), {n: p.grad.numpy() for n, p in model.named_parameters()}


def on_ranks(ranks: int, body: Callable[[DeviceMesh, int], Any]) -> list[Any]:
    return run_threads(lambda rank: body(DeviceMesh("cpu", list(range(ranks)), ("tp",)), rank), ranks)


@pytest.mark.parametrize("hidden", [1, 2, 3, 8])  # some ranks have nothing
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_plain_tensors_go_in_and_come_out(ranks: int, hidden: int) -> None:
    y, dx, grads = alone(hidden)

    def body(mesh: DeviceMesh, rank: int) -> Counter[str]:
        model = parallelize_module(make(hidden), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
        x = sw.tensor(X, requires_grad=True)
        with explain(compute=False) as moved:
            out = model(x)
            (out * out).sum().backward()
        assert type(out) is sw.Tensor
        np.testing.assert_allclose(out.detach().numpy(), y, rtol=1e-12)
        assert x.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), dx, rtol=1e-11)
        for name, p in model.named_parameters():
            np.testing.assert_allclose(p.grad.numpy(), grads[name], rtol=1e-11, atol=1e-13)
        return Counter(record.op for record in moved)

    for moved in on_ranks(ranks, body):
        assert moved == ({"all_reduce": 2} if ranks > 1 else {})  # one each way


@pytest.mark.parametrize("ranks", [2, 3])
def test_sequence_parallel_moves_parts_only(ranks: int) -> None:
    y, dx, grads = alone(8)
    plan = {
        "norm": SequenceParallel(),
        "up": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
        "down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
    }

    def body(mesh: DeviceMesh, rank: int) -> Counter[str]:
        model = parallelize_module(make(8), mesh, plan)
        x = distribute_tensor(sw.tensor(X), mesh, [Shard(1)]).requires_grad_()
        with explain(compute=False) as moved:
            out = model(x)
            (out * out).sum().backward()
        assert out.placements == (Shard(1),)
        np.testing.assert_allclose(out.detach().numpy(), y, rtol=1e-12)
        np.testing.assert_allclose(x.grad.numpy(), dx, rtol=1e-11)
        for name, p in model.named_parameters():
            np.testing.assert_allclose(p.grad.numpy(), grads[name], rtol=1e-11, atol=1e-13)
        return Counter(record.op for record in moved)

    for moved in on_ranks(ranks, body):
        # the two each way, and one all-reduce for all parameters that every rank has
        assert moved == {"all_gather": 2, "reduce_scatter": 2, "all_reduce": 1}


@pytest.mark.parametrize(
    "style", [ColwiseParallel(), RowwiseParallel(input_layouts=Replicate())], ids=["d", "v"]
)
@pytest.mark.parametrize("ranks", [2, 3])
def test_embeddings(ranks: int, style: Any) -> None:
    index = np.array([[0, 3, 6], [3, 3, 1]])
    sw.manual_seed(1)
    whole = nn.Embedding(7, 5)
    weight = whole.weight.detach().numpy()
    whole(sw.tensor(index)).sum().backward()

    def body(mesh: DeviceMesh, rank: int) -> None:
        sw.manual_seed(1)
        table = parallelize_module(nn.Embedding(7, 5), mesh, replace(style, output_layouts=Replicate()))
        out = table(sw.tensor(index))
        np.testing.assert_array_equal(out.detach().numpy(), weight[index])
        out.sum().backward()
        assert table.weight.grad.layout is table.weight.layout
        np.testing.assert_array_equal(table.weight.grad.numpy(), whole.weight.grad.numpy())

    on_ranks(ranks, body)


def test_inputs_and_outputs_by_place_and_by_name() -> None:
    class Pair(nn.Module):
        def forward(self, a: Any, b: Any, c: Any = None) -> tuple[Any, Any]:
            assert isinstance(a, DTensor)
            assert a.placements == (Replicate(),)
            assert not isinstance(b, DTensor)
            assert c.placements == (Shard(0),)
            return a + 1.0, b

    def body(mesh: DeviceMesh, rank: int) -> None:
        style = PrepareModuleInputOutput(
            input_layouts=(Shard(0), None),
            desired_input_layouts=(Replicate(), None),
            input_kwarg_layouts={"c": "R"},
            desired_input_kwarg_layouts={"c": "S(0)"},
            output_layouts=(Replicate(), None),
            desired_output_layouts=(Shard(0), None),
        )
        pair = parallelize_module(Pair(), mesh, style)
        first, second = pair(sw.full((2, 2), float(rank)), 7, c=sw.ones(4))
        assert second == 7
        assert type(first) is sw.Tensor
        np.testing.assert_array_equal(first.numpy(), np.full((2, 2), rank + 1.0))

    on_ranks(2, body)


def test_shared_parameters_stay_shared() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(8, 4), nn.Linear(4, 8, bias=False)
            self.head.weight = self.embed.weight

    def body(mesh: DeviceMesh, rank: int) -> None:
        tied = parallelize_module(Tied(), mesh, {"embed": RowwiseParallel(), "head": ColwiseParallel()})
        assert tied.head.weight is tied.embed.weight
        with pytest.raises(LayoutError, match=r"^weight of a Linear lies as Layout\(float32\[8, 4\]"):
            parallelize_module(Tied(), mesh, {"embed": RowwiseParallel(), "head": RowwiseParallel()})

    on_ranks(2, body)


def test_patterns_match_name_by_name() -> None:
    def body(mesh: DeviceMesh, rank: int) -> None:
        model = nn.Sequential(make(4), make(4))
        plan = {"*.up": ColwiseParallel(), "[1].down": RowwiseParallel()}
        parallelize_module(model, mesh, plan)
        cut = [name for name, p in model.named_parameters() if isinstance(p, DTensor)]
        assert cut == ["0.up.weight", "0.up.bias", "1.up.weight", "1.up.bias", "1.down.weight", "1.down.bias"]
        with pytest.warns(
            UserWarning, match=r"^parallelize_module: 'up' matches no module of Sequential; its"
        ):
            parallelize_module(model, mesh, {"up": ColwiseParallel()})

    on_ranks(1, body)


def test_what_is_refused() -> None:
    def body(mesh: DeviceMesh, rank: int) -> None:
        grid = DeviceMesh("cpu", [[0]], ("dp", "tp"))
        with pytest.raises(
            ArgumentError, match=r"^parallelize_module: device_mesh must be .* one axis, got Devic"
        ):
            parallelize_module(make(4), grid, {"up": ColwiseParallel()})
        with pytest.raises(ArgumentError, match=r"has 'colwise' for 'up', which is no style$"):
            parallelize_module(make(4), mesh, {"up": "colwise"})  # type: ignore[dict-item]
        with pytest.raises(
            ModuleError, match=r"^ColwiseParallel is for Linear and Embedding, and got a Layer"
        ):
            parallelize_module(make(4), mesh, {"norm": ColwiseParallel()})
        with pytest.raises(ArgumentError, match=r"^PrepareModuleInput: input_layouts and desired_input_"):
            PrepareModuleInput(input_layouts=(Replicate(),))
        with pytest.raises(ArgumentError, match=r"^PrepareModuleOutput: output_layouts and desired_output_"):
            PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=(Replicate(), None))
        model = parallelize_module(
            make(4), mesh, PrepareModuleInput(input_layouts=("R", "R"), desired_input_layouts=("R", "R"))
        )
        with pytest.raises(LayoutError, match=r"^MLP: 1 inputs came, and input_layouts has 2; give one"):
            model(sw.tensor(X))
        model = parallelize_module(make(4), mesh, {"up": ColwiseParallel(output_layouts=Partial())})
        with pytest.raises(LayoutError, match=r"cannot be made P; name Shard or Replicate$"):
            model(sw.tensor(X))

    on_ranks(1, body)


def test_the_page_that_tells_how_shows_what_it_says() -> None:
    page = (ROOT / "docs" / "how-to" / "tensor-parallel.md").read_text(encoding="utf-8")
    script = re.findall(r"^```python\n(.+?)^```$", page, re.M | re.S)[0]

    def body(_: int) -> list[str]:
        names: dict[str, Any] = {"__name__": "page"}
        exec(compile(script, "tensor-parallel.md", "exec"), names)
        return [record.op for record in names["moved"]]

    assert run_threads(body, 3) == [["all_reduce"] * 2] * 3
