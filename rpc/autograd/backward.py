"""What users call: `context`, `backward`, `get_gradients`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from shardwise.backend.errors import ArgumentError, AutogradError
from shardwise.rpc.autograd.contexts import Contexts
from shardwise.rpc.autograd.message_id import Chain, current_chain
from shardwise.rpc.autograd.sweep import Mode, Root
from shardwise.rpc.current import current_agent
from shardwise.tensor import Tensor

__all__ = ["backward", "context", "get_gradients"]


@contextmanager
def context() -> Iterator[int]:
    """Record what is computed here and, through calls, on other workers, for one backward over all of it.

    Yields
    ------
    int
        The id of the context, for `backward`, `get_gradients` and `DistributedOptimizer.step`. It ends, with
        its gradients, on all workers when the block does.

    Raises
    ------
    AutogradError
        If this thread is in a context already.

    Examples
    --------
    >>> import shardwise as sw
    >>> from shardwise import rpc
    >>> def program(rank):
    ...     w = sw.tensor([2.0, 3.0], requires_grad=True)
    ...     with rpc.autograd.context() as ctx:
    ...         loss = rpc.remote(1, sw.square, args=(w,)).to_here().sum()
    ...         rpc.autograd.backward(ctx, [loss])
    ...         return rpc.autograd.get_gradients(ctx)[w].tolist()
    >>> rpc.Simulation(2).run(program, ranks=[0])
    [[4.0, 6.0]]
    """
    if current_chain.get() is not None:
        raise AutogradError(
            "Already have an autograd context id for this thread: contexts do not nest. Open the second one "
            "when "
            "the first has ended, or in another thread"
        )
    contexts: Contexts = current_agent().parts[Contexts]
    id = contexts.begin()
    token = current_chain.set(Chain(id))
    try:
        yield id
    finally:
        current_chain.reset(token)
        contexts.end(id)


def backward(
    context_id: int,
    roots: Sequence[Tensor],
    retain_graph: bool = False,
    *,
    mode: Mode = "smart",
    timeout: float = 0.0,
) -> None:
    """Compute the gradients of `roots`, on all workers that took part in computing them.

    They add up in the context, where `get_gradients` finds them, and leave ``grad`` as it was.

    Parameters
    ----------
    context_id : int
        What `context` gave.
    roots : sequence of Tensor
        Scalars that were computed in the context, on this worker.
    retain_graph : bool
        Keep the graph for another backward, whose gradients are added.
    mode : {"smart", "fast"}
        "fast" spares one small message to each worker, and counts on a gradient for every tensor that was
        sent in the context: results of calls that the roots do not depend on let it wait for ever.
    timeout : float
        Seconds to wait; 0 for no limit. A worker that dies ends it anyway.

    Raises
    ------
    AutogradError
        If a root has no graph, or the context has ended, or the graph was freed by another backward.
    ShapeError
        If a root is no scalar.
    RpcTimeoutError
        After `timeout`. The pass is then broken off everywhere.
    Exception
        What a backward has raised, on any worker. The pass is broken off everywhere, and gradients that have
        arrived stay.

    Notes
    -----
    Sums are made in the same order in every run of the same program, whatever the network does.
    """
    contexts: Contexts = current_agent().parts[Contexts]
    if mode not in ("smart", "fast"):
        raise ArgumentError(f"backward: mode={mode!r}; wanted 'smart' or 'fast'")
    if isinstance(roots, Tensor) or not isinstance(roots, Sequence):
        raise TypeError(f"backward: roots is a {type(roots).__name__}; wanted a list of tensors, as [loss]")
    if not roots:
        raise AutogradError(
            "backward: No tensors provided for gradient computation; give the losses as roots"
        )
    checked = [_root(i, root) for i, root in enumerate(roots)]
    contexts.run_backward(contexts.find(context_id), checked, retain_graph, mode, timeout)


def get_gradients(context_id: int) -> dict[Tensor, Tensor]:
    """Give the gradients that a context has on this worker.

    Returns
    -------
    dict of Tensor to Tensor
        For each leaf on this worker that a backward has reached.

    Raises
    ------
    AutogradError
        If this worker knows no such context.
    """
    contexts: Contexts = current_agent().parts[Contexts]
    return contexts.find(context_id).gradients()


def _root(i: int, root: Tensor) -> Root:
    if not isinstance(root, Tensor):
        raise TypeError(f"backward: root {i} is a {type(root).__name__}; wanted a Tensor")
    if not root.requires_grad:
        raise AutogradError(
            f"backward: requires_grad not set on root {i}: it was computed under no_grad(), or from nothing "
            f"that "
            "requires grad"
        )
    if root.data.size != 1:
        raise AutogradError(
            f"backward: root {i} of shape {root.shape} is not a scalar, all roots need to be scalar; reduce "
            f"it "
            "with sum() or mean()"
        )
    if root.node is None:
        raise AutogradError(f"backward: root {i} does not have a valid gradient function: it is a leaf")
    return root.node, root.index, np.ones_like(root.data)
