"""What PyTorch has in ``torch.autograd``, under the name ``sw.autograd``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from shardwise.backend.errors import ArgumentError
from shardwise.tensor import autograd
from shardwise.tensor.function import Function
from shardwise.tensor.gradcheck import gradcheck, gradgradcheck
from shardwise.tensor.inference import inference_mode
from shardwise.tensor.mode import detect_anomaly, enable_grad, no_grad, set_grad_enabled
from shardwise.tensor.tensor import Tensor

__all__ = [
    "Function", "backward", "detect_anomaly", "enable_grad", "grad", "gradcheck", "gradgradcheck",
    "inference_mode", "no_grad", "set_grad_enabled",
]  # fmt: skip

Tensors: TypeAlias = Tensor | Sequence[Tensor]
Gradients: TypeAlias = Tensor | Sequence[Tensor | None]


def backward(
    tensors: Tensors,
    grad_tensors: Gradients | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
) -> None:
    """Add the gradients of tensors to the ``grad`` of every leaf that they were computed from.

    Parameters
    ----------
    tensors : Tensor or sequence of Tensor
    grad_tensors : Tensor or sequence of (Tensor or None), optional
        Gradients with respect to them; 1 for scalars, if not given.
    retain_graph : bool, optional
        Keep what the backward needs for another one; as `create_graph`, if not given.
    create_graph : bool
        Record the backward itself.
    """
    outputs = (tensors,) if isinstance(tensors, Tensor) else tensors
    given = (grad_tensors,) if isinstance(grad_tensors, Tensor) else grad_tensors
    autograd.backward(outputs, given, create_graph if retain_graph is None else retain_graph, create_graph)


def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Gradients | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    *,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of outputs with respect to inputs, and leave every ``grad`` alone.

    Parameters
    ----------
    outputs, inputs : Tensor or sequence of Tensor
    grad_outputs : Tensor or sequence of (Tensor or None), optional
        Gradients with respect to the outputs; 1 for scalars, if not given.
    retain_graph : bool, optional
        Keep what the backward needs for another one; as `create_graph`, if not given.
    create_graph : bool
        Record the backward itself, for gradients of gradients.
    only_inputs : bool
        True; PyTorch takes nothing else any more.
    allow_unused : bool, optional
        Give None for inputs that the outputs do not depend on, instead of an error.
    materialize_grads : bool
        Give zeros for them.

    Raises
    ------
    AutogradError
        An input does not require grad, or is not used and `allow_unused` is not set.
    """
    if not only_inputs:
        raise ArgumentError("grad: only_inputs must be True; backward() adds to the leaves' grad")
    if materialize_grads and allow_unused is False:
        raise ArgumentError(
            "grad: materialize_grads=True gives zeros for unused inputs, which allow_unused=False forbids"
        )
    unused = materialize_grads if allow_unused is None else allow_unused
    wanted = (inputs,) if isinstance(inputs, Tensor) else inputs
    found = autograd.grad(
        outputs, wanted, grad_outputs, retain_graph, create_graph, unused or materialize_grads
    )
    if not materialize_grads:
        return found
    return tuple([x.new_zeros(x.shape) if g is None else g for x, g in zip(wanted, found, strict=True)])
