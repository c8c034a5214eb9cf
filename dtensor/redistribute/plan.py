"""`plan`: how to get from one layout to another, as a list of steps; a pure function."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.array import Shape
from shardwise.backend.errors import LayoutError
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.redistribute.box import boxes_by_rank, common
from shardwise.dtensor.redistribute.cost import LinkCosts, host_key, host_numbers, link_costs
from shardwise.dtensor.redistribute.ground import Ground, Move
from shardwise.dtensor.redistribute.move import lacking
from shardwise.dtensor.redistribute.reduction import reduced
from shardwise.dtensor.redistribute.search import cheapest
from shardwise.dtensor.redistribute.state import State, layout_of, state_of
from shardwise.dtensor.redistribute.step import Step

__all__ = ["Plan", "plan"]

_MANY = 64  # ranks of which the bytes of an exchange are the mean


class Plan:
    """The steps from one layout to another; equal on all ranks. Made by `plan`.

    Attributes
    ----------
    source, target : Layout
    steps : tuple of Step
        Empty where every rank has what it is to have.
    bytes : int
        What a rank sends at least.
    cost : float
        Seconds, predicted.
    is_free : bool
        Whether nothing is sent.
    aliases : bool
        Whether the result is the local array itself, or a view of it. Otherwise it is a new array.
    """

    __slots__ = ("aliases", "bytes", "cost", "is_free", "source", "steps", "target", "tasks")

    def __init__(self, source: Layout, target: Layout, steps: tuple[Step, ...]) -> None:
        self.source = source
        self.target = target
        self.steps = steps
        self.bytes = sum(step.bytes for step in steps)
        self.cost = sum(step.seconds for step in steps)
        self.is_free = not any(step.communicates for step in steps)
        self.aliases = all(step.op == "slice" for step in steps)
        self.tasks: dict[int, object] = {}

    def __len__(self) -> int:
        return len(self.steps)

    def __str__(self) -> str:
        """Return one line per step: op, axes, what becomes what, bytes, predicted time."""
        return "\n".join(map(str, self.steps)) or f"nothing to do: {self.source} is {self.target}"

    def __repr__(self) -> str:
        return f"Plan({self.source} -> {self.target}: {len(self.steps)} steps, {self.bytes} bytes)"


def plan(source: Layout, target: Layout, *, cost: LinkCosts | None = None) -> Plan:
    """Find the cheapest steps from one layout of a tensor to another.

    Parameters
    ----------
    source, target : Layout
        Of equal shape and dtype. The meshes may differ, and have ranks that the other one has not.
    cost : LinkCosts, optional
        What links cost; by default what `set_link_costs` has set here, else constants.

    Returns
    -------
    Plan
        The same object as long as the source layout lives and the costs are the same.

    Raises
    ------
    LayoutError
        The tensors differ, or one reduction would have to become another.

    Examples
    --------
    >>> from shardwise.mesh import DeviceMesh
    >>> from shardwise.collectives import run_threads
    >>> def show(rank):
    ...     mesh = DeviceMesh("cpu", [[0, 1], [2, 3]], ("dp", "tp"))
    ...     source = Layout(mesh, ["P", "S(0)"], (16, 16), "float32")
    ...     return str(plan(source, source.replicated()))
    >>> print(run_threads(show, 4)[0])
    all_reduce over dp: P S(0) -> R S(0), 512 bytes, 7.9 us
    all_gather over tp: R S(0) -> R R, 512 bytes, 7.3 us
    """
    costs = link_costs(source.mesh) if cost is None else cost
    key = target, costs, host_key()
    found = source.plans.get(key)
    if found is None:
        found = source.plans[key] = _make(source, target, costs, host_numbers())
    made: Plan = found
    return made


def _make(source: Layout, target: Layout, costs: LinkCosts, hosts: tuple[int, ...]) -> Plan:
    if (source.shape, source.dtype) != (target.shape, target.dtype):
        raise LayoutError(
            f"cannot redistribute {source!r} to {target!r}: a redistribution changes neither shape nor "
            f"dtype; use reshape or astype for that."
        )
    if source.mesh.shape == target.mesh.shape and (source.mesh.mesh == target.mesh.mesh).all():
        return Plan(source, target, _steps(source, target, costs, hosts))
    return Plan(source, target, _steps_between(source, target, costs, hosts))


def _steps(source: Layout, target: Layout, costs: LinkCosts, hosts: tuple[int, ...]) -> tuple[Step, ...]:
    """Plan on one mesh."""
    start, goal = state_of(source), state_of(target)
    scale = _scale(source, target, start, goal)
    here = start if scale is None else scale.state
    way = [] if scale is None else [scale]
    ground = Ground(source, goal, costs, hosts)
    goal_terms = set(goal.terms)
    way += cheapest(
        here, ground, lambda state: state.cuts == goal.cuts and goal_terms.issuperset(state.terms)
    )
    here = way[-1].state if way else here
    made = tuple([term for term in goal.terms if term not in here.terms])
    if made:
        way.append(Move("partition", goal, tuple([axis for axis, _ in made]), None, None, made[0][1]))
    return _spelled(source, target, way)


def _scale(source: Layout, target: Layout, start: State, goal: State) -> Move | None:
    """Turn sums into means along an axis, or back; nothing else turns into another reduction."""
    wanted = dict(goal.terms)
    changed = [(axis, op, wanted[axis]) for axis, op in start.terms if wanted.get(axis, op) != op]
    for axis, op, other in changed:
        if {op, other} != {"sum", "avg"}:
            raise LayoutError(
                f"cannot redistribute {source!r} to {target!r}: Partial({op}) on axis {_name(source, axis)} "
                f"does not become Partial({other}) without its value; redistribute to Replicate() first."
            )
    if not changed:
        return None
    terms = tuple([(axis, wanted.get(axis, op)) for axis, op in start.terms])
    return Move("scale", start._replace(terms=terms), tuple([axis for axis, _, _ in changed]))


def _steps_between(
    source: Layout, target: Layout, costs: LinkCosts, hosts: tuple[int, ...]
) -> tuple[Step, ...]:
    """Plan from one mesh to another: reduce on the first, exchange, and make terms on the second."""
    start, goal = state_of(source), state_of(target)
    steps: tuple[Step, ...] = ()
    if start.terms:
        steps = _spelled(source, None, [reduced(start, Ground(source, start, costs, hosts))])
    before = steps[-1].target if steps else source
    whole = layout_of(goal._replace(terms=()), target) if goal.terms else target
    crossing = _crossing(before, whole, costs, hosts)
    if crossing is not None:
        steps += (crossing,)
    if goal.terms:
        axes, op = tuple([axis for axis, _ in goal.terms]), goal.terms[0][1]
        steps += (Step("partition", whole, target, axes, None, None, op),)
    return steps


def _crossing(source: Layout, target: Layout, costs: LinkCosts, hosts: tuple[int, ...]) -> Step | None:
    """Give the step between meshes; None where every rank has what it is to have already."""
    held, wanted = boxes_by_rank(source), boxes_by_rank(target)
    if held == wanted and _shapes(source) == _shapes(target):
        return None
    lacking, most = 0, 0
    for rank, box in wanted.items():
        own = held.get(rank)
        both = None if own is None else common(own, box)
        lack = math.prod(box.shape) - (0 if both is None else math.prod(both.shape))
        lacking, most = lacking + lack, max(lack, most)
    if not lacking:
        return Step("slice", source, target)
    ranks = set(held) | set(wanted)
    far = bool(hosts) and len({hosts[rank] for rank in ranks}) > 1
    itemsize = source.dtype.itemsize
    seconds = costs.link(far).exchange(most * itemsize, len(ranks))
    return Step("exchange", source, target, bytes=lacking * itemsize // len(ranks), seconds=seconds)


def _shapes(layout: Layout) -> dict[int, Shape]:
    ranks = layout.mesh.mesh
    return {int(ranks[at]): layout.local_shape(at) for at in np.ndindex(*ranks.shape)}


def _spelled(source: Layout, target: Layout | None, way: list[Move]) -> tuple[Step, ...]:
    """Make steps of moves; the last one ends at the target itself."""
    steps = []
    before = source
    for place, move in enumerate(way, 1):
        after = target if target is not None and place == len(way) else layout_of(move.state, source)
        if move.op == "exchange":
            missing = lacking(before, after, move.axes, _MANY)
            move = move._replace(bytes=sum(missing) // len(missing))
        steps.append(Step(move.op, before, after, *move[2:]))
        before = after
    return tuple(steps)


def _name(layout: Layout, axis: int) -> str:
    names = layout.mesh.mesh_dim_names
    return repr(names[axis]) if names else str(axis)
