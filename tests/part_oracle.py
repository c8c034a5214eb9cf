"""Ops on sharded tensors against the same on whole ones, forward and backward, over placements and worlds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import shardwise as sw
from shardwise.collectives import run_threads
from shardwise.dtensor import DTensor, Layout, distribute_tensor, from_local, implicit_replication
from shardwise.mesh import DeviceMesh
from shardwise.tensor import Tensor
from shardwise.tensor.autograd import backward

__all__ = ["WORLDS", "compare", "compare_on", "moved", "numbers", "sizes", "tensor_in"]

WORLDS = (2, 3, 4)
Op = Callable[..., Any]


def sizes(world: int) -> tuple[int, ...]:
    """Give the lengths that are cut in all the ways there are: none, too few, just enough, uneven."""
    return tuple(dict.fromkeys((0, 1, world - 1, world, world + 1, 2 * world + 1)))


def numbers(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Give float64 numbers, of which no two are equal."""
    count = int(np.prod(shape))
    order = np.random.default_rng(seed).permutation(count)
    return (order * 0.37 - 0.13 * count + 0.011).reshape(shape)


def flat(out: Any) -> list[Any]:
    """Give the tensors among results."""
    if isinstance(out, Tensor):
        return [out]
    return [each for part in out for each in flat(part)] if isinstance(out, (tuple, list)) else []


def array_of(x: Any) -> Any:
    """Give the whole of a tensor as an array."""
    return (x.full_tensor() if isinstance(x, DTensor) else x).detach().numpy()


def weight_of(out: Any, place: int) -> Any:
    """Give numbers to weigh a result with."""
    count = int(np.prod(out.shape))
    return (np.cos(np.arange(count) * 1.3 + place) + 0.3).reshape(out.shape).astype(out.dtype)


def tensor_in(whole: Any, mesh: DeviceMesh, placements: Any, grad: bool = True) -> Any:
    """Put an array on a mesh; terms of a sum are random but for the last rank's."""
    layout = Layout(mesh, placements, whole.shape, whole.dtype)
    if layout.partial:
        axis = layout.partial[0]
        here, width = mesh.get_coordinate()[axis], mesh.shape[axis]  # type: ignore[index]  # in the mesh
        rng = np.random.default_rng(5)
        terms = [rng.standard_normal(whole.shape).astype(whole.dtype) for _ in range(width - 1)]
        terms.append(whole - sum(terms) if terms else whole.copy())
        key = (*layout.box(mesh.get_coordinate() or ()).slices, ...)
        tensor = from_local(np.asarray(terms[here][key]), mesh, placements, shape=whole.shape).detach()
    else:
        tensor = distribute_tensor(sw.tensor(whole), mesh, placements)
    tensor.requires_grad = grad and whole.dtype.kind in "fc"
    return tensor


def _unsharded(fn: Op, arrays: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    tensors = [sw.tensor(a, requires_grad=a.dtype.kind in "fc") for a in arrays]
    outs = flat(fn(*tensors))
    floats = [(o, i) for i, o in enumerate(outs) if o.requires_grad]
    if floats:
        backward([o for o, _ in floats], [sw.tensor(weight_of(o, i)) for o, i in floats])
    return [array_of(o) for o in outs], [None if t.grad is None else array_of(t.grad) for t in tensors]


def _check(fn: Op, arrays: Sequence[Any], mesh: DeviceMesh, placed: Sequence[Any], wanted: Any) -> list[str]:
    tensors = [tensor_in(a, mesh, p) for a, p in zip(arrays, placed, strict=True)]
    with implicit_replication():
        outs = flat(fn(*tensors))
    floats = [(o, i) for i, o in enumerate(outs) if o.requires_grad]
    if floats:
        whole = ["R"] * mesh.ndim
        grads = [
            distribute_tensor(sw.tensor(weight_of(o, i)), mesh, whole)
            if isinstance(o, DTensor)
            else sw.tensor(weight_of(o, i))
            for o, i in floats
        ]
        backward([o for o, _ in floats], grads)
    values, slopes = wanted
    assert len(outs) == len(values), placed
    for out, value in zip(outs, values, strict=True):
        got = array_of(out)
        assert got.dtype == value.dtype, placed
        np.testing.assert_allclose(got, value, rtol=1e-9, atol=1e-9, err_msg=f"value, {placed}")
        if isinstance(out, DTensor):
            assert out.data.local.shape == out.layout.local_shape(mesh.get_coordinate()), placed
    for tensor, slope in zip(tensors, slopes, strict=True):
        assert (tensor.grad is None) == (slope is None), placed
        if slope is not None:
            np.testing.assert_allclose(
                array_of(tensor.grad), slope, rtol=1e-8, atol=1e-8, err_msg=f"gradient, {placed}"
            )
    return [str(o.layout) if isinstance(o, DTensor) else "plain" for o in outs]


def compare_on(fn: Op, arrays: Sequence[Any], mesh: Any, placed: Sequence[Any]) -> list[str]:
    """Compare on a mesh of a shape, in one placement per array and axis; say how the results lie."""
    wanted = _unsharded(fn, arrays)
    count = int(np.prod(mesh))

    def go(rank: int) -> list[str]:
        return _check(fn, arrays, DeviceMesh("cpu", np.arange(count).reshape(mesh)), placed, wanted)

    return run_threads(go, count)[0]


def compare(fn: Op, *arrays: Any, world: int, partial: bool = True, most: int = 60) -> None:
    """Compare in every placement of every array along one axis, or in `most` of them."""
    wanted = _unsharded(fn, arrays)
    ways = [
        ["R", *[f"S({d})" for d in range(a.ndim)], *(["P"] if partial and a.dtype.kind in "fc" else [])]
        for a in arrays
    ]
    every = list(itertools.product(*ways))
    if len(every) > most:
        chosen = np.random.default_rng(0).choice(len(every), most, replace=False)
        every = [every[i] for i in sorted(chosen)]

    def go(rank: int) -> None:
        mesh = DeviceMesh("cpu", list(range(world)))
        for placed in every:
            _check(fn, arrays, mesh, [[p] for p in placed], wanted)

    run_threads(go, world)


def moved(fn: Op, arrays: Sequence[Any], placed: Sequence[Any], world: int) -> tuple[int, list[str]]:
    """Give the most bytes that a rank sends forward, and how the results lie."""

    def go(rank: int) -> tuple[int, list[str]]:
        mesh = DeviceMesh("cpu", list(range(world)))
        tensors = [tensor_in(a, mesh, [p]) for a, p in zip(arrays, placed, strict=True)]
        with sw.explain() as seen:
            outs = flat(fn(*tensors))
        return seen.total_bytes(), [str(o.layout) for o in outs]

    results = run_threads(go, world)
    return max(n for n, _ in results), results[0][1]
