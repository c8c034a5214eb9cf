"""Softmax and normalisation over sharded dims against the same on whole tensors; what they send."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shardwise as sw
from part_oracle import WORLDS, compare, compare_on, numbers, sizes
from shardwise import nn
from shardwise.collectives import run_threads
from shardwise.dtensor import distribute_tensor
from shardwise.mesh import DeviceMesh
from shardwise.nn import functional as F


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("dim", [0, 1])
def test_softmax(dim: int, world: int) -> None:
    for n in sizes(world):
        compare(lambda x: x.softmax(dim), numbers(n, n), world=world)
        compare(lambda x: x.log_softmax(dim), numbers(n, 3), world=world)


def test_rows_of_minus_infinity() -> None:
    x = numbers(4, 7)
    x[0, 1:] = -np.inf
    compare(lambda x: x.softmax(1), x, world=3, partial=False)


@pytest.mark.parametrize("world", WORLDS)
def test_layer_and_rms_norm(world: int) -> None:
    for n in sizes(world)[1:]:
        rows = [numbers(4, n), numbers(n, seed=1), numbers(n, seed=2)]
        compare(lambda x, w, b, n=n: F.layer_norm(x, n, w, b), *rows, world=world, most=30)
        compare(lambda x, w, n=n: F.rms_norm(x, n, w), *rows[:2], world=world)
        compare(lambda x, n=n: F.layer_norm(x, (n, 3)), numbers(2, n, 3), world=world)


@pytest.mark.parametrize("world", WORLDS)
def test_batch_norm_is_that_of_the_whole_batch(world: int) -> None:
    for n in sizes(world)[2:]:

        def step(x: Any, w: Any, b: Any) -> Any:
            mean, variance = sw.zeros(3, dtype=np.float64), sw.ones(3, dtype=np.float64)
            out = F.batch_norm(x, mean, variance, w, b, training=True)
            return out, mean, variance

        compare(step, numbers(n, 3, 2), numbers(3, seed=1), numbers(3, seed=2), world=world, most=20)
        compare(lambda x: F.batch_norm(x, None, None, training=True), numbers(n, 3), world=world)


@pytest.mark.parametrize("world", WORLDS)
def test_group_and_instance_norm(world: int) -> None:
    for n in sizes(world)[1:]:
        compare(lambda x: F.group_norm(x, 2), numbers(n, 4, 3), world=world)
        compare(lambda x: F.group_norm(x, 4), numbers(2, 8, n), world=world)
        compare(lambda x, w: F.group_norm(x, 2, w), numbers(2, 8, 3), numbers(8), world=world)
    compare(lambda x: F.instance_norm(x), numbers(3, 4, 5), world=world)


@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_narrow_floats(kind: str) -> None:
    def go(rank: int) -> Any:
        x = distribute_tensor(sw.tensor(numbers(4, 9).astype(kind)), DeviceMesh("cpu", [0, 1, 2]), ["S(1)"])
        x.requires_grad = True
        outs = [x.softmax(1), F.layer_norm(x, 9), F.rms_norm(x, 9), x.var(1), x.norm(2, 1)]
        sum((out * out).sum() for out in outs).backward()
        return [out.full_tensor().detach().numpy() for out in outs] + [x.grad.full_tensor().numpy()]

    x = sw.tensor(numbers(4, 9).astype(kind), requires_grad=True)
    outs = [x.softmax(1), F.layer_norm(x, 9), F.rms_norm(x, 9), x.var(1), x.norm(2, 1)]
    sum((out * out).sum() for out in outs).backward()
    near = 2e-2 if kind == "float16" else 1e-4
    for got in run_threads(go, 3):
        for mine, whole in zip(got, [*[out.detach().numpy() for out in outs], x.grad.numpy()], strict=True):
            assert mine.dtype == whole.dtype
            np.testing.assert_allclose(mine, whole, rtol=near, atol=near)


def test_what_passes_between_the_ranks() -> None:
    def go(rank: int) -> None:
        mesh = DeviceMesh("cpu", [0, 1, 2])
        x = distribute_tensor(sw.tensor(numbers(4, 30)), mesh, ["S(1)"])
        x.requires_grad = True
        with sw.expect(all_reduce=2, others=0, max_bytes=2 * 2 * 4 * 8):
            y = x.softmax(1)
        assert str(y.layout) == "S(1)"
        with sw.expect(all_reduce=1, others=0):
            (y * y).sum().backward()
        with sw.expect(all_gather=1, others=0):
            y = F.layer_norm(x, 30)
        assert str(y.layout) == "S(1)"
        with sw.expect(all_reduce=2, others=0):
            (y * y).sum().backward()
        with sw.expect(all_reduce=1, others=0):
            y = F.rms_norm(x, 30)
        with sw.expect(all_reduce=1, others=0):
            (y * y).sum().backward()

    run_threads(go, 3)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.data())
def test_on_two_axes(data: st.DataObject) -> None:
    shape = data.draw(st.tuples(st.integers(1, 5), st.integers(1, 7)))
    ways = ["R", "S(0)", "S(1)"]
    placed = (data.draw(st.sampled_from(ways)), data.draw(st.sampled_from([*ways, "P"])))
    weight = (data.draw(st.sampled_from(["R", "S(0)"])), data.draw(st.sampled_from(["R", "S(0)", "P"])))
    fn = data.draw(
        st.sampled_from(
            [
                lambda x, w: x.softmax(1) * w, lambda x, w: x.log_softmax(0) + w,
                lambda x, w: F.layer_norm(x, x.shape[1:], w), lambda x, w: F.rms_norm(x, x.shape[1:], w),
            ]
        )
    )  # fmt: skip
    compare_on(fn, [numbers(*shape), numbers(shape[1], seed=3)], (2, 2), [placed, weight])


@pytest.mark.parametrize("lies", ["S(0)", "R"])
def test_running_statistics_in_parts(lies: str) -> None:
    """Written where they are, alike for every layout of the batch."""
    batch = numbers(6, 5, 4)
    wanted = nn.BatchNorm1d(5)
    outs = [wanted(sw.tensor(batch * k, dtype=sw.float32)).detach().numpy() for k in (1.0, 2.0)]
    wanted.eval()
    outs.append(wanted(sw.tensor(batch, dtype=sw.float32)).detach().numpy())

    def go(rank: int) -> None:
        mesh = DeviceMesh("cpu", [0, 1, 2])
        for placement in ("S(0)", "S(1)", "R"):
            layer = nn.BatchNorm1d(5)
            for name, tensor in (*layer.named_parameters(), *layer.named_buffers()):
                if tensor.ndim:
                    setattr(layer, name, distribute_tensor(tensor, mesh, [lies]))
            for k, out in zip((1.0, 2.0, None), outs, strict=True):
                if k is None:
                    layer.eval()
                x = distribute_tensor(sw.tensor(batch * (k or 1.0), dtype=sw.float32), mesh, [placement])
                np.testing.assert_allclose(layer(x).full_tensor().detach().numpy(), out, atol=1e-5)
            assert str(layer.running_mean.layout) == lies
            for name in ("running_mean", "running_var"):
                got, value = getattr(layer, name).full_tensor().numpy(), getattr(wanted, name).numpy()
                np.testing.assert_allclose(got, value, rtol=1e-5, atol=1e-6)

    run_threads(go, 3)
