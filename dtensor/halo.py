"""`halo_exchange`: the parts of a tensor with the edges of their neighbours."""

from __future__ import annotations

from typing import Any

from shardwise.backend.errors import LayoutError
from shardwise.dtensor.dispatch import perform
from shardwise.dtensor.dtensor import DTensor
from shardwise.dtensor.rule.halo import HaloMode, halo_strategy

__all__ = ["halo_exchange"]

_MODES = ("constant", "edge", "reflect", "wrap")


def halo_exchange(
    x: DTensor, dim: int, left: int, right: int, *, mode: HaloMode = "constant", value: float = 0.0
) -> DTensor:
    """Give every rank its piece of a dim with the places next to it on both sides.

    For stencils, finite differences and filters: ``halo_exchange(x, 0, 1, 1).to_local()`` is a rank's
    part with one row more at each end. A halo may be wider than the pieces are.

    Parameters
    ----------
    x : DTensor
    dim : int
        A dim that is sharded; see `DTensor.redistribute`.
    left, right : int
        How many places each rank gets before and behind its piece. A rank that holds nothing gets nothing.
    mode : str
        What lies beyond the ends of the tensor: "constant", or, as in `numpy.pad`, what is inside: "edge",
        "reflect", or "wrap" for a periodic dim.
    value : float
        The constant.

    Returns
    -------
    DTensor
        All pieces with their halos, one after the other: ragged shards of a dim that is longer by the halos.

    Raises
    ------
    LayoutError
        The dim is not sharded, a halo is negative, or the mode is none of these.

    Notes
    -----
    One exchange, in which each rank is sent what it lacks; one more for the gradient, which is added to the
    places that were sent.

    Examples
    --------
    >>> import numpy as np
    >>> import shardwise as sw
    >>> from shardwise.collectives import run_threads
    >>> from shardwise.dtensor import distribute_tensor
    >>> def show(rank):
    ...     mesh = sw.init_device_mesh("cpu", (2,))
    ...     x = distribute_tensor(sw.tensor(np.arange(6.0)), mesh, ["S(0)"])
    ...     return halo_exchange(x, 0, 1, 2, mode="wrap").to_local().tolist()
    >>> run_threads(show, 2)
    [[5.0, 0.0, 1.0, 2.0, 3.0, 4.0], [2.0, 3.0, 4.0, 5.0, 0.0, 1.0]]
    """
    layout = x.layout
    if not -layout.ndim <= dim < layout.ndim or not layout.order[dim]:
        raise LayoutError(
            f"halo_exchange: dim={dim} of {layout!r} is not sharded, so every rank has all of it; "
            f"redistribute it to Shard({dim}) first, or pad it"
        )
    if left < 0 or right < 0:
        raise LayoutError(f"halo_exchange: halos must be at least 0, got left={left}, right={right}")
    if mode not in _MODES:
        raise LayoutError(f"halo_exchange: mode must be one of {', '.join(_MODES)}, got {mode!r}")
    dim %= layout.ndim
    whole = layout.reduced()
    wanted = tuple([(a - left, b + right) if b > a else (0, 0) for a, b in layout.ranges[dim]])
    strategy = halo_strategy(whole, layout, dim, wanted)
    params: dict[str, Any] = {"dim": dim, "lies": whole, "wanted": wanted, "mode": mode, "value": value}
    out: DTensor = perform(strategy, (x,), params)
    return out
