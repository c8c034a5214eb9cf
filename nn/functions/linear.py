"""Matrix products with weights."""

from __future__ import annotations

from shardwise.backend.errors import ShapeError
from shardwise.nn.check import check_dtypes, check_tensors
from shardwise.tensor import Tensor
from shardwise.tensor.ops import matmul

__all__ = ["bilinear", "linear"]


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``input @ weight.T + bias``.

    Parameters
    ----------
    input : Tensor, shape (..., in)
    weight : Tensor, shape (out, in), or (in,) for a single output
    bias : Tensor, shape (out,), or () for a single output, optional

    Returns
    -------
    Tensor, shape (..., out), or (...) for a single output
    """
    check_tensors("linear", input=input, weight=weight, bias=bias)
    if weight.ndim == 1 and (bias is None or bias.ndim == 0):
        one = linear(input, weight.unsqueeze(0), None if bias is None else bias.unsqueeze(0))
        return one.squeeze(-1)
    if weight.ndim != 2 or (bias is not None and bias.shape != weight.shape[:1]):
        raise ShapeError(
            f"linear: weight must have shape (out, in) and bias (out,); got {weight.shape} and "
            f"{None if bias is None else bias.shape}"
        )
    if not input.ndim or input.shape[-1] != weight.shape[-1]:
        raise ShapeError(
            f"linear: the last dim of input must be {weight.shape[-1]}, the second of weight {weight.shape}; "
            f"input has shape {input.shape}"
        )
    check_dtypes("linear", input=input, weight=weight, bias=bias)
    return matmul.Linear.apply(input, weight, bias)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``input1 @ weight[o] @ input2 + bias[o]`` for every output ``o``.

    Parameters
    ----------
    input1 : Tensor, shape (..., in1)
    input2 : Tensor, shape (..., in2)
        Of the same leading dims.
    weight : Tensor, shape (out, in1, in2)
    bias : Tensor, shape (out,), optional

    Returns
    -------
    Tensor, shape (..., out)
    """
    check_tensors("bilinear", input1=input1, input2=input2, weight=weight, bias=bias)
    if weight.ndim != 3 or (bias is not None and bias.shape != weight.shape[:1]):
        raise ShapeError(
            f"bilinear: weight must have shape (out, in1, in2) and bias (out,); got {weight.shape} and "
            f"{None if bias is None else bias.shape}"
        )
    lead, (out, in1, in2) = input1.shape[:-1], weight.shape
    if not input1.ndim or input1.shape != (*lead, in1) or input2.shape != (*lead, in2):
        raise ShapeError(
            f"bilinear: inputs must have shapes (..., {in1}) and (..., {in2}) with the same leading dims, to "
            f"fit weight {weight.shape}; got {input1.shape} and {input2.shape}"
        )
    check_dtypes("bilinear", input1=input1, input2=input2, weight=weight, bias=bias)
    # (..., in1) by (in1, out * in2), so that one large product does most of the work
    half = input1 @ weight.permute(1, 0, 2).reshape(in1, out * in2)
    product = (half.reshape(*lead, out, in2) @ input2.unsqueeze(-1)).squeeze(-1)
    return product if bias is None else product + bias
