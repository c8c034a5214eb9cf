"""Copies of large parts, of any strides, to where they belong in the results of several ranks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path

from shardwise.backend.array import Array
from shardwise.collectives.placing import Lay, Piece
from shardwise.collectives.shm import place as at
from shardwise.collectives.shm.atomic_cpu import copy, stream
from shardwise.collectives.shm.compiled_cpu import Compiled

__all__ = ["copy_runs", "load_lay", "runs_of"]

_SHORT = 256  # bytes of a run below which NumPy's loops are as fast
_BLOCK = 1 << 20  # bytes of a source that go to all who want them while they are in the second cache


def load_lay() -> Lay:
    """Compile the copies, or load what another process compiled.

    Raises
    ------
    FusedUnavailableError
        If this machine cannot.
    """
    _compiled()
    return _lay


def _lay(pieces: Sequence[Piece], results: Sequence[Array]) -> None:
    """Copy pieces to where they belong.

    A piece that more than two members want is read from memory once. What is large goes past the caches.
    """
    for _, same in groupby(pieces, key=lambda piece: id(piece.source)):
        wanted = list(same)
        source = wanted[0].source
        if source.size == 0:
            continue
        targets = [results[piece.member][piece.index] for piece in wanted]
        large = source.nbytes * len(targets) >= at.STREAM
        step = len(source) if len(targets) < 3 else max(1, _BLOCK * len(source) // source.nbytes)
        for begin in range(0, len(source), step):
            rows = source[begin : begin + step]
            for target in targets:
                copy_runs(target[begin : begin + step], rows, large)


def copy_runs(target: Array, source: Array, large: bool) -> None:
    """Fill `target` with `source`, by rows of runs where both are such; past the caches if `large`."""
    runs = runs_of(source.shape, source.strides, target.strides, source.itemsize)
    if runs is None:
        target[...] = source
        return
    rows, there, here, nbytes = runs
    _compiled()(target.ctypes.data, there, source.ctypes.data, here, rows, nbytes, large)


@functools.lru_cache(maxsize=1024)
def runs_of(
    shape: tuple[int, ...], here: tuple[int, ...], there: tuple[int, ...], itemsize: int
) -> tuple[int, int, int, int] | None:
    """Give two arrays as rows of contiguous runs: how many, both steps, bytes; None if they are not so."""
    dims = [each for each in zip(shape, here, there, strict=True) if each[0] != 1]
    run = itemsize
    while dims and dims[-1][1] == dims[-1][2] == run:
        run *= dims.pop()[0]
    rows, first, second = 1, run, run
    while dims:
        n, a, b = dims.pop()
        if rows == 1:
            rows, first, second = n, a, b
        elif a == first * rows and b == second * rows:
            rows *= n
        else:
            return None
    return (rows, second, first, run) if run >= _SHORT else None


@functools.cache
def _compiled() -> Callable[..., int]:
    here = Path(__file__)
    return Compiled(_copy_rows, "lay_rows", 7, [here, here.with_name("atomic_cpu.py")]).call


def _copy_rows(target: int, there: int, source: int, here: int, rows: int, nbytes: int, large: int) -> int:
    for row in range(rows):
        if large:
            stream(target + row * there, source + row * here, nbytes)
        else:
            copy(target + row * there, source + row * here, nbytes)
    return 0
