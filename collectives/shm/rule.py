"""How each collective goes on one host, by its bytes: a table that was measured.

What is below `at_once` goes along with the header; what is up to `staged` through rooms in chunks; what is up
to `one_copy` straight from the memory of the other process, where that is permitted; the rest by MPI, whose
own single copy is as fast. Large results that the transport may put where it likes are laid by all ranks
together. Arrays in symmetric memory need none of this: above `at_once` they always go directly. All ranks of
a group must read the same table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from shardwise.collectives.shm.place import AT_ONCE, BY_MPI, EAGER_ROOM, ONE_COPY, STAGED

__all__ = ["RULES", "Rule", "choose_path"]

_KIB, _MIB, _ANY = 1 << 10, 1 << 20, math.inf


@dataclass(frozen=True, slots=True)
class Rule:
    """Bytes that a rank gives at most, up to which a collective goes one way.

    `laid` and `laid_whole` are of the largest result, from which all parts are laid into the results, if that
    can be: where they would else be packed or unpacked, and where they lie one after the other anyway.
    """

    at_once: float
    staged: float
    one_copy: float = 0
    laid: float = math.inf
    laid_whole: float = math.inf


# A barrier needs no rule, and an exchange of uneven parts goes by MPI. Measured on two cores of one socket,
# ranks pinned; see docs/design/shared-memory.md.
_MOVEMENT = Rule(8 * _KIB, 32 * _KIB, 4 * _MIB)
_LAID = replace(_MOVEMENT, laid=256 * _KIB, laid_whole=8 * _MIB)
RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "all_reduce": Rule(4 * _KIB, _ANY),
        "reduce": Rule(4 * _KIB, _ANY),
        "reduce_scatter": Rule(8 * _KIB, _ANY, laid=1 * _MIB),
        "all_gather": _LAID,
        "gather": _MOVEMENT,
        "all_to_all": _LAID,
        "broadcast": Rule(8 * _KIB, 16 * _KIB, 4 * _MIB),
        "scatter": _MOVEMENT,
    }
)
_WITHOUT = 256 * _KIB  # what is staged where one copy would be better and is not permitted


def choose_path(rule: Rule, sent: int, one_copy: bool) -> int:
    """Give the way of an operation for which a rank gives at most `sent` bytes.

    Parameters
    ----------
    rule : Rule
    sent : int
        The same on all ranks.
    one_copy : bool
        Whether all ranks may read the memory of all.
    """
    if sent <= min(rule.at_once, EAGER_ROOM) or (sent == 0 <= rule.staged):
        return AT_ONCE
    if sent <= rule.staged or (not one_copy and sent <= min(rule.one_copy, _WITHOUT)):
        return STAGED
    return ONE_COPY if one_copy and 0 < sent <= rule.one_copy else BY_MPI
