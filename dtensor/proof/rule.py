"""`check_rule`: prove the sharding rule of an op by trying all placements of its inputs."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ArgumentError, LayoutError
from shardwise.collectives import explain, run_threads
from shardwise.dtensor.dtensor import DTensor
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.placement import Shard
from shardwise.dtensor.policy import implicit_replication
from shardwise.dtensor.proof.part import part_of, partial_kinds
from shardwise.dtensor.proof.report import Outcome, RuleReport
from shardwise.dtensor.sharded_array import ShardedArray
from shardwise.mesh import DeviceMesh
from shardwise.tensor.autograd import backward
from shardwise.tensor.function import Function
from shardwise.tensor.mode import enable_grad
from shardwise.tensor.random import manual_seed
from shardwise.tensor.tensor import Tensor

__all__ = ["check_rule"]

Op = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class _Trial:
    """Inputs that lie so: on ranks of their own, with or without gradients."""

    layouts: tuple[Layout | None, ...]
    tracked: bool

    def __str__(self) -> str:
        mesh = next(layout.mesh for layout in self.layouts if layout is not None)
        placed = ", ".join(
            f"input {i} {layout}" for i, layout in enumerate(self.layouts) if layout is not None
        )
        return f"on a mesh of {'x'.join(map(str, mesh.shape))} with {placed}" + (
            ", gradients recorded" if self.tracked else ""
        )


@dataclass(frozen=True, slots=True)
class _Whole:
    """What an op gives on whole arrays."""

    values: list[Array]
    slopes: list[Array | None]


def check_rule(
    op: type[Function] | Op,
    *args: Any,
    mesh_shapes: Sequence[int | tuple[int, ...]] = ((2,), (3,), (2, 2)),
    most: int = 400,
    rtol: float = 1e-9,
    atol: float = 1e-9,
    **params: Any,
) -> RuleReport:
    """Compare an op on sharded tensors with itself on whole ones, forward and backward, however they lie.

    Tries, for every input and every axis of each mesh, `Replicate`, `Shard` of each dim, and `Partial` of
    each kind that its dtype has; once more with gradients, under which terms are those of sums. Shards in
    pieces of any sizes are among them. It takes one process: the ranks are threads.

    Parameters
    ----------
    op : Function class, or callable
        A class is called through `apply`.
    *args : array, Tensor, or anything
        Inputs. Arrays are sharded; choose small ones, in float64, whose dims are no multiples of the meshes'
        widths. Floating ones get gradients, but for Tensors that do not require any.
    mesh_shapes : sequence of (int or tuple of int)
        Each at most 16 ranks.
    most : int
        Combinations to try on each mesh; if there are more, these are drawn, the same ones each time.
    rtol, atol : float
        Largest relative and absolute difference allowed.
    **params
        Passed on to `op`.

    Returns
    -------
    RuleReport
        How many combinations were tried, how results came out, and what was sent.

    Raises
    ------
    LayoutError
        Parts gave something else than the whole, or an error: names the placements and what differed.
    ArgumentError
        There is no array among the inputs, or a mesh is too large.

    Examples
    --------
    >>> import numpy as np
    >>> from shardwise.tensor.ops.matmul import MatMul
    >>> x, y = np.arange(15.0).reshape(3, 5), np.arange(10.0).reshape(5, 2)
    >>> report = check_rule(MatMul, x, y, mesh_shapes=[2])
    >>> report.tried == report.possible, "S(0)" in report.layouts, "P" in report.layouts
    (True, True, True)
    """
    name = getattr(op, "__name__", repr(op))
    call: Op = op.apply if isinstance(op, type) and issubclass(op, Function) else op
    arrays = [_array(arg) for arg in args]
    if not any(array is not None for array in arrays):
        raise ArgumentError(f"check_rule({name}): there is no array among the inputs, and nothing to shard")
    shapes = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in mesh_shapes]
    for shape in shapes:
        if not 1 <= math.prod(shape) <= 16:
            raise ArgumentError(
                f"check_rule({name}): mesh_shapes has {shape}, which takes {math.prod(shape)} ranks; wanted "
                "1 to 16, each a thread of this process"
            )

    def run(*inputs: Any) -> list[Any]:
        manual_seed(0)
        return _tensors(call(*inputs, **params))

    floats = [_wants_gradient(arg) for arg in args]
    wholes = {
        tracked: run_threads(lambda rank, tracked=tracked: _on_wholes(run, args, arrays, floats, tracked), 1)[
            0
        ]
        for tracked in (False, True)
        if not tracked or any(floats)
    }
    possible, outcomes = 0, []
    for shape in shapes:
        count, tried = run_threads(
            lambda rank, shape=shape: _trials(arrays, shape, most, True in wholes), math.prod(shape)
        )[0]
        possible += count
        outcomes += _gone_through(name, run, args, arrays, floats, tried, wholes, (rtol, atol))
    return RuleReport(name, possible, tuple(outcomes))


# ---- what is tried


def _trials(
    arrays: Sequence[Array | None], shape: tuple[int, ...], most: int, with_gradients: bool
) -> tuple[int, list[_Trial]]:
    """Return how many combinations there are on a mesh, and those to try; the ragged ones come last."""
    mesh = DeviceMesh("cpu", np.arange(math.prod(shape)).reshape(shape))
    possible, chosen = 0, []
    for tracked in (False, True) if with_gradients else (False,):
        ways = [[None] if array is None else _ways(mesh, array, tracked) for array in arrays]
        count = math.prod(map(len, ways))
        if count <= most:
            chosen += [_Trial(each, tracked) for each in itertools.product(*ways)]
        else:
            rng = random.Random(count)
            chosen += [_Trial(tuple(map(rng.choice, ways)), tracked) for _ in range(most)]
        ragged = [None if array is None else _ragged(mesh, array) for array in arrays]
        chosen.append(_Trial(tuple(ragged), tracked))
        possible += count + 1
    return possible, chosen


def _ways(mesh: DeviceMesh, array: Array, tracked: bool) -> list[Layout | None]:
    kinds = partial_kinds(array.dtype)
    if tracked and array.dtype.kind in "fc":
        kinds = ("sum",)
    placed = ["R", *[f"S({dim})" for dim in range(array.ndim)], *[f"P({kind})" for kind in kinds]]
    ways: list[Layout | None] = []
    for each in itertools.product(placed, repeat=mesh.ndim):
        try:
            ways.append(Layout(mesh, each, array.shape, array.dtype))
        except LayoutError:  # terms of reductions that cannot be told apart
            continue
    return ways


def _ragged(mesh: DeviceMesh, array: Array) -> Layout:
    """Leave the first rank without anything, and give the last one most."""
    width = mesh.shape[0]
    placed: list[Any] = ["R"] * mesh.ndim
    if array.ndim and width > 1:
        n, short = array.shape[0], min(1, array.shape[0])
        sizes = (0, *[0] * (width - 3), short, n - short) if width > 2 else (short, n - short)
        placed[0] = Shard(0, sizes)
    return Layout(mesh, placed, array.shape, array.dtype)


# ---- how it is compared


def _gone_through(
    name: str,
    run: Op,
    args: Sequence[Any],
    arrays: Sequence[Array | None],
    floats: Sequence[bool],
    trials: Sequence[_Trial],
    wholes: dict[bool, _Whole],
    allowed: tuple[float, float],
) -> list[Outcome]:
    world = math.prod(_mesh(trials[0]).shape)
    reached = [0] * world

    def go(rank: int) -> list[Outcome]:
        outcomes = []
        for i, trial in enumerate(trials):
            reached[rank] = i
            outcomes.append(_tried(run, args, arrays, floats, trial, wholes[trial.tracked], allowed))
        reached[rank] = len(trials)
        return outcomes

    try:
        return run_threads(go, world)[0]
    except Exception as error:
        trial = trials[min(reached)]
        what = str(error) if isinstance(error, _Differs) else f"{type(error).__name__}: {error}"
        raise LayoutError(f"check_rule({name}) {trial}: {what}") from error


class _Differs(LayoutError):
    """Parts gave something else than the whole."""


def _tried(
    run: Op,
    args: Sequence[Any],
    arrays: Sequence[Array | None],
    floats: Sequence[bool],
    trial: _Trial,
    whole: _Whole,
    allowed: tuple[float, float],
) -> Outcome:
    """Run one combination on this rank, and compare; all ranks call it."""
    mesh = _mesh(trial)
    here = mesh.get_coordinate() or ()
    inputs = [
        arg
        if array is None or layout is None
        else DTensor(ShardedArray(part_of(array, layout, here), layout), trial.tracked and wants)
        for arg, array, wants, layout in zip(args, arrays, floats, trial.layouts, strict=True)
    ]
    with explain() as seen, implicit_replication():
        outs = run(*inputs)
    laid = ", ".join(str(_layout(out)) for out in outs)
    if len(outs) != len(whole.values):
        raise _Differs(f"there are {len(outs)} outputs, and {len(whole.values)} of whole arrays")
    for i, (out, value) in enumerate(zip(outs, whole.values, strict=True)):
        layout = _layout(out)
        if layout is not None and out.data.local.shape != layout.local_shape(here):
            raise _Differs(
                f"the part of output {i} at {here} has the shape {out.data.local.shape}, and {layout} says "
                f"{layout.local_shape(here)}; does a parameter tell of the whole? Then give `localize`"
            )
        _compare(f"output {i}, which came out as {layout},", _value(out), value, allowed)
    if trial.tracked:
        _go_back(outs)
        for i, (tensor, slope) in enumerate(zip(inputs, whole.slopes, strict=True)):
            if isinstance(tensor, DTensor) and floats[i]:
                got = None if tensor.grad is None else _value(tensor.grad)
                if (got is None) != (slope is None):
                    raise _Differs(
                        f"input {i} {'lacks' if got is None else 'has'} a gradient, unlike on wholes"
                    )
                if got is not None and slope is not None:
                    _compare(f"the gradient of input {i} (outputs came out as {laid})", got, slope, allowed)
    moved = tuple(
        f"{r.conversion.source} -> {r.conversion.target}" if r.conversion is not None else r.op
        for r in seen.records
    )
    placed = tuple("" if layout is None else str(layout) for layout in trial.layouts)
    outputs = tuple("" if _layout(out) is None else str(_layout(out)) for out in outs)
    return Outcome(mesh.shape, placed, outputs, moved, trial.tracked)


def _on_wholes(
    run: Op, args: Sequence[Any], arrays: Sequence[Array | None], floats: Sequence[bool], tracked: bool
) -> _Whole:
    inputs = [
        arg if array is None else Tensor(array.copy(), requires_grad=tracked and wants)
        for arg, array, wants in zip(args, arrays, floats, strict=True)
    ]
    with enable_grad():
        outs = run(*inputs)
        if tracked:
            _go_back(outs)
    slopes = [
        each.grad.numpy() if isinstance(each, Tensor) and each.grad is not None else None for each in inputs
    ]
    return _Whole([_value(out) for out in outs], slopes)


def _go_back(outs: Sequence[Any]) -> None:
    """Fill in the gradients of a weighted sum of the outputs."""
    heads = [(i, out) for i, out in enumerate(outs) if out.requires_grad]
    weights: list[Tensor] = []
    for i, out in heads:
        count = math.prod(out.shape)
        weight = (np.cos(np.arange(count) * 1.3 + i) + 0.3).reshape(out.shape).astype(out.dtype)
        if isinstance(out, DTensor):
            weights.append(DTensor(ShardedArray(weight, out.layout.replicated())))
        else:
            weights.append(Tensor(weight))
    if heads:
        backward([out for _, out in heads], weights)


def _compare(what: str, got: Array, want: Array, allowed: tuple[float, float]) -> None:
    if (got.shape, got.dtype) != (want.shape, want.dtype):
        raise _Differs(
            f"{what} is {got.dtype}{list(got.shape)}, and {want.dtype}{list(want.shape)} of wholes"
        )
    near = np.isclose(got, want, rtol=allowed[0], atol=allowed[1], equal_nan=True)
    if not near.all():
        at = tuple(int(i) for i in np.argwhere(~near)[0])
        raise _Differs(
            f"{what} is {got[at]} at {at}, and {want[at]} of wholes; {int((~near).sum())} of {near.size} "
            "differ"
        )


def _array(arg: Any) -> Array | None:
    if isinstance(arg, Tensor):
        return arg.detach().numpy()
    return arg if isinstance(arg, np.ndarray) else None


def _wants_gradient(arg: Any) -> bool:
    if isinstance(arg, Tensor):
        return arg.requires_grad
    return isinstance(arg, np.ndarray) and arg.dtype.kind in "fc"


def _tensors(out: Any) -> list[Any]:
    if isinstance(out, Tensor):
        return [out]
    return [each for part in out for each in _tensors(part)] if isinstance(out, (tuple, list)) else []


def _value(out: Any) -> Array:
    whole = out.full_tensor() if isinstance(out, DTensor) else out
    array: Array = whole.detach().numpy()
    return array


def _layout(out: Any) -> Layout | None:
    return out.layout if isinstance(out, DTensor) else None


def _mesh(trial: _Trial) -> DeviceMesh:
    return next(layout.mesh for layout in trial.layouts if layout is not None)
