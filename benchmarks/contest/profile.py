"""What one step spent its time on, as data; ``stopwatch.py`` finds it out, ``train_step.py`` shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Profile", "Spent"]


@dataclass(slots=True)
class Spent:
    """On one op in one direction, per step.

    Attributes
    ----------
    op, direction : str
        The `Function`'s name; "forward" or "backward".
    seconds : float
        In its formula, all in all.
    products : float
        Of these, the seconds inside ``numpy.matmul``.
    calls : float
    """

    op: str
    direction: str
    seconds: float = 0.0
    products: float = 0.0
    calls: float = 0.0


@dataclass(frozen=True, slots=True)
class Profile:
    """One step, averaged over a few.

    Attributes
    ----------
    spent : tuple of Spent
    flops : dict of str to int
        Floating-point operations of one forward, by op.
    forward, backward, optimizer : float
        Seconds of the phases of a step, while it was profiled.
    """

    spent: tuple[Spent, ...]
    flops: Mapping[str, int]
    forward: float
    backward: float
    optimizer: float

    @property
    def seconds(self) -> float:
        """Of a whole profiled step."""
        return self.forward + self.backward + self.optimizer

    @property
    def products(self) -> float:
        """Seconds inside matrix products."""
        return sum(one.products for one in self.spent)

    @property
    def outside(self) -> float:
        """Seconds of forward and backward in no formula: modules, the tape, the engine and its sums."""
        return self.forward + self.backward - sum(one.seconds for one in self.spent)

    @property
    def step_flops(self) -> int:
        """Floating-point operations of all ops: a backward does those of a forward twice."""
        return 3 * sum(self.flops.values())

    @property
    def product_flops(self) -> int:
        """Those of the ops that use matrix products."""
        return 3 * sum(self.flops[op] for op in {one.op for one in self.spent if one.products})

    def __str__(self) -> str:
        """One line per op, the slowest first."""
        ops: dict[str, dict[str, Spent]] = {}
        for one in self.spent:
            ops.setdefault(one.op, {})[one.direction] = one
        lines = [f"{'op':<26}{'calls':>6}{'forward':>10}{'backward':>10}{'products':>10}{'of step':>9}"]
        none = Spent("", "")
        rows = [(op, both.get("forward", none), both.get("backward", none)) for op, both in ops.items()]
        for op, there, back in sorted(rows, key=lambda row: -row[1].seconds - row[2].seconds):
            lines.append(
                f"{op:<26}{there.calls:>6.0f}{there.seconds * 1e3:>10.2f}{back.seconds * 1e3:>10.2f}"
                f"{(there.products + back.products) * 1e3:>10.2f}"
                f"{(there.seconds + back.seconds) / self.seconds:>9.1%}"
            )
        for name, seconds in (
            ("optimizer", self.optimizer),
            ("modules, tape and engine", self.outside),
            ("the step", self.seconds),
        ):
            lines.append(f"{name:<52}{seconds * 1e3:>10.2f}{seconds / self.seconds:>9.1%}")
        return "\n".join(lines)
