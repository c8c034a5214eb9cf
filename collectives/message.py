"""Messages between two ranks of the world. They never make a group, and never wait for collectives.

Arrays and Tensors are sent alike. A tensor that requires grad is recorded by `send`, and by `recv` where it
is told so, and its gradient goes back the same way; the forms that do not wait are not recorded.
"""

from __future__ import annotations

from typing import Literal, overload

import numpy as np

from shardwise.backend.array import Array, DTypeLike, Shape
from shardwise.collectives.differentiable import Recv, Send
from shardwise.collectives.issue_message import issue_recv, issue_send
from shardwise.collectives.operand import A, operands
from shardwise.collectives.work import Work
from shardwise.tensor import Tensor, is_grad_enabled

__all__ = ["irecv", "isend", "recv", "send"]


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
    return issue_recv(shape, dtype, src, tag, "array", out, _itself, False).wait()


def irecv(
    shape: Shape | None = None,
    dtype: DTypeLike = np.float32,
    src: int = 0,
    tag: int = 0,
    *,
    out: Array | None = None,
) -> Work[Array]:
    """Receive the next message of rank `src` with this tag without waiting; ``wait()`` gives the array.

    Parameters and errors as for `recv`.
    """
    return issue_recv(shape, dtype, src, tag, "array", out, _itself, True)


def _itself(array: Array) -> Array:
    return array
