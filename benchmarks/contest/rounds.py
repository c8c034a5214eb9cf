"""What came of several rounds in which both sides had their turn.

Taking turns puts what else the machine does on both; the spread over the rounds says how much that was.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Ratio", "Rounds", "ratio"]


@dataclass(frozen=True, slots=True)
class Rounds:
    """What was measured of one thing: in each round several values, at least one."""

    values: Sequence[Sequence[float]]

    @property
    def median(self) -> float:
        """Of all values."""
        return statistics.median(value for some in self.values for value in some)

    @property
    def medians(self) -> list[float]:
        """Of each round."""
        return [statistics.median(some) for some in self.values]

    def show(self, unit: str) -> str:
        """Write the median, and between which values the rounds' medians lie."""
        return f"{self.median:,.4g} {unit} ({min(self.medians):,.4g} to {max(self.medians):,.4g})"


@dataclass(frozen=True, slots=True)
class Ratio:
    """The ratio of two medians, and between which values it lay in the rounds."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


def ratio(ours: Rounds, peer: Rounds) -> Ratio:
    """Divide median by median: of all values, and of the values of each round."""
    each = [a / b for a, b in zip(ours.medians, peer.medians, strict=True)]
    return Ratio(ours.median / peer.median, min(each), max(each))
