"""How one mesh axis treats a tensor: `Shard`, `Replicate`, `Partial`; and `Spec`, dim by dim."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from shardwise.backend.errors import LayoutError

__all__ = ["Partial", "PartialOp", "Placement", "PlacementLike", "Replicate", "Shard", "Spec", "as_placement"]

PartialOp = Literal["sum", "avg", "prod", "min", "max", "band", "bor", "bxor"]
_PARTIAL_OPS: Final = ("sum", "avg", "prod", "min", "max", "band", "bor", "bxor")


@dataclass(frozen=True, slots=True)
class Shard:
    """The ranks along an axis hold consecutive pieces of one tensor dim.

    Parameters
    ----------
    dim : int
        Negative ones count from the end; a `Layout` makes them plain.
    sizes : sequence of int, optional
        Length of each rank's piece, zero allowed, in the order of the ranks. Without it, of ``n`` places over
        ``w`` ranks each takes ``ceil(n / w)`` as long as there are any: 9 over 4 is 3, 3, 3, 0. Where several
        axes shard the same dim, one entry per combination of their coordinates, the outermost axis slowest.
    """

    dim: int
    sizes: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "dim", operator.index(self.dim))
            if self.sizes is not None:
                object.__setattr__(self, "sizes", tuple([operator.index(n) for n in self.sizes]))
        except TypeError:
            raise LayoutError(
                f"Shard takes whole numbers, got dim={self.dim!r}, sizes={self.sizes!r}"
            ) from None
        if self.sizes is not None and any(n < 0 for n in self.sizes):
            raise LayoutError(f"Shard({self.dim}): sizes must be at least 0, got {self.sizes}")

    def is_shard(self, dim: int | None = None) -> bool:
        """Tell whether this shards a dim, or that dim."""
        return dim is None or dim == self.dim

    def is_replicate(self) -> bool:
        """Tell whether every rank holds all: no."""
        return False

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Tell whether the value is spread over terms: no."""
        return False

    def __str__(self) -> str:
        return f"S({self.dim})" if self.sizes is None else f"S({self.dim}, {list(self.sizes)})"

    def __repr__(self) -> str:
        return f"Shard({self.dim})" if self.sizes is None else f"Shard({self.dim}, sizes={self.sizes})"


@dataclass(frozen=True, slots=True)
class Replicate:
    """All ranks along an axis hold the same."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Tell whether this shards a dim: no."""
        return False

    def is_replicate(self) -> bool:
        """Tell whether every rank holds all: yes."""
        return True

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Tell whether the value is spread over terms: no."""
        return False

    def __str__(self) -> str:
        return "R"

    def __repr__(self) -> str:
        return "Replicate()"


@dataclass(frozen=True, slots=True)
class Partial:
    """The value is what the ranks' arrays along an axis give together: their sum, their maximum, ...

    Parameters
    ----------
    reduce_op : str
        "sum", "avg", "prod" ("product"), "min", "max", "band", "bor" or "bxor".
    """

    reduce_op: PartialOp | Literal["product"] = "sum"

    def __post_init__(self) -> None:
        if self.reduce_op == "product":
            object.__setattr__(self, "reduce_op", "prod")
        if self.reduce_op not in _PARTIAL_OPS:
            raise LayoutError(f"Partial takes one of {', '.join(_PARTIAL_OPS)}, got {self.reduce_op!r}")

    def is_shard(self, dim: int | None = None) -> bool:
        """Tell whether this shards a dim: no."""
        return False

    def is_replicate(self) -> bool:
        """Tell whether every rank holds all: no."""
        return False

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Tell whether the value is spread over terms, or over terms of that reduction."""
        return reduce_op is None or reduce_op == self.reduce_op

    def __str__(self) -> str:
        return "P" if self.reduce_op == "sum" else f"P({self.reduce_op})"

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"


Placement: TypeAlias = Shard | Replicate | Partial
PlacementLike: TypeAlias = Placement | str
"""A placement or its short form: ``"R"``, ``"S(0)"``, ``"P"``, ``"P(max)"``."""

_SHORT = re.compile(r"\s*(?:(R)|S\(?\s*(-?\d+)\s*\)?|(P)(?:\(?\s*([a-z]+)\s*\)?)?)\s*")


def as_placement(placement: PlacementLike) -> Placement:
    """Read a placement or its short form.

    Raises
    ------
    LayoutError
        It is neither.

    Examples
    --------
    >>> as_placement("S(1)"), as_placement("P"), as_placement("R")
    (Shard(1), Partial(sum), Replicate())
    """
    if isinstance(placement, (Shard, Replicate, Partial)):
        return placement
    found = _SHORT.fullmatch(placement) if isinstance(placement, str) else None
    if found is None:
        raise LayoutError(
            f"a placement is Shard(dim), Replicate() or Partial(op), in short 'S(0)', 'R' or 'P'; "
            f"got {placement!r}"
        )
    replicate, dim, _, op = found.groups()
    reduce_op: Any = op or "sum"
    if replicate:
        return Replicate()
    return Partial(reduce_op) if dim is None else Shard(int(dim))


class Spec:
    """A layout told dim by dim: for each tensor dim the mesh axes that shard it, the outermost first.

    Parameters
    ----------
    *dims : str, int, sequence of them, or None
        One per tensor dim: the axis or axes, by name or number; None for a dim that nothing shards. Dims
        that are left out at the end are not sharded.
    partial : dict, optional
        ``{axis: reduce_op}`` for axes over which the tensor is `Partial`.

    Examples
    --------
    >>> Spec("dp", None, ("tp", "cp"))
    Spec('dp', None, ('tp', 'cp'))
    """

    __slots__ = ("dims", "partial")

    def __init__(
        self,
        *dims: str | int | Sequence[str | int] | None,
        partial: dict[str | int, PartialOp] | None = None,
    ) -> None:
        self.dims: tuple[tuple[str | int, ...], ...] = tuple(
            [
                () if each is None else (each,) if isinstance(each, (str, int)) else tuple(each)
                for each in dims
            ]
        )
        self.partial = dict(partial or {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and (self.dims, self.partial) == (other.dims, other.partial)

    def __hash__(self) -> int:
        return hash((self.dims, tuple(self.partial.items())))

    def __repr__(self) -> str:
        dims = [repr(None if not each else each[0] if len(each) == 1 else each) for each in self.dims]
        return f"Spec({', '.join(dims + ([f'partial={self.partial}'] if self.partial else []))})"
