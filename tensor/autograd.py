"""Ask for gradients: `backward`, `grad`, and backward in two halves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shardwise.backend.errors import AutogradError, ShapeError
from shardwise.tensor.engine import GraphTask
from shardwise.tensor.tape import Node, Target, edges_of

__all__ = ["WeightGradients", "backward", "backward_inputs", "grad"]


def _where(tensor: Any) -> tuple[Target, int]:
    """Return who receives the gradient of a tensor."""
    return (tensor, 0) if tensor.node is None else (tensor.node, tensor.index)


def _roots(
    outputs: Sequence[Any], gradients: Sequence[Any] | None, create_graph: bool
) -> list[tuple[Target, int, Any]]:
    if gradients is None:
        gradients = [None] * len(outputs)
    if len(gradients) != len(outputs):
        raise AutogradError(f"got {len(gradients)} gradients for {len(outputs)} outputs; give one per output")
    roots = []
    for output, gradient in zip(outputs, gradients, strict=True):
        if not output.requires_grad:
            raise AutogradError(
                "backward of a tensor that does not require grad: it was computed under no_grad(), "
                "or from nothing that requires grad"
            )
        if gradient is None:
            if output.data.size != 1:
                raise AutogradError(
                    f"backward of {_described(output)}: only a scalar has an implied "
                    "gradient of 1. Pass gradient=, or reduce with sum() or mean() first."
                )
            if output.data.dtype.kind == "c":
                raise AutogradError(
                    f"backward of {_described(output)}: only a real number has an implied gradient of 1, "
                    f"and this is {output.data.dtype}. Pass gradient=, or take abs() or .real first."
                )
            array = np.ones_like(output.data)
        else:
            array = gradient.data if hasattr(gradient, "node") else np.asanyarray(gradient)
            if array.shape != output.data.shape:
                raise ShapeError(
                    f"the gradient of an output of shape {output.data.shape} must have that shape, "
                    f"got {array.shape}"
                )
            if array.dtype != output.data.dtype:
                array = array.astype(output.data.dtype)
                gradient = output.wrap(array)
        if create_graph:
            roots.append((*_where(output), gradient if hasattr(gradient, "node") else output.wrap(array)))
        else:
            roots.append((*_where(output), array))
    return roots


def _described(output: Any) -> str:
    made = "" if output.node is None else f", a result of {output.node},"
    return f"a tensor of shape {output.data.shape}{made}".rstrip(",")


def backward(
    outputs: Sequence[Any],
    gradients: Sequence[Any] | None = None,
    retain_graph: bool = False,
    create_graph: bool = False,
) -> None:
    """Add the gradients of `outputs` to the ``grad`` of every leaf they were computed from.

    Parameters
    ----------
    outputs : sequence of Tensor
    gradients : sequence of (Tensor, Array or None), optional
        One per output, of its shape; None stands for 1 where the output is a scalar.
    retain_graph, create_graph : bool
        See `Tensor.backward`.

    Raises
    ------
    AutogradError
        An output does not require grad, is no scalar, or its graph was freed.
    """
    if not outputs:
        raise AutogradError("backward needs at least one output")
    roots = _roots(outputs, gradients, create_graph)
    GraphTask(
        roots, outputs[0].wrap, retain_graph=retain_graph or create_graph, create_graph=create_graph
    ).run()


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Any, ...]:
    """Return the gradients of `outputs` with respect to `inputs`; no ``grad`` is touched.

    Parameters
    ----------
    outputs : Tensor or sequence of Tensor
    inputs : Tensor or sequence of Tensor
        Leaves, or results along the way.
    grad_outputs : Tensor, Array or sequence of them, optional
        One per output; 1 for scalars.
    retain_graph : bool, optional
        As `create_graph`, if not given.
    allow_unused : bool
        Return None for an input that no output depends on, instead of raising.

    Returns
    -------
    tuple of Tensor or None
        One per input, of its shape.
    """
    outputs = _sequence(outputs)
    inputs = _sequence(inputs)
    if not outputs or not inputs:
        raise AutogradError("grad needs at least one output and one input")
    for i, tensor in enumerate(inputs):
        if not tensor.requires_grad:
            raise AutogradError(f"input {i} of grad does not require grad")
    roots = _roots(outputs, None if grad_outputs is None else _sequence(grad_outputs), create_graph)
    places = [_where(tensor) for tensor in inputs]
    captures = {place: i for i, place in enumerate(dict.fromkeys(places))}
    useful = _leading_to(roots, captures)
    task = GraphTask(
        roots,
        outputs[0].wrap,
        want=lambda target, index: target in useful or (target, index) in captures,
        captures=captures,
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
    )
    task.run()
    results = []
    for i, (tensor, place) in enumerate(zip(inputs, places, strict=True)):
        gradient = task.results.get(captures[place])
        if gradient is None and not allow_unused:
            raise AutogradError(
                f"input {i} of grad, of shape {tensor.data.shape}, is not used by the outputs; "
                "pass allow_unused=True to get None for it"
            )
        if gradient is not None and not create_graph:
            gradient = tensor.wrap(gradient)
        results.append(gradient)
    return tuple(results)


class WeightGradients:
    """The second half of a backward: the gradients of the weights, whenever it is run."""

    def __init__(self, task: GraphTask) -> None:
        self._task: GraphTask | None = task

    def run(self) -> None:
        """Add the weight gradients to the leaves' ``grad`` and free what was kept for it."""
        if self._task is None:
            raise AutogradError("the weight gradients of this backward have been computed already")
        task, self._task = self._task, None
        task.run()

    @property
    def kept(self) -> tuple[Any, ...]:
        """The arrays that are kept until then: gradients, and what ops saved for those of their weights.

        Weights, which are there anyway, are not among them; nothing is, once it has run.
        """
        if self._task is None:
            return ()
        roots, want = self._task.roots, self._task.want
        found = {id(grad): grad for _, _, grad in roots if grad is not None}
        seen: set[int] = set()
        stack = [target for target, _, _ in roots]
        leaves: set[int] = set()
        while stack:
            target = stack.pop()
            if type(target) is not Node:
                if want is None or want(target, 0):
                    leaves.add(id(target.data))
                continue
            if id(target) in seen:
                continue
            seen.add(id(target))
            if type(target.saved) is tuple:
                found.update({id(array): array for array in target.saved if hasattr(array, "nbytes")})
            stack.extend([each for each in target._targets if each is not None])
        return tuple([array for key, array in found.items() if key not in leaves])


def backward_inputs(
    outputs: Sequence[Any], gradients: Sequence[Any] | None, inputs: Sequence[Any]
) -> tuple[tuple[Any, ...], WeightGradients]:
    """Compute the gradients of `inputs` now and leave those of all other leaves for later.

    The split that zero-bubble pipelines need (Qi et al. 2024, section 2). Both halves together
    do the same arithmetic in the same order as `backward`.

    Parameters
    ----------
    outputs, gradients : sequence
        As for `backward`.
    inputs : sequence of Tensor
        What was received from elsewhere; may be empty.

    Returns
    -------
    tuple of (Tensor or None)
        One gradient per input.
    WeightGradients
        Its ``run()`` does the other half.
    """
    roots = _roots(outputs, gradients, False)
    places = [_where(tensor) for tensor in inputs]
    captures = {place: i for i, place in enumerate(dict.fromkeys(places))}
    useful = _leading_to(roots, captures)

    def first(target: Target, index: int) -> bool:
        return target in useful or (target, index) in captures

    wrap = outputs[0].wrap
    parked: list[tuple[Node, list[Any]]] = []
    now = [root for root in roots if first(root[0], root[1])]
    task = GraphTask(now, wrap, want=first, captures=captures, park=parked)
    task.run()
    later = [root for root in roots if not first(root[0], root[1])]
    later += [(node, i, grad) for node, grads in parked for i, grad in enumerate(grads)]
    heard = {(node, i) for node, grads in parked for i, grad in enumerate(grads) if grad is not None}
    rest = GraphTask(later, wrap, want=lambda target, index: not first(target, index), heard=heard)
    results = [task.results.get(captures[place]) for place in places]
    return (
        tuple(None if g is None else t.wrap(g) for g, t in zip(results, inputs, strict=True)),
        WeightGradients(rest),
    )


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else (value,)


def _leading_to(roots: list[tuple[Target, int, Any]], captures: dict[tuple[Target, int], int]) -> set[Node]:
    """Return the nodes whose backward is needed to reach what is captured."""
    nodes: set[Node] = set()
    stack = [target for target, _, _ in roots if type(target) is Node]
    while stack:
        node = stack.pop()
        if node in nodes:
            continue
        nodes.add(node)
        stack.extend(target for target in node._targets if type(target) is Node)
    useful: set[Node] = set()
    for node in sorted(nodes, key=lambda node: node._order):  # inputs are older than their op
        if any(edge is not None and (edge[0] in useful or edge in captures) for edge in edges_of(node)):
            useful.add(node)
    return useful
