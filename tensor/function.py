"""One op, one class, one door.

A differentiable op is a `Function`: a formula forward, a formula backward, and an index
signature. Every op enters through `Function.apply`, which hands it to the most derived tensor
class among its inputs. With no tensor among the inputs the formula simply runs on the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np

from shardwise.backend.array import Array
from shardwise.tensor.mode import current_mode, override

__all__ = ["Context", "Function", "Gradients", "Signature"]

T = TypeVar("T")
Gradients = Sequence[Array | None]
Signature = str | Callable[..., str]
_PLAIN = frozenset({np.ndarray, float, int, bool, complex, type(None)})


class _Nowhere(Sequence[None]):
    """As many Nones as are asked for."""

    def __len__(self) -> int:
        return 0

    def __getitem__(self, index: object) -> None:  # type: ignore[override]  # a slice is never asked for
        return None


class Context:
    """What one call of an op keeps for its backward.

    Attributes
    ----------
    need : tuple of bool
        Per input: is a gradient wanted. Known before `forward`, narrowed before `backward`.
    saved : tuple of (Array or None)
        Inputs, outputs, or statistics that the plain formula can recompute. Under
        ``create_graph`` inputs and outputs come back as Tensors and statistics as None.
    into : tuple of Array or None
        During `backward`, per input: the array in which its gradient will end up, when it can
        be written there directly. Returning that very array saves a copy.

    Any other attribute may be set: shapes, flags, small things.
    """

    __slots__ = ("__dict__", "__weakref__", "need", "saved")
    need: tuple[bool, ...]
    saved: Any
    into: Sequence[Array | None] = _Nowhere()

    def __init__(self, need: tuple[bool, ...] = ()) -> None:
        self.need = need
        self.saved = ()

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
    accumulates : bool
        The op multiplies 16-bit floats as they are and gives sums in float32, where the processor can.
    precision : "", "narrow" or "wide"
        What `autocast` does to the inputs: nothing, 16 bits, or 32.
    reduces : str
        What the parts of a dim that is summed over (a letter that no output has) give together: "sum",
        "prod", "min", "max", "band", "bor". Empty: nothing that could be told, so the dim must be whole.
    linear : str or tuple of int
        In which inputs the op is linear, so that terms of a sum may pass through it: in "all" of them
        together, in "each" alone while the others stay, in those of these numbers together, or in none ("").
    addends : tuple of int
        Inputs that are added to the result, as a bias is: where the result is a sum of terms over ranks,
        they belong into one of the terms.
    monotone : int
        1 if a larger first input gives results that are no smaller, for all floats and with NaN for NaN; -1
        if it gives results that are no larger; 0 if neither holds, as for logarithms, NaN below zero.
    commutes : str
        The reduction, "min" or "max", that gives the same before the op as behind it, all inputs together.
    unseen : frozenset of str
        Parameters on which neither shapes nor layouts depend, and that differ from call to call, as a seed.
    localize : callable or None
        ``localize(params, inputs, outputs)`` gives the parameters for parts of the inputs and outputs, a
        `Part` each (see `signature`), where parameters tell of the whole.
    decompose : callable or None
        The op as a composition of others, ``decompose(*args, **params)``, for where a dim that it needs whole
        lies in parts.
    recall : callable or None
        ``recall(node, saved, wrap)`` gives the attributes and saved tensors that `backward` works with under
        ``create_graph``, for ops that ran on something else than the arrays of their tensors.
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
    accumulates: ClassVar[bool] = False
    precision: ClassVar[Literal["", "narrow", "wide"]] = ""
    broadcasts: ClassVar[bool] = False
    reduces: ClassVar[Literal["", "sum", "prod", "min", "max", "band", "bor"]] = ""
    linear: ClassVar[Literal["", "all", "each"] | tuple[int, ...]] = ""
    addends: ClassVar[tuple[int, ...]] = ()
    monotone: ClassVar[Literal[-1, 0, 1]] = 0
    commutes: ClassVar[Literal["", "min", "max"]] = ""
    unseen: ClassVar[frozenset[str]] = frozenset()
    localize: ClassVar[Callable[..., dict[str, Any]] | None] = None
    decompose: ClassVar[Callable[..., Any] | None] = None
    recall: ClassVar[Callable[..., tuple[dict[str, Any], tuple[Any, ...]]] | None] = None
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
        out: T
        if mode.doors:
            with override(doors=mode.doors[:-1]):
                out = mode.doors[-1](cls, args, params)
                return out
        kind: Any = type(first)
        for arg in rest:
            if type(arg) is not kind and type(arg) not in _PLAIN:
                kind = _most_derived(args)
                break
        door = getattr(kind, "__apply__", None)
        if door is not None:
            out = door(cls, args, params)
            return out
        kind = _most_derived(args)
        if kind is None:
            out = cls.forward(Context((False,) * len(args)), *args, **params)
        else:
            out = kind.__apply__(cls, args, params)
        return out


def _most_derived(args: tuple[Any, ...]) -> Any:
    """Return the tensor class with the most derived door among the inputs, None if there is none."""
    kind: Any = None
    for arg in args:
        candidate = type(arg)
        if hasattr(candidate, "__apply__") and (kind is None or issubclass(_door(candidate), _door(kind))):
            kind = candidate
    return kind


def _door(kind: Any) -> Any:
    """Return the class that defines how ops run on a tensor class."""
    return next((base for base in kind.__mro__ if "__apply__" in base.__dict__), kind)
