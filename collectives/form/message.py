"""Messages between two ranks of the world. They never make a group, and never wait for collectives.

Arrays and Tensors are sent alike. A tensor that requires grad is recorded by `send`, and by `recv` where it
is told so, and its gradient goes back the same way; the forms that do not wait are not recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np

from shardwise.backend.array import Array, DTypeLike, Shape
from shardwise.backend.errors import ArgumentError
from shardwise.collectives.adjoint.message import Recv, Send, SendRecv
from shardwise.collectives.context import get_world
from shardwise.collectives.form.operand import A, itself, operands
from shardwise.collectives.issue.message import check_peer, issue_recv, issue_send, issue_sendrecv
from shardwise.collectives.tag import wire_tag
from shardwise.collectives.work import Work
from shardwise.tensor import Tensor, is_grad_enabled

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send", "sendrecv"]


@overload
def send(x: Array, dst: int, tag: int = ...) -> None: ...
@overload
def send(x: Tensor, dst: int, tag: int = ...) -> Tensor | None: ...
def send(x: Array | Tensor, dst: int, tag: int = 0) -> Tensor | None:
    """Send `x` to rank `dst`, which receives it with `recv`.

    Parameters
    ----------
    x : array or Tensor, any shape and dtype
    dst : int
        Global rank.
    tag : int
        From 0 to 2**20 - 1. Messages of one sender, receiver and tag arrive in the order they were sent.

    Returns
    -------
    Tensor, shape (), or None
        For a tensor that requires grad a zero: its backward, alone or as part of a loss, waits for the
        gradient of `x`, which the receiver's backward sends. Else None.

    Raises
    ------
    CollectiveError
        If there is no such rank or tag, or the message failed.
    CollectiveTimeoutError
        If it was not received within the time-out of the world.

    Notes
    -----
    Returns when `x` may be written again; a large message waits for its receiver.
    """
    if isinstance(x, Tensor):
        if x.requires_grad and is_grad_enabled():
            return Send.apply(x, dst=dst, tag=tag, kind="array")
        x = x.data
    issue_send(x, dst, tag, "array", False).wait()
    return None


def isend(x: Array | Tensor, dst: int, tag: int = 0) -> Work[None]:
    """Send `x` to rank `dst` without waiting; `x` must not be written before the work has ended.

    Parameters and errors as for `send`.
    """
    return issue_send(x.data if isinstance(x, Tensor) else x, dst, tag, "array", True)


@overload
def recv(
    shape: Shape | None = ...,
    dtype: DTypeLike = ...,
    src: int = ...,
    tag: int = ...,
    *,
    out: None = ...,
    requires_grad: Literal[False] = ...,
) -> Array: ...
@overload
def recv(
    shape: Shape | None = ...,
    dtype: DTypeLike = ...,
    src: int = ...,
    tag: int = ...,
    *,
    out: A,
    requires_grad: Literal[False] = ...,
) -> A: ...
@overload
def recv(
    shape: Shape,
    dtype: DTypeLike = ...,
    src: int = ...,
    tag: int = ...,
    *,
    out: None = ...,
    requires_grad: Literal[True],
) -> Tensor: ...
def recv(
    shape: Shape | None = None,
    dtype: DTypeLike = np.float32,
    src: int = 0,
    tag: int = 0,
    *,
    out: Array | Tensor | None = None,
    requires_grad: bool = False,
) -> Array | Tensor:
    """Receive the next message of rank `src` with this tag.

    Parameters
    ----------
    shape : tuple of int, optional
        Of the array that is sent; left out where `out` is given.
    dtype : dtype
        Of the array that is sent; float32 by default.
    src : int
        Global rank.
    tag : int
        As sent.
    out : array or Tensor, optional
        Filled and returned.
    requires_grad : bool
        Return a Tensor whose backward sends its gradient to `src`, which must have sent a tensor that
        requires grad.

    Returns
    -------
    array or Tensor

    Raises
    ------
    CollectiveMismatchError
        If the message has another size.
    CollectiveError
        If there is no such rank or tag, or the message failed.
    CollectiveTimeoutError
        If nothing came within the time-out of the world.
    """
    if requires_grad and out is None:
        anchor = Tensor(np.zeros((), np.float32), requires_grad=True)
        return Recv.apply(anchor, shape=shape, dtype=dtype, src=src, tag=tag, kind="array")
    if isinstance(out, Tensor):
        _, target, wrap = operands(None, out, "recv")
        return issue_recv(shape, dtype, src, tag, "array", target, wrap, False).wait()
    return issue_recv(shape, dtype, src, tag, "array", out, itself, False).wait()


@overload
def irecv(
    shape: Shape | None = ..., dtype: DTypeLike = ..., src: int = ..., tag: int = ..., *, out: Tensor
) -> Work[Tensor]: ...
@overload
def irecv(
    shape: Shape | None = ...,
    dtype: DTypeLike = ...,
    src: int = ...,
    tag: int = ...,
    *,
    out: Array | None = ...,
) -> Work[Array]: ...
def irecv(
    shape: Shape | None = None,
    dtype: DTypeLike = np.float32,
    src: int = 0,
    tag: int = 0,
    *,
    out: Array | Tensor | None = None,
) -> Work[Array] | Work[Tensor]:
    """Receive the next message of rank `src` with this tag without waiting; ``wait()`` gives the array.

    Parameters and errors as for `recv`.
    """
    if isinstance(out, Tensor):
        _, target, wrap = operands(None, out, "irecv")
        return issue_recv(shape, dtype, src, tag, "array", target, wrap, True)
    return issue_recv(shape, dtype, src, tag, "array", out, itself, True)


def sendrecv(
    x: A,
    dst: int,
    src: int,
    sendtag: int = 0,
    recvtag: int | None = None,
    *,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    out: A | None = None,
) -> A:
    """Send `x` to rank `dst` and receive an array from rank `src`, which may be the same; nothing blocks.

    Parameters
    ----------
    x : array or Tensor, any shape and dtype
    dst, src : int
        Global ranks.
    sendtag : int
        From 0 to 2**20 - 1.
    recvtag : int, optional
        As sent; by default `sendtag`.
    shape, dtype : optional
        Of the array that comes; by default those of `x`.
    out : array or Tensor, optional
        Filled and returned; it may not be `x`.

    Returns
    -------
    array or Tensor
        A tensor that requires grad is recorded: its gradient goes the same ways back, so `dst` and `src` must
        record theirs too.

    Raises
    ------
    CollectiveMismatchError
        If what came has another size.
    CollectiveError
        If there is no such rank or tag, or a message failed.
    CollectiveTimeoutError
        If nothing came within the time-out of the world.

    Examples
    --------
    >>> import numpy as np
    >>> from shardwise.collectives import run_threads, sendrecv
    >>> run_threads(lambda rank: sendrecv(np.array([rank]), (rank + 1) % 3, (rank - 1) % 3).tolist(), 3)
    [[2], [0], [1]]
    """
    back = sendtag if recvtag is None else recvtag
    if out is None and isinstance(x, Tensor):
        return SendRecv.apply(
            x,
            dst=dst,
            src=src,
            sendtag=sendtag,
            recvtag=back,
            shape=x.shape if shape is None else shape,
            dtype=x.dtype if dtype is None else dtype,
            kind="array",
        )
    data, target, wrap = operands(x, out, "sendrecv")
    return issue_sendrecv(data, dst, src, sendtag, back, shape, dtype, "array", target, wrap)


@dataclass(frozen=True, slots=True)
class P2POp:
    """One message of a batch.

    Attributes
    ----------
    op : callable
        `isend` or `irecv`.
    x : array or Tensor
        What is sent, or the array to fill.
    peer : int
        Global rank.
    tag : int
        From 0 to 2**20 - 1.
    """

    op: Callable[..., Work[Any]]
    x: Array | Tensor
    peer: int
    tag: int = 0


def batch_isend_irecv(ops: Sequence[P2POp]) -> list[Work[Any]]:
    """Begin many messages at once, in whatever order they are listed.

    Parameters
    ----------
    ops : sequence of P2POp
        Messages of one sender, receiver and tag are matched in the order of the lists of both.

    Returns
    -------
    list of Work
        One for each, in their order; ``wait()`` gives the array that was filled, or None.

    Raises
    ------
    ArgumentError
        If one is neither `isend` nor `irecv`. Nothing has begun then.
    CollectiveError
        If there is no such rank or tag.
    """
    world = get_world()
    for i, each in enumerate(ops):
        if each.op is not isend and each.op is not irecv:
            raise ArgumentError(
                f"batch_isend_irecv on rank {world.rank}: op {i} is {each.op!r}; wanted isend or irecv."
            )
        check_peer(each.peer, "peer", "batch_isend_irecv", world)
        wire_tag(each.tag, "array", "batch_isend_irecv", world.rank)
    works: dict[int, Work[Any]] = {}
    # Receives first, so that what is sent finds its place and is not kept in between.
    for i, each in enumerate(ops):
        if each.op is irecv:
            works[i] = irecv(src=each.peer, tag=each.tag, out=each.x)
    for i, each in enumerate(ops):
        if each.op is isend:
            works[i] = isend(each.x, each.peer, each.tag)
    return [works[i] for i in range(len(ops))]
