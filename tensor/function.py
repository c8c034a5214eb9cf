"""One op, one class, one door.

A differentiable op is a `Function`: a formula forward, a formula backward, and an index
signature. Every op enters through `Function.apply`, which hands it to the most derived tensor
class among its inputs. With no tensor among the inputs the formula simply runs on the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from shardwise.backend.array import Array
from shardwise.tensor.mode import current_mode, override

__all__ = ["Context", "Function", "Gradients", "Signature"]

T = TypeVar("T")
Gradients = Sequence[Array | None]
Signature = str | Callable[..., str]


class Context:
    """What one call of an op keeps for its backward.

    Attributes
    ----------
    need : tuple of bool
        Per input: is a gradient wanted. Known before `forward`, narrowed before `backward`.
    saved : tuple of Array or None
        Inputs, outputs, or statistics that the plain formula can recompute. Under
        ``create_graph`` inputs and outputs come back as Tensors and statistics as None.
    into : tuple of Array or None
        During `backward`, per input: the array in which its gradient will end up, when it can
        be written there directly. Returning that very array saves a copy.

    Any other attribute may be set: shapes, flags, small things.
    """

    saved: tuple[Any, ...] = ()
    into: tuple[Array | None, ...] = ()

    def __init__(self, need: tuple[bool, ...] = ()) -> None:
        self.need = need

    if TYPE_CHECKING:  # any other attribute may be set

        def __getattr__(self, name: str) -> Any: ...

        def __setattr__(self, name: str, value: Any) -> None: ...

    def save(self, *arrays: Any) -> None:
        """Keep arrays for backward; they are freed as backward goes by."""
        self.saved = arrays


class Function:
    """A differentiable op. Subclass it, define `forward` and `backward`, call `apply`.

    Attributes
    ----------
    signature : str or callable
        How the op treats dimensions: ``"*"`` for pointwise with broadcasting, an einsum-like
        string such as ``"...mk,...kn->...mn"``, where ``[d]`` marks a dimension that must be
        whole, or a rule ``(shapes, params) -> str`` for ops whose parameters decide.
    view : bool
        The outputs share the memory of the first input.
    exact : bool
        The op moves values and computes none, or chooses its dtype itself: floats of 16 bits pass
        through as they are. Others are computed in float32 and rounded. Views are exact.
    broadcasts : bool
        Gradients may come back in a shape that the input was broadcast to; the engine sums them.
        Follows from a signature with ``*`` or ``...``.

    Examples
    --------
    >>> import numpy as np
    >>> import shardwise as sw
    >>> class Cube(Function):
    ...     signature = "*"
    ...
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save(x)
    ...         return x * x * x
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved
    ...         return (3.0 * x * x * g,)
    >>> x = sw.tensor([2.0], requires_grad=True)
    >>> Cube.apply(x).sum().backward()
    >>> x.grad.tolist()
    [12.0]
    """

    signature: ClassVar[Signature]
    view: ClassVar[bool] = False
    exact: ClassVar[bool] = False
    broadcasts: ClassVar[bool] = False
    flops: ClassVar[Callable[..., int] | None] = None
    forward: ClassVar[Callable[..., Any]]
    backward: ClassVar[Callable[..., Gradients]]

    def __init_subclass__(cls) -> None:
        signature = cls.__dict__.get("signature")
        if isinstance(signature, str) and "broadcasts" not in cls.__dict__:
            cls.broadcasts = signature == "*" or "..." in signature

    @classmethod
    def apply(cls, first: T, *rest: object, **params: object) -> T:
        """Run the op: the one door.

        Parameters
        ----------
        first, *rest : Tensor, Array or scalar
            The inputs. The most derived tensor class among them runs the op.
        **params
            Keyword parameters of `forward`; never differentiated.

        Returns
        -------
        Tensor, or a tuple of them
            Arrays, if no input was a Tensor.
        """
        args = (first, *rest)
        mode = current_mode()
        if mode.doors:
            with override(doors=mode.doors[:-1]):
                result: T = mode.doors[-1](cls, args, params)
                return result
        kind: Any = None
        for arg in args:
            candidate = type(arg)
            if candidate is kind or not hasattr(candidate, "__apply__"):
                continue
            if kind is None or issubclass(candidate, kind):
                kind = candidate
        if kind is None:
            plain: T = cls.forward(Context((False,) * len(args)), *args, **params)
            return plain
        out: T = kind.__apply__(cls, args, params)
        return out
