"""`compare`: all stages of a model on one rank, against the model in one piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardwise.backend.errors import ScheduleError
from shardwise.backend.select import backend_of
from shardwise.nn import Module
from shardwise.pipelining.arguments import Crossing
from shardwise.pipelining.skip import Box, carrying
from shardwise.tensor import Tensor, random, tree_leaves, tree_map
from shardwise.tensor.autograd import backward

__all__ = ["Comparison", "compare", "go_back", "undisturbed"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """By how much a split model differs from the whole one, relative to the largest element of each array.

    Attributes
    ----------
    outputs : tuple of float
        Per result.
    gradients, buffers : dict of str to float
        Per parameter that has a gradient, and per buffer.
    """

    outputs: tuple[float, ...]
    gradients: dict[str, float]
    buffers: dict[str, float]

    @property
    def largest(self) -> float:
        """The largest difference of all."""
        return max([*self.outputs, *self.gradients.values(), *self.buffers.values()], default=0.0)

    def __str__(self) -> str:
        lines = [
            f"results     {len(self.outputs):5d}  differ by at most {max(self.outputs, default=0.0):.1e}"
        ]
        for what, found in (("gradients", self.gradients), ("buffers", self.buffers)):
            worst = max(found, key=found.__getitem__, default="")
            line = f"{what:<11} {len(found):5d}  differ by at most {found.get(worst, 0.0):.1e}"
            lines.append(line + (f", {worst}" if found.get(worst, 0.0) else ""))
        return "\n".join(lines)


def compare(
    model: Module, stages: Sequence[Module], args: tuple[Any, ...], kwargs: dict[str, Any], rtol: float
) -> Comparison:
    """Run a model whole and in stages, forward and backward, and compare; see `Pipe.check`."""
    streams = random.snapshot()
    runs = []
    for parts in ([], stages):
        with undisturbed(model), random.replay(streams):
            given = tree_map(_copy, args), tree_map(_copy, kwargs)  # some models write into what they get
            outputs = _staged(parts, *given) if parts else _whole(model, *given)
            gradients = {n: _host(p.grad) for n, p in model.named_parameters() if p.grad is not None}
            buffers = {n: _host(b) for n, b in model.named_buffers()}
            runs.append((outputs, gradients, buffers))
    (outputs, gradients, buffers), (others, theirs, after) = runs
    if len(outputs) != len(others) or gradients.keys() != theirs.keys():
        odd = sorted(gradients.keys() ^ theirs.keys())
        raise ScheduleError(
            f"the stages give {len(others)} results and the model {len(outputs)}; parameters that have a "
            f"gradient in one of them alone: {', '.join(odd) or 'none'}"
        )
    found = Comparison(
        tuple([_difference(a, b) for a, b in zip(outputs, others, strict=True)]),
        {name: _difference(array, theirs[name]) for name, array in gradients.items()},
        {name: _difference(array, after[name]) for name, array in buffers.items()},
    )
    if not found.largest <= rtol:
        raise ScheduleError(f"the stages are not the model: wanted differences up to {rtol}, got\n{found}")
    return found


def _whole(model: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    results = [leaf for leaf in tree_leaves(model(*args, **kwargs)) if isinstance(leaf, Tensor)]
    go_back(results, None)
    return [_host(each) for each in results]


def _staged(stages: Sequence[Module], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    number = random.next_forward()
    crossed: list[list[tuple[Tensor, list[Tensor]]]] = []  # per stage: what it gave, and who took it
    aside: dict[str, tuple[Tensor, list[Tensor]]] = {}
    value: Any = args
    for stage in stages:
        given = value if stage is stages[0] else (value,)
        taken = {name: _leaf(tensor) for name, (tensor, _) in aside.items()}
        box = Box(taken)
        with random.enter(random.Scope(stage.module_paths, number)), carrying(box):
            value = stage(*given, **kwargs)
        for name in box.taken:
            aside[name][1].append(taken[name])
        left = {name: (tensor, list[Tensor]()) for name, tensor in box.left.items()}
        aside.update(left)
        crossed.append(list(left.values()))
        if stage is not stages[-1]:
            leaves = [_leaf(each) for each in value.tensors]
            crossed[-1] += [(gave, [took]) for gave, took in zip(value.tensors, leaves, strict=True)]
            value = Crossing.of(leaves, value.arguments)
    results = [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]
    go_back(results, None)
    for pairs in reversed(crossed[:-1]):
        go_back([gave for gave, _ in pairs], [_sum_of_gradients(took) for _, took in pairs])
    return [_host(each) for each in results]


def _copy(leaf: Any) -> Any:
    return leaf.detach().clone().requires_grad_(leaf.requires_grad) if isinstance(leaf, Tensor) else leaf


def _leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().requires_grad_(tensor.requires_grad)


def _sum_of_gradients(leaves: Sequence[Tensor]) -> Any:
    found = [leaf.grad.data for leaf in leaves if leaf.grad is not None]
    total = found[0] if found else None
    for each in found[1:]:
        total = total + each
    return total


def go_back(results: Sequence[Tensor], gradients: Sequence[Any] | None) -> None:
    """Go back from results, with gradients that are given, or from a fixed random number generator."""
    rng = np.random.default_rng(0)
    pairs = []
    for i, each in enumerate(results):
        drawn = rng.standard_normal(each.shape)
        if not each.requires_grad:
            continue
        if gradients is not None:
            if gradients[i] is not None:
                pairs.append((each, Tensor(gradients[i])))
            continue
        pairs.append((each, Tensor(backend_of(each.data).asarray(drawn, dtype=each.dtype))))
    if pairs:
        backward([each for each, _ in pairs], [gradient for _, gradient in pairs])


@contextmanager
def undisturbed(model: Module) -> Iterator[None]:
    """Put gradients aside in a block, and bring them and the buffers back behind it."""
    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    buffers = [(buffer, buffer.data.copy()) for buffer in model.buffers()]
    for parameter, _ in gradients:
        parameter.grad = None
    try:
        yield
    finally:
        for parameter, gradient in gradients:
            parameter.grad = gradient
        for buffer, array in buffers:
            buffer.data[...] = array


def _host(tensor: Tensor) -> Any:
    return np.array(backend_of(tensor.data).to_host(tensor.data))


def _difference(a: Any, b: Any) -> float:
    if a.shape != b.shape:
        return float("inf")
    if not a.size or a.dtype.kind in "biu":
        return 0.0 if np.array_equal(a, b) else float("inf")
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    scale = float(np.max(np.abs(a.astype(wide))))
    gap = float(np.max(np.abs(a.astype(wide) - b.astype(wide))))
    return gap / scale if scale else gap
