"""Halos, convolutions and poolings of tensors that are cut along places against those of whole ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shardwise as sw
from part_oracle import WORLDS, compare, compare_on, moved, numbers, sizes, tensor_in
from shardwise.backend.errors import LayoutError
from shardwise.collectives import run_threads
from shardwise.dtensor import halo_exchange, implicit_replication
from shardwise.mesh import DeviceMesh
from shardwise.nn import functional as F

POOLS: dict[str, Callable[[Any], Any]] = {
    "max": lambda x: F.max_pool1d(x, 3, stride=2, padding=1),
    "max with places": lambda x: F.max_pool1d(x, 2, return_indices=True),
    "average": lambda x: F.avg_pool1d(x, 3, stride=2, padding=1),
    "adaptive average": lambda x: F.adaptive_avg_pool1d(x, 3),
    "adaptive max": lambda x: F.adaptive_max_pool1d(x, 2),
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_halo_exchange(mode: Any, world: int) -> None:
    def go(rank: int) -> None:
        mesh = DeviceMesh("cpu", list(range(world)))
        for n in sizes(world)[2 if world > 2 else 3 :]:
            for left, right in ((1, 0), (1, 2), (n - 1, n - 1)):
                whole = numbers(n, 3)
                x = tensor_in(whole, mesh, ["S(0)"])
                y = halo_exchange(x, 0, left, right, mode=mode)
                padded = np.pad(whole, ((left, right), (0, 0)), mode=mode)
                rows = [padded[a : b + left + right] if b > a else padded[:0] for a, b in x.layout.ranges[0]]
                np.testing.assert_array_equal(y.to_local().detach().numpy(), rows[rank])
                np.testing.assert_array_equal(y.full_tensor().detach().numpy(), np.concatenate(rows))
                weight = numbers(*y.shape, seed=2)
                (y * tensor_in(weight, mesh, ["R"], grad=False)).sum().backward()
                source = np.pad(np.arange(n) + 1, (left, right), mode=mode) - 1
                at = [source[a : b + left + right] if b > a else source[:0] for a, b in x.layout.ranges[0]]
                wanted = np.zeros((n + 1, 3))
                np.add.at(wanted, np.concatenate(at), weight)
                np.testing.assert_allclose(x.grad.full_tensor().numpy(), wanted[:n], atol=1e-12)

    run_threads(go, world)


def test_halos_are_sent_once_and_nothing_else() -> None:
    x = numbers(4000, 8)
    sent, layouts = moved(lambda x: halo_exchange(x, 0, 2, 1), [x], ["S(0)"], 4)
    assert sent <= 3 * 8 * 8
    assert layouts == ["S(0)"]  # as long everywhere


def test_halo_exchange_refuses() -> None:
    def go(rank: int) -> list[str]:
        x = tensor_in(numbers(4, 3), DeviceMesh("cpu", [0, 1]), ["S(0)"])
        said = []
        for bad in ((1, 1, 1, "constant"), (0, -1, 1, "constant"), (0, 1, 1, "mirror")):
            with pytest.raises(LayoutError) as caught:
                halo_exchange(x, *bad[:3], mode=bad[3])  # type: ignore[arg-type]  # what is wrong
            said.append(str(caught.value))
        return said

    one, two = run_threads(go, 2)
    assert one == two
    assert one == [
        "halo_exchange: dim=1 of Layout(float64[4, 3] on (2): S(0)) is not sharded, so every rank has all of "
        "it; redistribute it to Shard(1) first, or pad it",
        "halo_exchange: halos must be at least 0, got left=-1, right=1",
        "halo_exchange: mode must be one of constant, edge, reflect, wrap, got 'mirror'",
    ]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_convolutions(stride: int, world: int) -> None:
    for n in (3, world + 1, 2 * world + 1):
        for padding, dilation in ((0, 1), (1, 1), (2, 2)):
            if n + 2 * padding >= 2 * dilation + 1:
                compare(
                    lambda x, w, b, p=padding, d=dilation: F.conv1d(x, w, b, stride, p, d),
                    numbers(2, 3, n), numbers(4, 3, 3, seed=1), numbers(4, seed=2),
                    world=world, most=12,
                )  # fmt: skip


@pytest.mark.parametrize("world", WORLDS)
def test_other_convolutions(world: int) -> None:
    x, w = numbers(3, 4, 5, 6), numbers(6, 2, 3, 2, seed=1)
    compare(lambda x, w: F.conv2d(x, w, padding=1, groups=2), x, w, world=world)
    compare(lambda x, w: F.conv2d(x, w, stride=2), x, numbers(6, 4, 3, 2), world=world)
    compare(lambda x, w: F.conv_transpose2d(x, w, stride=2), x, numbers(4, 2, 3, 2), world=world)
    compare(lambda x, w: F.conv3d(x, w), numbers(1, 2, 3, 4, 5), numbers(2, 2, 2, 2, 2), world=world)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.data())
def test_convolutions_on_two_axes(data: st.DataObject) -> None:
    n, m = data.draw(st.integers(3, 8)), data.draw(st.integers(2, 7))
    stride, padding = data.draw(st.integers(1, 2)), data.draw(st.integers(0, 2))
    images = [data.draw(st.sampled_from(["R", "S(0)", "S(1)", "S(2)", "S(3)"])) for _ in range(2)]
    weights = [data.draw(st.sampled_from(["R", "S(0)", "S(1)"])) for _ in range(2)]
    arrays = numbers(2, 2, n, m), numbers(4, 2, 3, 2, seed=1)
    compare_on(lambda x, w: F.conv2d(x, w, None, stride, padding), arrays, (2, 2), [images, weights])


def test_a_convolution_sends_its_halo() -> None:
    x, w = numbers(1, 2, 64, 4096), numbers(3, 2, 3, 3)
    sent, layouts = moved(lambda x, w: F.conv2d(x, w, padding=1), [x, w], ["S(3)", "R"], 4)
    assert sent <= 2 * 2 * 64 * 8
    assert layouts == ["S(3)"]
    assert moved(lambda x, w: F.conv2d(x, w), [x, w], ["S(1)", "S(1)"], 2) == (0, ["P"])
    assert moved(lambda x, w: F.conv2d(x, w), [x, w], ["R", "S(0)"], 3) == (0, ["S(1)"])


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", POOLS)
def test_poolings(name: str, world: int) -> None:
    for n in (3, world + 1, 2 * world + 1):
        compare(POOLS[name], numbers(2, 2, n), world=world)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.data())
def test_poolings_on_two_axes(data: st.DataObject) -> None:
    x = numbers(2, 1, data.draw(st.integers(3, 8)), data.draw(st.integers(3, 8)))
    placed = [data.draw(st.sampled_from(["R", "S(0)", "S(2)", "S(3)", "P"])) for _ in range(2)]
    if placed == ["P", "P"]:
        placed = ["P", "S(2)"]
    op = data.draw(
        st.sampled_from(
            [
                lambda x: F.max_pool2d(x, (3, 2), stride=2, return_indices=True),
                lambda x: F.avg_pool2d(x, 2, stride=1, padding=1),
            ]
        )
    )
    compare_on(op, [x], (2, 2), [placed])


TWICE: dict[str, Callable[[Any, Any], Any]] = {
    "conv1d": lambda x, w: F.conv1d(x, w, w[:, 0, 0], stride=2, padding=2),
    "max_pool1d": lambda x, w: F.max_pool1d(x, 3, stride=2, padding=1),
    "avg_pool1d": lambda x, w: F.avg_pool1d(x * w[0], 3, stride=1, padding=1),
    "conv1d after conv1d": lambda x, w: F.conv1d(F.conv1d(x, w, padding=1).tanh(), w),
}


@pytest.mark.parametrize("op", TWICE.values(), ids=TWICE)
@pytest.mark.parametrize("world", WORLDS)
def test_gradients_of_gradients_along_places(op: Callable[[Any, Any], Any], world: int) -> None:
    """Also where a rank has nothing of the images, or of the result."""

    def third(x: Any, w: Any) -> list[Any]:
        out = op(x, w)
        found = [x, w]
        for power in (2, 3):
            out = (out**power).sum()
            slopes = sw.grad(out, found, create_graph=True, allow_unused=True)
            out = sum(((slope * slope).sum() for slope in slopes if slope is not None), x.sum() * 0.0)
        return [each for each in sw.grad(out, found, allow_unused=True) if each is not None]

    for n in (6, 2 * world + 1):
        image, kernel = numbers(2, 1, n) * 0.3, numbers(1, 1, n if op is TWICE["avg_pool1d"] else 3) * 0.4
        wanted = third(sw.tensor(image, requires_grad=True), sw.tensor(kernel, requires_grad=True))

        def go(rank: int, image: Any = image, kernel: Any = kernel) -> list[Any]:
            mesh = DeviceMesh("cpu", list(range(world)))
            x, w = tensor_in(image, mesh, ["S(2)"]), tensor_in(kernel, mesh, ["R"])
            return [each.full_tensor().numpy() for each in third(x, w)]

        for got in run_threads(go, world):
            for each, value in zip(got, wanted, strict=True):
                scale = max(1.0, float(abs(value.numpy()).max()))
                np.testing.assert_allclose(each, value.numpy(), rtol=1e-9, atol=1e-10 * scale)


def test_the_tape_of_gradients_sends_halos_and_no_wholes() -> None:
    image = numbers(1, 1, 4000)

    def go(rank: int) -> tuple[int, str]:
        mesh = DeviceMesh("cpu", [0, 1, 2, 3])
        x = tensor_in(image, mesh, ["S(2)"])
        with sw.explain() as e:
            (slope,) = sw.grad((F.conv1d(x, sw.ones(1, 1, 3, dtype=sw.float64), padding=1) ** 3).sum(), [x],
                               create_graph=True)  # fmt: skip
            (slope * slope).sum().backward()
        return sum(record.bytes for record in e.records), str(x.grad.layout)

    with_numbers = run_threads(lambda rank: _replicating(go, rank), 4)
    assert {laid for _, laid in with_numbers} == {"S(2)"}
    assert max(sent for sent, _ in with_numbers) <= 20 * 64


def _replicating(function: Callable[[int], Any], rank: int) -> Any:
    with implicit_replication():
        return function(rank)
