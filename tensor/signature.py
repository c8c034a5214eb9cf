"""Index signatures as data: which dims an op shares, sums over, or needs whole.

A signature is einsum-like, ``"...mk,...kn->...mn"``. A letter is a dim; the same letter is the
same size everywhere; one that only inputs have is summed over; ``[d]`` must be whole (its
elements depend on each other); ``1`` is a dim of size one that broadcasts; ``...`` stands for
batch dims, which broadcast. ``"*"`` is pointwise over all dims of all inputs.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from shardwise.backend.errors import ShapeError
from shardwise.tensor.function import Function
from shardwise.tensor.mode import intercept

__all__ = ["Dim", "FlopCounter", "Part", "Terms", "flops", "known_shapes", "parse", "terms_of"]

Shape = tuple[int, ...]


class Part(NamedTuple):
    """A part of an array: where it starts in the whole, its shape, the shape of the whole."""

    offset: Shape
    shape: Shape
    whole: Shape


@dataclass(frozen=True, slots=True)
class Dim:
    """One dim of a term: a letter, ``"1"``, or ``"..."`` for any number of batch dims.

    `whole` dims cannot be cut; `batch` dims came from ``...`` or ``*`` and broadcast.
    """

    name: str
    whole: bool = False
    batch: bool = False


@dataclass(frozen=True, slots=True)
class Terms:
    """A parsed signature: per input and per output, its dims."""

    inputs: tuple[tuple[Dim, ...], ...]
    outputs: tuple[tuple[Dim, ...], ...]

    @property
    def summed(self) -> frozenset[str]:
        """Letters that inputs have and no output has."""
        kept = {dim.name for term in self.outputs for dim in term}
        return frozenset(dim.name for term in self.inputs for dim in term if dim.name not in kept) - {
            "1",
            "...",
        }


def parse(signature: str) -> Terms:
    """Read an einsum-like signature.

    Parameters
    ----------
    signature : str
        Not ``"*"``, which says nothing of the number of inputs.
    """
    left, arrow, right = signature.partition("->")
    if not arrow:
        raise ShapeError(f"signature {signature!r} has no '->'")
    return Terms(
        tuple(_term(term, signature) for term in left.split(",")),
        tuple(_term(term, signature) for term in right.split(",")),
    )


def _term(text: str, signature: str) -> tuple[Dim, ...]:
    dims, at = [], 0
    for match in re.finditer(r"\.\.\.|\[([A-Za-z])\]|[A-Za-z]|1", text):
        if match.start() != at:
            break
        at = match.end()
        dims.append(Dim(match.group(1) or match.group(), match.group(1) is not None))
    if at != len(text):
        raise ShapeError(f"signature {signature!r}: cannot read {text[at:]!r} in the term {text!r}")
    return tuple(dims)


def terms_of(function: type[Function], shapes: tuple[Shape, ...], params: dict[str, Any]) -> Terms:
    """Return the terms of one call: rules asked, ``"*"`` and ``...`` spelled out."""
    signature = function.signature
    text = signature if isinstance(signature, str) else signature(shapes, params)
    if text == "*":
        ndim = max((len(shape) for shape in shapes), default=0)
        letters = [Dim(_letter(i), batch=True) for i in range(ndim)]
        inputs = []
        for shape in shapes:
            tail = letters[ndim - len(shape) :]
            inputs.append(tuple(Dim("1") if n == 1 else dim for n, dim in zip(shape, tail, strict=True)))
        return Terms(tuple(inputs), (tuple(letters),))
    terms = parse(text)
    used = {dim.name for term in (*terms.inputs, *terms.outputs) for dim in term}
    spare = [_letter(i) for i in range(52) if _letter(i) not in used]
    batch = [
        len(shape) - (len(term) - 1) if any(dim.name == "..." for dim in term) else 0
        for shape, term in zip(shapes, terms.inputs, strict=False)
    ]
    widest = max(batch, default=0)

    def spell(term: tuple[Dim, ...], shape: Shape | None, count: int) -> tuple[Dim, ...]:
        out: list[Dim] = []
        for dim in term:
            if dim.name != "...":
                out.append(dim)
                continue
            for i in range(widest - count, widest):
                one = shape is not None and shape[len(out)] == 1
                out.append(Dim("1") if one else Dim(spare[i], batch=True))
        return tuple(out)

    return Terms(
        tuple(spell(t, s, n) for t, s, n in zip(terms.inputs, shapes, batch, strict=False)),
        tuple(spell(t, None, widest) for t in terms.outputs),
    )


def _letter(i: int) -> str:
    return "zyxwvutsrqponmlkjihgfedcbaZYXWVUTSRQPONMLKJIHGFEDCBA"[i]


def known_shapes(
    function: type[Function], shapes: tuple[Shape, ...], params: dict[str, Any]
) -> tuple[tuple[int | None, ...], ...]:
    """Return the outputs' shapes as far as the signature tells; None where it does not.

    Parameters
    ----------
    function : Function class
    shapes : tuple of tuple of int
        One per input that is an array.
    params : dict
        Of the call.
    """
    terms = terms_of(function, shapes, params)
    sizes: dict[str, int] = {}
    for term, shape in zip(terms.inputs, shapes, strict=False):
        for dim, n in zip(term, shape, strict=True):
            if dim.name == "1":
                continue
            if sizes.setdefault(dim.name, n) != n:
                raise ShapeError(
                    f"{function.__name__}: dim {dim.name} has size {sizes[dim.name]} and size {n} in {shapes}"
                )
    # a batch dim that is one in every input is one in the output
    return tuple(
        tuple(1 if d.name == "1" else sizes.get(d.name, 1 if d.batch else None) for d in term)
        for term in terms.outputs
    )


def flops(function: type[Function], shapes: tuple[Shape, ...], params: dict[str, Any]) -> int:
    """Return the floating-point operations of one forward: two per multiply-add of a contraction.

    Ops without a contraction count one per element of the largest input; an op that is several
    at once says what it costs by a ``flops(shapes, params)`` of its own.
    """
    if function.flops is not None:
        return function.flops(shapes, params)
    terms = terms_of(function, shapes, params)
    sizes: dict[str, int] = {}
    for term, shape in zip(terms.inputs, shapes, strict=False):
        for dim, n in zip(term, shape, strict=True):
            sizes[dim.name] = max(n, sizes.get(dim.name, 1))
    sizes.pop("1", None)
    if len(terms.inputs) > 1 and any(
        sum(name in {d.name for d in term} for term in terms.inputs) > 1 for name in terms.summed
    ):
        return 2 * math.prod(sizes.values())
    return max((math.prod(shape) for shape in shapes), default=0)


class FlopCounter:
    """Count the floating-point operations of the forwards in a ``with`` block, by op.

    Attributes
    ----------
    by_op : dict of str to int
    """

    def __init__(self) -> None:
        self.by_op: dict[str, int] = {}

    def __enter__(self) -> FlopCounter:
        self._block = intercept(self._count)
        self._block.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._block.__exit__(*exc)

    def _count(self, function: type[Function], args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        shapes = tuple(tuple(np.shape(getattr(arg, "data", arg))) for arg in args if arg is not None)
        name = function.__name__
        self.by_op[name] = self.by_op.get(name, 0) + flops(function, shapes, params)
        return function.apply(*args, **params)

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.by_op.values())
