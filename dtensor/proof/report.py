"""What `check_rule` found out."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Outcome", "RuleReport"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an op did with inputs that lay in some way.

    Attributes
    ----------
    mesh : tuple of int
    inputs : tuple of str
        How they lay; empty for what is no array.
    outputs : tuple of str
        How the results lie; empty for those that are no DTensors.
    moved : tuple of str
        What was sent forward, as ``"S(0) -> R"``; none if the op ran where the parts were.
    tracked : bool
        Whether gradients were recorded and compared.
    """

    mesh: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    moved: tuple[str, ...]
    tracked: bool

    def __str__(self) -> str:
        placed = ", ".join(each or "-" for each in self.inputs)
        sent = f"   sends {', '.join(self.moved)}" if self.moved else ""
        return f"{placed} => {', '.join(each or '-' for each in self.outputs)}{sent}"


@dataclass(frozen=True, slots=True)
class RuleReport:
    """All combinations of placements that were tried, every one of which was right.

    Attributes
    ----------
    name : str
    possible : int
        How many combinations there are on the meshes.
    outcomes : tuple of Outcome
        One per combination that was tried, forward alone and with gradients.
    """

    name: str
    possible: int
    outcomes: tuple[Outcome, ...]

    @property
    def tried(self) -> int:
        """How many combinations were tried."""
        return len(self.outcomes)

    @property
    def silent(self) -> int:
        """In how many of them nothing was sent forward."""
        return sum(not each.moved for each in self.outcomes)

    @property
    def layouts(self) -> tuple[str, ...]:
        """The layouts in which results came out, each once."""
        return tuple(sorted({", ".join(each.outputs) for each in self.outcomes}))

    def __str__(self) -> str:
        """Return the counts, and a line for each combination on the first mesh that sends nothing."""
        lines = [
            f"{self.name}: {self.tried} of {self.possible} combinations of placements are right; "
            f"{self.silent} send nothing"
        ]
        first = self.outcomes[0].mesh if self.outcomes else ()
        shown = {
            str(each): None
            for each in self.outcomes
            if each.mesh == first and not each.moved and not each.tracked
        }
        return "\n".join([*lines, *[f"  {line}" for line in shown]])
