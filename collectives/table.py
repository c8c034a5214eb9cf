"""Every collective in one line: what comes out, what its adjoint is, what it moves.

The checks, the ledger and the differentiable forms read this table; each transport has one method for
each line. ``n`` is the number of ranks in the group throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from shardwise.collectives.layout import concatenated, divided, unchanged

__all__ = ["COLLECTIVES", "Collective"]


@dataclass(frozen=True, slots=True)
class Collective:
    """What is true of one collective on every transport.

    Attributes
    ----------
    name : str
        The name of the public function and of the method in each transport.
    shape : callable
        Shape of the result from (shape of x, n, dim).
    adjoint : str
        The collective that carries gradients back; for reductions, of the sum.
    reduces : bool
        Whether it takes a reduction (``op=``), and so only the dtypes that the reduction takes.
    rooted : bool
        Whether one rank is special (``src=`` or ``dst=``).
    moved : callable
        Bytes that one rank must send at least, from (bytes of x, n): the mean over the ranks of what the
        best algorithm sends. This is what the ledger counts.
    """

    name: str
    shape: Callable[[tuple[int, ...], int, int], tuple[int, ...]]
    adjoint: str
    reduces: bool
    rooted: bool
    moved: Callable[[int, int], int]


def _reduced_and_shared(nbytes: int, n: int) -> int:
    return 2 * nbytes * (n - 1) // n


def _to_all_others(nbytes: int, n: int) -> int:
    return nbytes * (n - 1)


def _all_but_own_part(nbytes: int, n: int) -> int:
    return nbytes * (n - 1) // n


def _whole(nbytes: int, n: int) -> int:
    return nbytes if n > 1 else 0


def _message(nbytes: int, n: int) -> int:
    return nbytes


def _nothing(nbytes: int, n: int) -> int:
    return 0


_LINES = (
    # name, shape of the result, adjoint, reduces, rooted, bytes moved
    Collective("all_reduce", unchanged, "all_reduce", True, False, _reduced_and_shared),
    Collective("all_gather", concatenated, "reduce_scatter", False, False, _to_all_others),
    Collective("reduce_scatter", divided, "all_gather", True, False, _all_but_own_part),
    Collective("all_to_all", unchanged, "all_to_all", False, False, _all_but_own_part),
    Collective("all_to_all_single", unchanged, "all_to_all_single", False, False, _all_but_own_part),
    Collective("scan", unchanged, "scan", True, False, _whole),
    Collective("exscan", unchanged, "exscan", True, False, _whole),
    Collective("broadcast", unchanged, "reduce", False, True, _whole),
    Collective("reduce", unchanged, "broadcast", True, True, _whole),
    Collective("gather", concatenated, "scatter", False, True, _whole),
    Collective("scatter", divided, "gather", False, True, _all_but_own_part),
    Collective("barrier", unchanged, "barrier", False, False, _nothing),
    Collective("send", unchanged, "recv", False, True, _message),
    Collective("recv", unchanged, "send", False, True, _nothing),
)

COLLECTIVES: Mapping[str, Collective] = MappingProxyType({line.name: line for line in _LINES})
