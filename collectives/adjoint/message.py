"""Messages on the tape; see `alike.py`."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array, DTypeLike, Shape
from shardwise.collectives.adjoint.rule import LETTERS
from shardwise.collectives.form.operand import itself
from shardwise.collectives.issue.message import issue_recv, issue_send, issue_sendrecv
from shardwise.collectives.tag import Kind
from shardwise.tensor import Context, Function

__all__ = ["Recv", "Send", "SendRecv"]


def _sent(shapes: tuple[Shape, ...], params: dict[str, object]) -> str:
    """An array of any shape goes, and a number without dims stands for it."""
    return f"{''.join(f'[{name}]' for name in LETTERS[: len(shapes[0])])}->"


def _received(shapes: tuple[Shape, ...], params: dict[str, object]) -> str:
    """What comes has nothing of the input but its place on the tape."""
    given, shape = len(shapes[0]), params["shape"]
    count = len(shape) if isinstance(shape, tuple) else 1
    names = [f"[{name}]" for name in LETTERS[: given + count]]
    return f"{''.join(names[:given])}->{''.join(names[given:])}"


class Send(Function):
    """Send an array; the result is a zero without dims whose backward receives the array's gradient."""

    signature = _sent
    exact = True

    @staticmethod
    def forward(ctx: Context, x: Array, dst: int, tag: int, kind: Kind) -> Array:
        ctx.shape, ctx.dtype, ctx.dst, ctx.tag = x.shape, x.dtype, dst, tag
        issue_send(x, dst, tag, kind, False).wait()
        return np.zeros_like(x, shape=())

    @staticmethod
    def backward(ctx: Context, g: Array) -> tuple[Array]:
        return (Recv.apply(g, shape=ctx.shape, dtype=ctx.dtype, src=ctx.dst, tag=ctx.tag, kind="gradient"),)


class Recv(Function):
    """Receive an array; the input only ties it to the tape, and the backward sends the gradient."""

    signature = _received
    exact = True

    @staticmethod
    def forward(
        ctx: Context, anchor: Array, shape: Shape, dtype: DTypeLike, src: int, tag: int, kind: Kind
    ) -> Array:
        ctx.src, ctx.tag = src, tag
        return issue_recv(shape, dtype, src, tag, kind, None, itself, False, anchor).wait()

    @staticmethod
    def backward(ctx: Context, g: Array) -> tuple[Array]:
        return (Send.apply(g, dst=ctx.src, tag=ctx.tag, kind="gradient"),)


class SendRecv(Function):
    """Send an array and receive another one; gradients go the same ways back."""

    signature = _received
    exact = True

    @staticmethod
    def forward(
        ctx: Context,
        x: Array,
        dst: int,
        src: int,
        sendtag: int,
        recvtag: int,
        shape: Shape,
        dtype: DTypeLike,
        kind: Kind,
    ) -> Array:
        ctx.peers, ctx.tags, ctx.shape, ctx.dtype = (dst, src), (sendtag, recvtag), x.shape, x.dtype
        return issue_sendrecv(x, dst, src, sendtag, recvtag, shape, dtype, kind, None, itself)

    @staticmethod
    def backward(ctx: Context, g: Array) -> tuple[Array]:
        dst, src = ctx.peers
        sendtag, recvtag = ctx.tags
        back = SendRecv.apply(
            g,
            dst=src,
            src=dst,
            sendtag=recvtag,
            recvtag=sendtag,
            shape=ctx.shape,
            dtype=ctx.dtype,
            kind="gradient",
        )
        return (back,)
