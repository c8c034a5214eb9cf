"""Calls of what joins tensors, in float64, small enough for finite differences."""

from __future__ import annotations

import numpy as np

import shardwise as sw
from cases.operand import Case, make
from shardwise.tensor import joining, meshing

__all__ = ["CASES"]

CASES: dict[str, Case] = {
    "cat": (lambda a, b: sw.cat([a, b, a], 1), (make(2, 3), make(2, 1))),
    "cat negative": (lambda a, b: sw.cat((a.T, b), dim=-2), (make(3, 2), make(1, 3))),
    "cat empty": (lambda a, b: sw.cat([a, b]), (make(0, 2), make(2, 2))),
    "cat nothing yet": (lambda a: sw.cat([sw.zeros(0, dtype=np.float64), a]), (make(2, 2),)),
    "stack": (lambda a, b: sw.stack([a, b], -1), (make(2, 3), make(2, 3, seed=1))),
    "stack no dims": (lambda a, b: sw.stack([a, b, a]), (make(), make(seed=1))),
    "hstack": (lambda a, b: joining.hstack([a, b]), (make(2, 3), make(2, 1))),
    "hstack vectors": (lambda a, b: joining.hstack([a, b]), (make(3), make())),
    "vstack": (lambda a, b: joining.vstack([a, b]), (make(3), make(2, 3))),
    "dstack": (lambda a, b: joining.dstack([a, b]), (make(2, 3), make(2, 3, 2))),
    "column_stack": (lambda a, b: joining.column_stack([a, b]), (make(3), make(3, 2))),
    "block_diag": (lambda a, b, c: joining.block_diag(a, b, c), (make(2, 3), make(2), make())),
    "meshgrid": (lambda a, b: meshing.meshgrid(a, b, indexing="ij"), (make(2), make(3))),
    "meshgrid xy": (lambda a, b, c: meshing.meshgrid([a, b, c], indexing="xy"), (make(2), make(3), make())),
    "cartesian_prod": (lambda a, b: meshing.cartesian_prod(a, b), (make(2), make(3))),
    "combinations": (lambda a: meshing.combinations(a, 2), (make(4),)),
    "broadcast_tensors": (lambda a, b: meshing.broadcast_tensors(a, b), (make(2, 1), make(3))),
    "atleast": (
        lambda a, b: (meshing.atleast_1d(a), meshing.atleast_2d(b), meshing.atleast_3d(b)),
        (make(), make(2)),
    ),
    "np.hstack": (lambda a, b: np.hstack([a, np.vstack([b, b])]), (make(2, 1), make(3))),
    "np.tile and repeat": (lambda a: np.tile(np.repeat(a, 2, axis=0), (1, 2)), (make(2, 2),)),
    "np.split": (lambda a: tuple(np.split(a, [1, 2], axis=1)), (make(2, 3),)),
    "np.rot90": (lambda a: np.rot90(np.fliplr(a)) + np.roll(a.T, 1), (make(2, 3),)),
    "np.diag": (lambda a: np.diag(np.diag(a), 1), (make(3, 3),)),
}  # fmt: skip
