"""One step of AdamW on parameters whose gradients are there: the optimizers' turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from contest.library import Library
from contest.operation import Draw

__all__ = ["updates"]

_ARRAYS = 7  # read: parameter, gradient and both averages; written: all but the gradient


def updates(
    libraries: Mapping[str, Library], tiny: bool, only: Sequence[str] | None
) -> Iterator[tuple[str, dict[str, Callable[[], object]], int]]:
    """Yield a name, what each side does, and the bytes that it moves: a large parameter, and many small."""
    sets = [("AdamW, 10M parameters", [10_000_000]), ("AdamW, 200 of 64x64", [4096] * 200)]
    if tiny:
        sets = [("AdamW, 10M parameters", [100]), ("AdamW, 200 of 64x64", [16] * 3)]
    for name, sizes in sets:
        if only is None or name.startswith(tuple(only)):
            bytes_, draw = 4 * _ARRAYS * sum(sizes), Draw()
            arrays = [draw.normal(size) for size in sizes]
            makers = {side: library.kernels["AdamW", "forward"] for side, library in libraries.items()}
            yield f"{name}: kernel", {side: make(*arrays) for side, make in makers.items()}, bytes_
            yield name, {side: _step(library, sizes, side) for side, library in libraries.items()}, bytes_


def _step(library: Library, sizes: Sequence[int], side: str) -> Callable[[], object]:
    draw = Draw()
    parameters = [library.leaf(draw.normal(size)) for size in sizes]
    for parameter in parameters:
        parameter.grad = library.tensor(draw.normal(*parameter.shape))
    options: dict[str, Any] = {"lr": 1e-3, "weight_decay": 0.01}
    if side == "torch":
        options["fused"] = True  # its fastest
    step: Callable[[], object] = library.optim.AdamW(parameters, **options).step
    return step
