"""Collectives that no transport needs a method for: composed of `Channel.exchange`.

Arrays are flat and contiguous; ``counts`` says how many elements belong to each rank. What is reduced is
combined in rank order, so these give the same bits on every transport.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np

from shardwise.backend.array import Array
from shardwise.collectives.chain import Chain
from shardwise.collectives.layout import Stretch, stretches
from shardwise.collectives.pending import Pending
from shardwise.collectives.reduction import Reduction, accumulate, combine
from shardwise.collectives.transport import Channel

__all__ = [
    "all_gather_uneven",
    "all_to_all_uneven",
    "gather_uneven",
    "reduce_scatter_uneven",
    "scan",
    "scatter_uneven",
]

_SMALL = 1 << 14  # bytes up to which a scan sends whole arrays

Links = Generator[tuple[Pending, bool], None, None]


def all_gather_uneven(channel: Channel, x: Array, out: Array, counts: Sequence[int]) -> Pending:
    """Fill `out` with every rank's `x`; `x` may be this rank's stretch of `out`."""
    return channel.exchange(x, out, [(0, x.size)] * len(counts), stretches(counts))


def all_to_all_uneven(
    channel: Channel, x: Array, out: Array, sent: Sequence[int], received: Sequence[int]
) -> Pending:
    """Send ``sent[i]`` elements of `x` to rank i, and fill `out` with what comes, ``received[i]`` from it."""
    return channel.exchange(x, out, stretches(sent), stretches(received))


def gather_uneven(channel: Channel, x: Array, out: Array | None, counts: Sequence[int], root: int) -> Pending:
    """Fill `out` on rank `root` with every rank's `x`; None on the others."""
    nothing: list[Stretch | None] = [None] * len(counts)
    sent = [*nothing[:root], (0, x.size), *nothing[root + 1 :]]
    if out is None:
        return channel.exchange(x, x[:0], sent, nothing)
    return channel.exchange(x, out, sent, stretches(counts))


def scatter_uneven(
    channel: Channel, x: Array | None, out: Array, counts: Sequence[int], root: int
) -> Pending:
    """Fill `out` with its stretch of rank `root`'s `x`; None on the others."""
    nothing: list[Stretch | None] = [None] * len(counts)
    received = [*nothing[:root], (0, out.size), *nothing[root + 1 :]]
    if x is None:
        return channel.exchange(out[:0], out, nothing, received)
    return channel.exchange(x, out, stretches(counts), received)


def reduce_scatter_uneven(
    channel: Channel, x: Array, out: Array, counts: Sequence[int], op: Reduction
) -> Pending:
    """Fill `out` with the reduction of this rank's stretch of all `x`; it may be that stretch."""

    def links() -> Links:
        parts = np.empty_like(x, shape=(len(counts), out.size))
        here = stretches([out.size] * len(counts))
        yield channel.exchange(x, parts.reshape(-1), stretches(counts), here), False
        combine(list(parts), op, out)

    return Chain(links())


def scan(
    channel: Channel,
    x: Array,
    out: Array,
    op: Reduction,
    rank: int,
    size: int,
    exclusive: bool,
    reverse: bool,
) -> Pending:
    """Fill `out` with the reduction of all `x` up to this rank's, with or without it.

    Ranks count from the last one down if `reverse`. `out` may be `x`.
    """
    if x.nbytes * size <= _SMALL:
        return Chain(_scan_whole(channel, x, out, op, rank, size, exclusive, reverse))
    return Chain(_scan_by_shares(channel, x, out, op, rank, size, exclusive, reverse))


def _scan_whole(
    channel: Channel,
    x: Array,
    out: Array,
    op: Reduction,
    rank: int,
    size: int,
    exclusive: bool,
    reverse: bool,
) -> Links:
    """Scan little: every rank sends all it has to those behind it."""
    before = range(size - 1, rank, -1) if reverse else range(rank)
    behind = range(rank) if reverse else range(rank + 1, size)
    sent: list[Stretch | None] = [(0, x.size) if i in behind else None for i in range(size)]
    received: list[Stretch | None] = [None] * size
    for place, i in enumerate(before):
        received[i] = (place * x.size, (place + 1) * x.size)
    parts = np.empty_like(x, shape=(len(before) + 1, x.size))
    yield channel.exchange(x, parts.reshape(-1), sent, received), False
    parts[-1] = x
    accumulate(list(parts), op, [None] * len(before) + [out], exclusive)


def _scan_by_shares(
    channel: Channel,
    x: Array,
    out: Array,
    op: Reduction,
    rank: int,
    size: int,
    exclusive: bool,
    reverse: bool,
) -> Links:
    """Scan much: every rank scans its share of the elements for all, twice the bytes of `x` in all."""
    shares = stretches([x.size * (i + 1) // size - x.size * i // size for i in range(size)])
    share = shares[rank][1] - shares[rank][0]
    rows = stretches([share] * size)
    parts = np.empty_like(x, shape=(size, share))
    yield channel.exchange(x, parts.reshape(-1), shares, rows), True
    order = list(parts[::-1] if reverse else parts)
    results = np.empty_like(parts)
    accumulate(order, op, list(results[::-1] if reverse else results), exclusive)
    yield channel.exchange(results.reshape(-1), out, rows, shares), False
