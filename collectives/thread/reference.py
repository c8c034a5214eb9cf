"""The collectives by definition: functions of every rank's arrays, in one process.

The transports whose ranks share memory run these; the tests hold the others against them. Each takes the
ranks' inputs and outputs as lists in rank order; the shapes are those of `Channel`. An output may share
memory with an input.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shardwise.backend.array import Array
from shardwise.collectives.layout import Stretch
from shardwise.collectives.reduction import Reduction, combine

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "broadcast",
    "exchange",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]


def all_reduce(xs: Sequence[Array], outs: Sequence[Array], op: Reduction) -> None:
    """Fill every output with the reduction of all inputs."""
    total = np.empty_like(xs[0])
    combine(xs, op, total)
    for out in outs:
        np.copyto(out, total)


def all_gather(xs: Sequence[Array], outs: Sequence[Array]) -> None:
    """Fill row i of every output with input i."""
    for out in outs:
        gather(xs, out)


def reduce_scatter(xs: Sequence[Array], outs: Sequence[Array], op: Reduction) -> None:
    """Fill output i with the reduction of row i of all inputs."""
    totals = [np.empty_like(out) for out in outs]
    for i, total in enumerate(totals):
        combine([x[i, ...] for x in xs], op, total)
    for out, total in zip(outs, totals, strict=True):
        np.copyto(out, total)


def all_to_all(xs: Sequence[Array], outs: Sequence[Array]) -> None:
    """Fill row i of output j with row j of input i."""
    for j, out in enumerate(outs):
        for i, x in enumerate(xs):
            out[i] = x[j]


def exchange(
    xs: Sequence[Array],
    outs: Sequence[Array],
    sent: Sequence[Sequence[Stretch | None]],
    received: Sequence[Sequence[Stretch | None]],
) -> None:
    """Fill stretch ``received[j][i]`` of output j with stretch ``sent[i][j]`` of input i."""
    for j, out in enumerate(outs):
        for i, x in enumerate(xs):
            part, room = sent[i][j], received[j][i]
            if part is not None and room is not None:
                out[slice(*room)] = x[slice(*part)]


def broadcast(xs: Sequence[Array], root: int) -> None:
    """Fill every input with that of `root`."""
    for x in xs:
        if x is not xs[root]:
            np.copyto(x, xs[root])


def reduce(xs: Sequence[Array], out: Array, op: Reduction) -> None:
    """Fill `out` with the reduction of all inputs."""
    total = np.empty_like(out)
    combine(xs, op, total)
    np.copyto(out, total)


def gather(xs: Sequence[Array], out: Array) -> None:
    """Fill row i of `out` with input i."""
    for i, x in enumerate(xs):
        out[i] = x


def scatter(x: Array, outs: Sequence[Array]) -> None:
    """Fill output i with row i of `x`."""
    for i, out in enumerate(outs):
        out[...] = x[i]
