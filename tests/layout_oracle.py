"""What each rank must hold of a tensor, worked out element by element; and layouts to try."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.dtensor import Layout, Partial, Placement, Replicate, Shard
from shardwise.mesh import DeviceMesh


def coordinate(mesh: DeviceMesh, rank: int) -> tuple[int, ...] | None:
    """Look a rank up in a mesh."""
    for at in np.ndindex(*mesh.shape):
        if mesh.mesh[at] == rank:
            return at
    return None


def nested_pieces(n: int, widths: list[int]) -> list[list[int]]:
    """Cut the numbers below n over some axes, one after the other, by the ceil rule; last axis fastest."""
    pieces = [list(range(n))]
    for width in widths:
        finer = []
        for piece in pieces:
            step = math.ceil(len(piece) / width)
            finer += [piece[i * step : (i + 1) * step] for i in range(width)]
        pieces = finer
    return pieces


def indices(layout: Layout, at: tuple[int, ...]) -> list[list[int]]:
    """Give, for each dim, which places the rank at a coordinate holds."""
    held = []
    for dim, axes in enumerate(layout.order):
        widths = [layout.mesh.shape[axis] for axis in axes]
        number = 0
        for axis, width in zip(axes, widths, strict=True):
            number = number * width + at[axis]
        sizes = next((p.sizes for p in layout.placements if isinstance(p, Shard) and p.dim == dim), None)
        if sizes is None:
            held.append(nested_pieces(layout.shape[dim], widths)[number])
        else:
            held.append(list(range(sum(sizes[:number]), sum(sizes[: number + 1]))))
    return held


def local_array(whole: Array, layout: Layout, rank: int) -> Array:
    """Give what a rank must hold of `whole`; of a partial layout, terms that are made up."""
    at = coordinate(layout.mesh, rank)
    if at is None:
        return np.empty(0, whole.dtype)
    return _term(whole, layout, at)[np.ix_(*indices(layout, at))].copy()


def _term(whole: Array, layout: Layout, at: tuple[int, ...]) -> Array:
    axes = [axis for axis, p in enumerate(layout.placements) if isinstance(p, Partial)]
    if not axes:
        return whole
    everyone = list(itertools.product(*[range(layout.mesh.shape[axis]) for axis in axes]))
    me, count = everyone.index(tuple([at[axis] for axis in axes])), len(everyone)
    noise = [np.random.default_rng(k).integers(0, 9, whole.shape).astype(whole.dtype) for k in range(count)]
    placements = [layout.placements[axis] for axis in axes]
    ops = [p.reduce_op for p in placements if isinstance(p, Partial)]
    last = me == count - 1
    match ops[0]:
        case "sum" | "avg":
            means = [axis for axis, op in zip(axes, ops, strict=True) if op == "avg"]
            total = whole * math.prod([layout.mesh.shape[axis] for axis in means])
            term = total - sum(noise[:-1], np.zeros_like(whole)) if last else noise[me]
        case "max":
            term = np.where(np.argmax(noise, axis=0) == me, whole, whole - 1 - noise[me])
        case "min":
            term = np.where(np.argmax(noise, axis=0) == me, whole, whole + 1 + noise[me])
        case "prod":
            signs = [(2 * (each % 2) - 1).astype(whole.dtype) for each in noise]
            term = whole * np.prod(signs[:-1], axis=0) if last and count > 1 else whole if last else signs[me]
        case "bxor":
            term = np.bitwise_xor.reduce([whole, *noise[:-1]]) if last else noise[me]
        case "bor":
            term = whole if last else whole & noise[me]
        case "band":
            term = whole if last else whole | noise[me]
        case other:
            raise AssertionError(other)
    return np.asarray(term, whole.dtype)


def random_layout(
    mesh: DeviceMesh, shape: tuple[int, ...], dtype: Any, rng: random.Random, ops: tuple[str, ...] = ()
) -> Layout:
    """Make a layout: any axis in any order on any dim, some dims in sizes of their own, some axes partial."""
    order: list[list[int]] = [[] for _ in shape]
    placements: list[Placement] = [Replicate()] * mesh.ndim
    axes = list(range(mesh.ndim))
    rng.shuffle(axes)
    for axis in axes:
        kind = rng.random()
        if kind < 0.6 and shape:
            order[rng.randrange(len(shape))].append(axis)
        elif kind < 0.75 and ops:
            placements[axis] = Partial(rng.choice(ops))  # type: ignore[arg-type]
    for dim, cut in enumerate(order):
        sizes = None
        if cut and rng.random() < 0.3:
            count = math.prod([mesh.shape[axis] for axis in cut])
            ends = sorted(rng.randint(0, shape[dim]) for _ in range(count - 1))
            sizes = tuple([b - a for a, b in itertools.pairwise([0, *ends, shape[dim]])])
        for axis in cut:
            placements[axis] = Shard(dim, sizes)
    return Layout.of(mesh, tuple(placements), tuple(map(tuple, order)), shape, np.dtype(dtype))


def random_mesh(rng: random.Random, world: int, shape: tuple[int, ...]) -> DeviceMesh:
    """Make a mesh of that shape of some ranks of a world, in any order."""
    return DeviceMesh("cpu", np.array(rng.sample(range(world), math.prod(shape))).reshape(shape))
