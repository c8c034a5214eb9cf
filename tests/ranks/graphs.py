"""Random computations that wander over workers, and the same ones at home."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np

import shardwise as sw
from ranks.cluster import here, store
from shardwise import rpc

OPS = ("mul", "add", "matmul", "sin", "tanh", "sub")
SIDE = 3


class Step(NamedTuple):
    """One op: on which values, after passing which workers, by which way; with their parameter or without."""

    op: str
    inputs: tuple[int, ...]
    path: tuple[int, ...]
    way: str
    parameter: bool


class Plan(NamedTuple):
    """A computation: leaves, steps that each add a value, and the values whose sum is the loss."""

    leaves: int
    steps: tuple[Step, ...]
    roots: tuple[int, ...]


def draw(seed: int, n: int, steps: int = 8) -> Plan:
    """Draw a computation for `n` workers."""
    rng = random.Random(seed)
    leaves = 3
    drawn = []
    for i in range(steps):
        op = rng.choice(OPS)
        inputs = tuple(rng.randrange(leaves + i) for _ in range(2))
        path = tuple(rng.randrange(n) for _ in range(rng.randrange(4)))
        drawn.append(Step(op, inputs, path, rng.choice(("sync", "async", "remote")), rng.random() < 0.5))
    roots = tuple(sorted(rng.sample(range(leaves, leaves + steps), 3)))
    return Plan(leaves, tuple(drawn), roots)


def apply(op: str, x: Any, y: Any) -> Any:
    match op:
        case "mul":
            return x * y
        case "add":
            return x + y
        case "sub":
            return x - y
        case "matmul":
            return x @ y / SIDE
        case "sin":
            return sw.sin(x) + y
        case _:
            return sw.tanh(y) * x


def parameter(worker: int, dtype: Any = np.float64) -> sw.Tensor:
    """The parameter of a worker, the same wherever it is made."""
    data = np.random.default_rng(100 + worker).standard_normal((SIDE, SIDE)).astype(dtype)
    return sw.tensor(data, requires_grad=True)


def value(worker: int) -> Any:
    """The values of a worker's parameter."""
    return parameter(worker).detach().numpy()


def leaf(i: int, dtype: Any = np.float64) -> sw.Tensor:
    data = np.random.default_rng(i).standard_normal((SIDE, SIDE)).astype(dtype)
    return sw.tensor(data, requires_grad=True)


def set_parameter(dtype: Any = np.float64) -> None:
    store()["parameter"] = parameter(here(), dtype)


def wander(step: Step, path: tuple[int, ...], x: Any, y: Any) -> Any:
    """Do a step at the end of its path."""
    if path:
        return call(step, path, x, y).wait() if step.way != "remote" else call(step, path, x, y).to_here()
    z = apply(step.op, x, y)
    return z * store()["parameter"] if step.parameter else z


def call(step: Step, path: tuple[int, ...], x: Any, y: Any) -> Any:
    call = rpc.remote if step.way == "remote" else rpc.rpc_async
    return call(path[0], wander, (step, path[1:], x, y))


def spread(plan: Plan, leaves: list[sw.Tensor]) -> sw.Tensor:
    """Do the computation over the workers; calls that can run at once do."""
    values: list[Any] = list(leaves)
    for step in plan.steps:
        x, y = (fetched(values, i) for i in step.inputs)
        values.append(call(step, step.path, x, y) if step.path else wander(step, (), x, y))
    return total(plan, [fetched(values, i) for i in range(len(values))])


def fetched(values: list[Any], i: int) -> sw.Tensor:
    value = values[i]
    if isinstance(value, rpc.Future):
        value = values[i] = value.wait()
    elif isinstance(value, rpc.RRef):
        value = values[i] = value.to_here()
    result: sw.Tensor = value
    return result


def total(plan: Plan, values: list[Any]) -> Any:
    loss = values[plan.roots[0]].sum()
    for i in plan.roots[1:]:
        loss = loss + values[i].sum()
    return loss


def at_home(plan: Plan, n: int, driver: int) -> tuple[float, list[Any], list[Any]]:
    """Do it in one place: the loss, the gradients of the leaves, and those of the parameters."""
    leaves, parameters = [leaf(i) for i in range(plan.leaves)], [parameter(w) for w in range(n)]
    values: list[Any] = list(leaves)
    for step in plan.steps:
        z = apply(step.op, values[step.inputs[0]], values[step.inputs[1]])
        last = step.path[-1] if step.path else driver
        values.append(z * parameters[last] if step.parameter else z)
    loss = total(plan, values)
    loss.backward()
    return loss.item(), [each.grad for each in leaves], [each.grad for each in parameters]


def gradient_here(ctx: int) -> Any:
    """The gradient of this worker's parameter, None for none."""
    try:
        return rpc.autograd.get_gradients(ctx).get(store()["parameter"])
    except RuntimeError:  # the computation has not come here
        return None
