"""Errors that depend on values: raised by all ranks, also where one rank alone holds the value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

from shardwise.collectives import all_gather, all_gather_object, get_world, rank
from shardwise.mesh import DeviceMesh

__all__ = ["raise_together", "raised_together", "raises_together"]

T = TypeVar("T")
_together: ContextVar[bool] = ContextVar("shardwise_raise_together", default=False)


def raises_together() -> bool:
    """Tell whether ranks agree on errors that depend on values: in `raise_together`, and in debug mode."""
    return _together.get() or get_world().debug


@contextmanager
def raise_together() -> Iterator[None]:
    """Let all ranks raise in a ``with`` block what one rank has to say against its values.

    An index out of range in a sharded batch, a singular matrix in a sharded stack: the rank that holds it
    raises, and the others hear of it when that rank ends, with a verdict that names it. That is enough for a
    job that ends. To catch such errors and go on, all ranks must raise alike, and for that they must ask
    each other: of each op that is not elementwise and has parts, a byte per rank goes round in this block.

    With ``SHARDWISE_DEBUG=1`` they do so everywhere.

    Examples
    --------
    >>> import shardwise as sw
    >>> from shardwise.collectives import run_threads
    >>> from shardwise.dtensor import distribute_tensor
    >>> def show(rank):
    ...     mesh = sw.init_device_mesh("cpu", (2,))
    ...     labels = distribute_tensor(sw.tensor([0, 1, 2, 7]), mesh, ["S(0)"])
    ...     try:
    ...         with sw.dtensor.raise_together():
    ...             sw.nn.functional.one_hot(labels, 3)
    ...     except IndexError as error:
    ...         return str(error)
    >>> for said in run_threads(show, 2):
    ...     print(said)
    rank 1 at (1,): one_hot: index[1] is 7, out of range for dim 1 of size 3; wanted 0 to 2
    rank 1 at (1,): one_hot: index[1] is 7, out of range for dim 1 of size 3; wanted 0 to 2
    """
    token = _together.set(True)
    try:
        yield
    finally:
        _together.reset(token)


def raised_together(mesh: DeviceMesh, compute: Callable[[], T]) -> T:
    """Return what `compute` gives here, if it gives something on all ranks of a mesh; else raise on all.

    Raises
    ------
    the error of the first rank, in the order of the mesh, that has one
    """
    here = mesh.get_coordinate()
    if here is None:
        return compute()
    mine: Exception | None = None
    result: Any = None
    try:
        result = compute()
    except (ValueError, LookupError, ArithmeticError, RuntimeError, TypeError) as error:
        mine = error
    groups = [group for group in reversed(mesh.get_all_groups()) if group.size > 1]
    failed = np.array([mine is not None])
    for group in groups:
        failed = all_gather(failed, group)
    if not failed.any():
        return result  # type: ignore[no-any-return]
    told: list[Any] = [None if mine is None else (type(mine), f"rank {rank()} at {here}: {mine}")]
    for group in groups:
        told = [each for more in all_gather_object(told, group) for each in more]
    kind, text = next(each for each in told if each is not None)
    raise kind(text) from mine
