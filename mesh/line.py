"""Meshes told by the lines through this rank: the groups or communicators that it is in along each axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from shardwise.backend.errors import LayoutError
from shardwise.mesh.argument import rank_grid
from shardwise.mesh.grid import RankGrid, keep_axes

__all__ = ["grid_of_lines"]


def grid_of_lines(what: str, lines: Sequence[RankGrid], mesh: npt.ArrayLike | None, rank: int) -> RankGrid:
    """Give the grid whose axes through a rank these are.

    Parameters
    ----------
    what : str
        Begins messages.
    lines : sequence of arrays of int64
        Global ranks: one for each axis, or one that is the whole grid.
    mesh : array or nested sequence of int, optional
        The whole grid, which must be given unless it is the one line. A rank outside of it takes it as it is.
    rank : int
        The rank that asks.

    Raises
    ------
    LayoutError
        If it is missing, or has other axes through that rank.
    """
    if not lines:
        raise LayoutError(f"{what}: there is nothing in the list; give a group or communicator for each axis")
    if mesh is None:
        if len(lines) > 1:
            raise LayoutError(
                f"{what}: {len(lines)} axes through one rank do not say who is elsewhere in the mesh; "
                f"give mesh=, the global ranks of all in its shape"
            )
        return rank_grid(lines[0])
    grid = rank_grid(mesh)
    if len(lines) == 1:
        wanted = [grid]
    else:
        found = np.argwhere(grid == rank)
        if not len(found):
            return grid
        wanted = [keep_axes(grid, [axis], found[0].tolist()) for axis in range(grid.ndim)]
    if [line.tolist() for line in wanted] != [line.tolist() for line in lines]:
        raise LayoutError(
            f"{what} on rank {rank}: along the axes of the mesh {grid.tolist()} this rank is with "
            f"{_shown(wanted)}, but what was given has {_shown(lines)}; give one for each axis, in order"
        )
    return grid


def _shown(lines: Sequence[RankGrid]) -> str:
    return ", ".join(str(line.tolist()) for line in lines)
