"""Every op on sharded tensors against itself on whole ones: what is tried, and how it is gone through.

A trial is a case of `gradient_cases` and a layout per tensor. Many trials share one crew of ranks. A rank
that fails ends its crew; the trial is noted, and another crew goes on behind it, so that one failure hides no
other.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

import shardwise as sw
from gradient_cases import CASES
from layout_oracle import local_array, random_layout
from part_oracle import array_of, flat, weight_of
from shardwise.backend.array import Array
from shardwise.backend.errors import DataDependentShapeError, LayoutError
from shardwise.backend.shape import ShapeArray
from shardwise.collectives import run_threads
from shardwise.dtensor import DTensor, Layout, Shard, implicit_replication
from shardwise.dtensor.sharded_array import ShardedArray
from shardwise.mesh import DeviceMesh
from shardwise.tensor import Tensor
from shardwise.tensor.autograd import backward, grad
from tolerance import tolerance

__all__ = ["Trial", "failures", "made", "on_one_axis", "on_two_axes", "run_dry", "run_trial", "wanted"]

_REFUSED = "view: "  # what ops may refuse: a view sends nothing, ever
# Not run dry: ranks tell each other how many elements each has chosen, with data or without.
_TALKING = ("index booleans", "masked_select")
_ROOM = 64  # how much larger errors may be: terms that are up to nine, matrices that are hard to invert
_ALL = 2  # tensors, in up to which every combination of placements is tried


@dataclass(frozen=True)
class Trial:
    """One op on tensors that lie so; layouts are None for what is no tensor."""

    name: str
    layouts: tuple[Layout | None, ...]
    twice: bool = False
    """Whether gradients of gradients are compared too."""

    def __str__(self) -> str:
        placed = ", ".join("-" if each is None else str(each) for each in self.layouts)
        return f"{self.name}: {placed}" + (", gradients of gradients" if self.twice else "")


Wanted: TypeAlias = "tuple[list[Array], list[Array | None]]"


# ---- what is tried


def made(world: int, trials: Callable[[], Iterator[Trial]]) -> list[Trial]:
    """Make trials inside a world, where there can be meshes."""
    return run_threads(lambda rank: list(trials()) if rank == 0 else [], world)[0]


def on_one_axis(name: str, world: int, most: int, twice: bool = False) -> Iterator[Trial]:
    """Yield placements on one axis, all or `most` of them, and last ragged ones."""
    mesh = DeviceMesh("cpu", list(range(world)))
    args = CASES[name][1]
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    ways: list[list[Any]] = [_ways(arg) if isinstance(arg, Tensor) else [None] for arg in args]
    every = math.prod(map(len, ways))
    rng = random.Random(zlib.crc32(name.encode()) + world)
    if every <= most or (len(tensors) <= _ALL and not most):
        chosen = list(itertools.product(*ways))
    else:  # drawn without making the product, which may be of millions
        count = min(most or 40, every)
        chosen = [tuple([each[k] for each, k in zip(ways, _digits(i, ways), strict=True)])
                  for i in sorted(rng.sample(range(every), count))]  # fmt: skip
    for placed in chosen:
        yield Trial(name, tuple([_layout(mesh, arg, p) for arg, p in zip(args, placed, strict=True)]), twice)
    ragged = [_ragged(arg, world) if isinstance(arg, Tensor) else None for arg in args]
    yield Trial(name, tuple([_layout(mesh, arg, p) for arg, p in zip(args, ragged, strict=True)]), twice)


def on_two_axes(name: str, count: int, twice: bool = False) -> Iterator[Trial]:
    """Yield layouts on a mesh of two by two: axes in any order, uneven pieces, terms of sums."""
    mesh = DeviceMesh("cpu", np.arange(4).reshape(2, 2))
    rng = random.Random(zlib.crc32(name.encode()))
    for _ in range(count):
        layouts = tuple(
            [
                random_layout(mesh, arg.shape, arg.dtype, rng, ("sum",) if arg.dtype.kind in "fc" else ())
                if isinstance(arg, Tensor)
                else None
                for arg in CASES[name][1]
            ]
        )
        yield Trial(name, layouts, twice)


def _ways(x: Tensor) -> list[Any]:
    return ["R", *[Shard(dim) for dim in range(x.ndim)], *(["P"] if x.dtype.kind in "fc" else [])]


def _digits(i: int, ways: Sequence[Sequence[Any]]) -> list[int]:
    digits = []
    for each in ways:
        i, digit = divmod(i, len(each))
        digits.append(digit)
    return digits


def _ragged(x: Tensor, world: int) -> Any:
    """All but one place on the last rank, and none on the second."""
    if not x.ndim:
        return "R"
    first = min(1, x.shape[0])
    return Shard(0, (first, *[0] * (world - 2), x.shape[0] - first))


def _layout(mesh: DeviceMesh, x: Any, placement: Any) -> Layout | None:
    return None if placement is None else Layout(mesh, [placement], x.shape, x.dtype)


# ---- how it is compared


def failures(trials: Sequence[Trial], world: int, run: Callable[[Trial], object] | None = None) -> list[str]:
    """Go through trials on ranks that are threads; say which failed, and how."""
    for trial in trials:
        wanted(trial.name, trial.twice)
    found: list[str] = []
    start = 0
    while start < len(trials):
        reached: list[int] = [start] * world

        def go(rank: int, start: int = start, reached: list[int] = reached) -> None:
            for i in range(start, len(trials)):
                reached[rank] = i
                (run or run_trial)(trials[i])
            reached[rank] = len(trials)

        try:
            run_threads(go, world)
            return found
        except Exception as error:
            start = min(reached)
            found.append(f"{trials[start]}\n    {type(error).__name__}: {error}")
            start += 1
    return found


def run_trial(trial: Trial) -> list[Layout | None]:
    """Compare on the ranks of a mesh, each of which calls it; say how the results lie."""
    function, args = CASES[trial.name]
    tensors = [
        arg if layout is None else _put(arg, layout) for arg, layout in zip(args, trial.layouts, strict=True)
    ]
    sw.manual_seed(3)
    try:
        with implicit_replication():
            outs = flat(function(*tensors))
        _go_back(outs, tensors, trial.twice)
    except LayoutError as error:
        if not str(error).startswith(_REFUSED):
            raise
        return []
    values, slopes = wanted(trial.name, trial.twice)
    length = _length(trial.name)
    assert len(outs) == len(values)
    for i, (out, value) in enumerate(zip(outs, values, strict=True)):
        if isinstance(out, DTensor):
            here = out.layout.mesh.get_coordinate()
            assert out.data.local.shape == out.layout.local_shape(here), f"part of output {i}: {out.layout}"
        _assert_near(array_of(out), value, length, f"output {i}")
    for i, (tensor, slope) in enumerate(zip(tensors, slopes, strict=True)):
        if not isinstance(tensor, Tensor):
            continue
        if trial.twice and slope is None and tensor.grad is not None:  # zeros are nothing, too
            slope = np.zeros_like(array_of(tensor.grad))
        assert (tensor.grad is None) == (slope is None), f"input {i}: has a gradient, or has none"
        if slope is not None:
            assert tensor.grad.layout is tensor.layout.reduced(), f"gradient {i} is {tensor.grad.layout}"
            _assert_near(array_of(tensor.grad), slope, length, f"gradient of input {i}")
    return [out.layout if isinstance(out, DTensor) else None for out in outs]


def run_dry(trial: Trial) -> list[Layout | None] | None:
    """Say how the results lie, from shapes alone, on this rank alone; None if that takes data."""
    if trial.name.startswith(_TALKING):
        return None
    function, args = CASES[trial.name]
    here = (sw.rank(),)
    tensors = [
        arg
        if layout is None
        else DTensor(
            ShardedArray(ShapeArray(layout.local_shape(here), layout.dtype), layout), arg.requires_grad
        )
        for arg, layout in zip(args, trial.layouts, strict=True)
    ]
    try:
        with implicit_replication():
            outs = flat(function(*tensors))
    except DataDependentShapeError:
        return None
    except LayoutError as error:
        if not str(error).startswith(_REFUSED):
            raise
        return []
    for out in outs:
        assert not isinstance(out, DTensor) or out.data.local.shape == out.layout.local_shape(here), trial
    return [out.layout if isinstance(out, DTensor) else None for out in outs]


@functools.cache
def wanted(name: str, twice: bool) -> Wanted:
    """Give values and gradients of a case on whole tensors."""
    function, args = CASES[name]
    tensors = [
        sw.tensor(arg.detach().numpy().copy(), requires_grad=arg.requires_grad)
        if isinstance(arg, Tensor)
        else arg
        for arg in args
    ]
    sw.manual_seed(3)
    outs = flat(function(*tensors))
    _go_back(outs, tensors, twice)
    grads = [
        None if not isinstance(each, Tensor) or each.grad is None else array_of(each.grad) for each in tensors
    ]
    return [array_of(out) for out in outs], grads


def _go_back(outs: Sequence[Any], tensors: Sequence[Any], twice: bool) -> None:
    """Fill in the gradients of a weighted sum of results; or of the squares of its gradients."""
    tracked = [(out, _like(out, weight_of(out, i))) for i, out in enumerate(outs) if out.requires_grad]
    if not tracked:
        return
    heads, weights = [out for out, _ in tracked], [weight for _, weight in tracked]
    if not twice:
        backward(heads, weights)
        return
    leaves = [each for each in tensors if isinstance(each, Tensor) and each.requires_grad]
    slopes = grad(heads, leaves, weights, create_graph=True, allow_unused=True)
    squares = [
        (slope * slope.conj()).real.sum() if slope.is_complex() else (slope * slope).sum()
        for slope in slopes
        if slope is not None and slope.requires_grad
    ]
    if squares:
        backward(squares)


def _put(x: Tensor, layout: Layout) -> DTensor:
    local = local_array(x.detach().numpy(), layout, sw.rank())
    return DTensor(ShardedArray(local, layout), requires_grad=x.requires_grad)


def _like(out: Any, weight: Array) -> Tensor:
    if not isinstance(out, DTensor):
        return sw.tensor(weight)
    whole = Layout(out.device_mesh, ["R"] * out.device_mesh.ndim, weight.shape, weight.dtype)
    return DTensor(ShardedArray(weight, whole))


@functools.cache
def _length(name: str) -> int:
    """How many terms were added up, at most: each pair of elements, and over once more going back."""
    return max(16, sum(arg.numel() for arg in CASES[name][1] if isinstance(arg, Tensor))) ** 2


def _assert_near(got: Array, want: Array, length: int, what: str) -> None:
    assert (got.shape, got.dtype) == (want.shape, want.dtype), what
    if want.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, want, what)
        return
    finite = np.isfinite(want)
    np.testing.assert_array_equal(np.isfinite(got), finite, what)
    np.testing.assert_array_equal(got[~finite], want[~finite], what)
    scale = max(1.0, float(np.abs(want[finite]).max(initial=0.0)))
    worst = float(np.abs(got[finite] - want[finite]).max(initial=0.0)) / scale
    allowed = _ROOM * tolerance(want.real.dtype, length)
    assert worst <= allowed, f"{what} is off by {worst:.2e}, {allowed:.2e} allowed"
