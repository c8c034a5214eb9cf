"""One training step of a small GPT, beside torch: how long, where the time goes, how far from the limit.

Ours and torch's start from the same weights, get the same batches, run on the same cores with one
thread each, and take turns. Each turn begins with a step that is not timed.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from contest.options import parser, peer_present, positive, result, write
from contest.profile import Profile
from contest.rounds import Rounds, ratio
from contest.task import FULL, TINY, Task
from contest.team import Side, Team
from contest.trainee import Lap
from table import Result

ALIKE = 1e-3  # how far losses may be apart, relative; sums in another order stay far below
WARM_UP = 3  # steps, whose losses are compared
CALLS = "calls only"  # the kind of step that has next to no data

Kind = tuple[str, Side]  # a kind of step, and who does it


class Turn(NamedTuple):
    """What a team did in one turn: steps, and its largest product, in operations a second."""

    laps: list[Lap]
    rate: float


def enter(stack: ExitStack, kind: str, task: Task, size: int, sides: Sequence[Side]) -> dict[Kind, Team]:
    """Start the teams of one kind of step, the peer on the cores that ours got, and warm them up."""
    teams: dict[Kind, Team] = {}
    losses: dict[Side, list[float]] = {}
    cores = None
    for side in sides:
        team = teams[kind, side] = stack.enter_context(Team(side, task, size, cores))
        cores = team.cores
        losses[side] = [lap.loss for laps in team.steps(WARM_UP) for lap in laps]
    print(f"{kind}: {task}, on the cores {cores}")
    if len(losses) > 1:
        apart = compare_losses(kind, losses["ours"], losses["torch"])
        print(f"{kind}: the losses of the first {WARM_UP} steps agree to {apart:.1e}")
    return teams


def compare_losses(kind: str, ours: Sequence[float], peer: Sequence[float]) -> float:
    """Return how far the losses are apart, relative to the peer's.

    Raises
    ------
    RuntimeError
        If that is far: the sides do not do the same work, and their times say nothing.
    """
    apart = max(abs(a - b) / abs(b) for a, b in zip(ours, peer, strict=True))
    if not apart <= ALIKE:  # NaN is apart too
        raise RuntimeError(
            f"{kind}: ours and torch do not train alike. From the same weights and batches, the first losses "
            f"are {list(ours)} and {list(peer)}, {apart:.1e} apart; at most {ALIKE:.0e} is rounding."
        )
    return apart


def take_turn(team: Team, steps: int) -> Turn:
    """Do each step as its slowest rank does it, and the product on all ranks at once."""
    _, *laps = zip(*team.steps(steps + 1), strict=True)
    return Turn([max(ranks, key=lambda lap: lap.seconds) for ranks in laps], team.product())


class Medians(NamedTuple):
    """Of ours, and of the peer where it is measured."""

    ours: float
    peer: float | None


def show(turns: Mapping[Kind, Sequence[Turn]], kind: str) -> Medians:
    """Print what one kind of step took, and return the medians in milliseconds."""
    sides: dict[Side, Rounds] = {}
    for (of, side), took in turns.items():
        if of != kind:
            continue
        sides[side] = Rounds([[lap.seconds * 1e3 for lap in turn.laps] for turn in took])
        _, *phases = zip(*(lap for turn in took for lap in turn.laps), strict=True)
        forward, backward, optimizer = (statistics.median(phase) * 1e3 for phase in phases)
        print(
            f"{kind}, {side}: {sides[side].show('ms')}; forward {forward:,.4g}, backward {backward:,.4g}, "
            f"optimizer {optimizer:,.4g}"
        )
    ours, peer = sides["ours"], sides.get("torch")
    if peer is None:
        return Medians(ours.median, None)
    print(f"{kind}: ours over torch {ratio(ours, peer)}")
    return Medians(ours.median, peer.median)


def rates(turns: Mapping[Kind, Sequence[Turn]], kind: str) -> Medians:
    """Return the rates of the largest product, measured in the same turns, in GFLOP/s."""
    ours = statistics.median(turn.rate for turn in turns[kind, "ours"]) / 1e9
    if (kind, "torch") not in turns:
        return Medians(ours, None)
    return Medians(ours, statistics.median(turn.rate for turn in turns[kind, "torch"]) / 1e9)


def compared(
    turns: Mapping[Kind, Sequence[Turn]], profile: Profile, tokens: int, sizes: Mapping[str, int]
) -> Iterator[Result]:
    """Print how the sides compare on each world, and yield it as lines of the table."""
    for kind, size in sizes.items():
        ours, peer = show(turns, kind)
        # The limit: all operations of the step at the rate of its largest product, and nobody to talk to.
        limit = profile.step_flops / rates(turns, kind).ours / 1e6
        name, many = f"GPT step, {kind}", size * tokens * 1e3  # over milliseconds that makes tokens a second
        yield result(name, "ms", ours, peer, limit)
        yield result(
            name, "tokens/s", many / ours, None if peer is None else many / peer, many / limit, more=True
        )


def explained(
    turns: Mapping[Kind, Sequence[Turn]], profile: Profile, task: Task, kind: str, step: float
) -> Iterator[Result]:
    """Print where the time of a step of one rank goes, and yield what can be told in a line."""
    calls, product = show(turns, CALLS), rates(turns, kind)
    share = profile.products / profile.seconds
    shape = "x".join(map(str, task.product))
    giga = profile.step_flops / 1e9
    print(
        f"\nWhere the time goes, in ms (a profiled step is {profile.seconds * 1e3 / step:.3f} of the above):",
        profile,
        "",
        f"Matrix products (np.matmul) are {share:.1%} of the step, "
        f"at {profile.product_flops / profile.products / 1e9:.1f} GFLOP/s; "
        f"alone, the largest ({shape}) runs at {product.ours:.1f}.",
        f"The limit is {giga / product.ours * 1e3:,.4g} ms: all {giga:.3g} GFLOP of the step at that rate.",
        f"Python is {calls.ours:.3g} ms, {calls.ours / step:.1%} of the step: "
        "what the same calls take on next to no data.",
        sep="\n",
    )
    yield result(f"GPT step, {kind}: in matrix products", "%", 100 * share)
    yield result(f"GPT step, {kind}: Python", "ms", *calls)
    yield result(f"GPT step, {kind}: Python", "%", 100 * calls.ours / step)
    yield result(f"product {shape}", "GFLOP/s", *product)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and write the results."""
    made = parser(__doc__.splitlines()[0], rounds=7, steps=5)
    made.add_argument("--ranks", type=positive, nargs="+", default=[1, 2], help="world sizes (default 1 2)")
    options = made.parse_args(argv)
    task = TINY if options.tiny else FULL
    sides: list[Side] = ["ours", "torch"] if peer_present(options) else ["ours"]
    # One rank is always there: what is found out of a step is found out on it.
    sizes = {f"{n} rank{'s, DDP' if n > 1 else ''}": n for n in sorted({1, *options.ranks})}
    with ExitStack() as stack:
        teams: dict[Kind, Team] = {}
        for kind, size in sizes.items():
            teams |= enter(stack, kind, task, size, sides)
        teams |= enter(stack, CALLS, task.without_data(), 1, sides)
        turns: dict[Kind, list[Turn]] = {name: [] for name in teams}
        for _ in range(options.rounds):
            for name, team in teams.items():
                # Steps without data are short, so there can be more of them.
                turns[name].append(take_turn(team, options.steps * (10 if name[0] == CALLS else 1)))
        # Only now, so that no step that is compared is a profiled one.
        alone = next(iter(sizes))
        profile = teams[alone, "ours"].profile(options.steps)
    results = list(compared(turns, profile, task.tokens, sizes))
    write(options, [*results, *explained(turns, profile, task, alone, results[0]["ours"])])
    return 0


if __name__ == "__main__":
    sys.exit(main())
