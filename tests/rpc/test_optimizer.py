"""The distributed optimizer does the steps that one at home would do; remote modules give parameters."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from ranks import graphs, remote
from ranks.cluster import EMPTY, counts, store, stores
from shardwise import nn, optim, rpc
from shardwise.backend.errors import ArgumentError, ModuleError
from shardwise.collectives import barrier, get_group, rank, world_size
from shardwise.optim.lr_scheduler import StepLR
from shardwise.parallel import DistributedDataParallel
from shardwise.rpc.autograd.message_id import current_chain

TIGHT = {"rtol": 1e-12, "atol": 1e-14}


@pytest.fixture(autouse=True)
def fresh() -> None:
    stores.clear()


def build(seed: int) -> nn.Module:
    sw.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 5, dtype=np.float64), nn.Tanh(), nn.Linear(5, 4, dtype=np.float64))


def batch(step: int) -> sw.Tensor:
    return sw.tensor(np.random.default_rng(step).standard_normal((6, 4)))


def at_home(optimizer: Callable[..., Any], steps: int, **options: Any) -> list[Any]:
    """Train two blocks in one place; gives their parameters."""
    blocks = [build(1), build(2)]
    params = [p for block in blocks for p in block.parameters()]
    opt = optimizer(params, **options)
    schedule = StepLR(opt, step_size=2, gamma=0.5)
    for step in range(steps):
        opt.zero_grad()
        (blocks[1](blocks[0](batch(step))) ** 2).mean().backward()
        opt.step()
        schedule.step()
    return [p.detach().numpy() for p in params]


@pytest.mark.parametrize("optimizer", [optim.SGD, optim.AdamW])
def test_steps_are_those_of_one_optimizer(optimizer: Any) -> None:
    options = {"lr": 0.05, "momentum": 0.9} if optimizer is optim.SGD else {"lr": 0.05}

    def program(_: int) -> list[Any]:
        blocks = [rpc.RemoteModule(f"worker{w}", build, (w,)) for w in (1, 2)]
        params = [rref for block in blocks for rref in block.remote_parameters()]
        opt = rpc.DistributedOptimizer(optimizer, params, **options)
        schedule = rpc.DistributedScheduler(opt, StepLR, step_size=2, gamma=0.5)
        for step in range(5):
            with rpc.autograd.context() as ctx:
                loss = (blocks[1](blocks[0](batch(step))) ** 2).mean()
                rpc.autograd.backward(ctx, [loss])
                opt.step(ctx)
                schedule.step()
        assert schedule.get_last_lr() == {"worker1": [0.0125], "worker2": [0.0125]}
        return [each.to_here().detach().numpy() for each in params]

    simulation = rpc.Simulation(3, 2, loss=0.1)
    for got, want in zip(
        simulation.run(program, ranks=[0])[0], at_home(optimizer, 5, **options), strict=True
    ):
        np.testing.assert_allclose(got, want, **TIGHT)
    assert counts(simulation) == [EMPTY] * 3


def test_state_is_saved_and_taken_over() -> None:
    def train(opt: rpc.DistributedOptimizer, block: rpc.RemoteModule, steps: range) -> None:
        for step in steps:
            with rpc.autograd.context() as ctx:
                rpc.autograd.backward(ctx, [(block(batch(step)) ** 2).mean()])
                opt.step(ctx)

    def program(_: int) -> None:
        ends = []
        for pause in (False, True):
            block = rpc.RemoteModule("worker1", build, (1,))
            params = block.remote_parameters()
            opt = rpc.DistributedOptimizer(optim.AdamW, params, lr=0.1)
            train(opt, block, range(3))
            if pause:
                state = pickle.loads(pickle.dumps(opt.state_dict()))
                opt = rpc.DistributedOptimizer(optim.AdamW, params, lr=0.5)
                opt.load_state_dict(state)
                with pytest.raises(ArgumentError, match="name the workers as they were"):
                    opt.load_state_dict({"nobody": state["worker1"]})
            train(opt, block, range(3, 6))
            ends.append([each.to_here().detach().numpy() for each in params])
        for a, b in zip(*ends, strict=True):
            np.testing.assert_array_equal(a, b)

    rpc.Simulation(2, 1).run(program, ranks=[0])


def spoil(seed: int) -> nn.Module:
    module = build(seed)
    next(iter(module.parameters())).grad = sw.ones(5, 4, dtype=np.float64)
    return module


def grads(module: Any) -> list[bool]:
    return [p.grad is None for p in module.local_value().parameters()]


def test_params_without_gradient_stay_and_grad_is_left_alone() -> None:
    def program(_: int) -> None:
        used, unused = rpc.RemoteModule("worker1", spoil, (1,)), rpc.RemoteModule("worker2", build, (2,))
        params = used.remote_parameters() + unused.remote_parameters()
        groups = [{"params": params[:4], "lr": 0.1}, {"params": params[4:]}]
        opt = rpc.DistributedOptimizer(optim.SGD, groups, lr=1.0)
        before = [each.to_here().detach().numpy() for each in params]
        with rpc.autograd.context() as ctx:
            rpc.autograd.backward(ctx, [used(batch(0)).sum()])
            opt.step(ctx)
        after = [each.to_here().detach().numpy() for each in params]
        assert [np.array_equal(a, b) for a, b in zip(before, after, strict=True)] == [False] * 4 + [True] * 4
        module = used.get_module_rref()
        assert rpc.rpc_sync(1, grads, (module,)) == [False, True, True, True]
        opt.zero_grad()
        assert rpc.rpc_sync(1, grads, (module,)) == [True] * 4

    rpc.Simulation(3, 1).run(program, ranks=[0])


def test_errors_of_owners_are_raised() -> None:
    def program(_: int) -> None:
        params = rpc.RemoteModule("worker1", build, (1,)).remote_parameters()
        with pytest.raises(ValueError, match="lr"):
            rpc.DistributedOptimizer(optim.SGD, params, lr=-1.0)
        with pytest.raises(ArgumentError, match="got no parameters"):
            rpc.DistributedOptimizer(optim.SGD, [], lr=1.0)
        with pytest.raises(ArgumentError, match="wanted RRefs of parameters"):
            rpc.DistributedOptimizer(optim.SGD, [sw.ones(1)], lr=1.0)  # type: ignore[list-item]
        opt = rpc.DistributedOptimizer(optim.SGD, params, lr=1.0)
        with pytest.raises(RuntimeError, match="Could not find autograd context with id: 5"):
            opt.step(5)

    rpc.Simulation(2, 1).run(program, ranks=[0])


def no_module() -> int:
    return 5


def test_remote_modules() -> None:
    def program(_: int) -> None:
        module = rpc.RemoteModule("rank:1/cpu", build, (3,))
        assert (module.on, module.device) == ("worker1", "cpu")
        want = build(3)(batch(0)).detach().numpy()
        np.testing.assert_array_equal(module.forward(batch(0)).detach().numpy(), want)
        np.testing.assert_array_equal(module.forward_async(batch(0)).wait().detach().numpy(), want)
        assert len(module.remote_parameters()) == 4
        assert module.remote_parameters(recurse=False) == []
        assert rpc.rpc_sync(2, through, (module,)).shape == (6, 4)
        assert repr(module) == "RemoteModule(on=worker1, device=cpu)"
        with pytest.raises(ModuleError, match="Method ``state_dict`` not supported for RemoteModule"):
            module.state_dict()
        with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
            _ = module.nonsense
        with pytest.raises(ModuleError, match="no_module gave a int; wanted something that makes a Module"):
            rpc.RemoteModule("worker1", no_module)  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match="wanted 'NAME/DEVICE'"):
            rpc.RemoteModule("worker1/", build)

    simulation = rpc.Simulation(3, 1)
    simulation.run(program, ranks=[0])
    assert counts(simulation) == [EMPTY] * 3


def through(module: rpc.RemoteModule) -> sw.Tensor:
    result: sw.Tensor = module(batch(1))
    return result


def test_several_trainers_step_one_owner_one_after_the_other() -> None:
    def program(rank: int) -> None:
        if rank == 0:
            store()["module"] = nn.Linear(4, 1, bias=False, dtype=np.float64)
            store()["module"].weight.data[...] = 0
        barrier()
        weight = rpc.rpc_sync("w0", weight_of_server)
        opt = rpc.DistributedOptimizer(optim.SGD, [weight], lr=1.0)
        for _ in range(10):
            with rpc.autograd.context() as ctx:
                loss = rpc.rpc_sync("w0", run_server, (sw.ones(1, 4, dtype=np.float64),)).sum()
                rpc.autograd.backward(ctx, [loss])
                opt.step(ctx)
        barrier()
        assert weight.to_here().detach().numpy().tolist() == [[-30.0] * 4]

    remote.on_workers(program, 3)


def step_elsewhere(weight: Any) -> None:
    """Be another trainer: one step on worker 0's parameter."""
    opt = rpc.DistributedOptimizer(optim.SGD, [weight], lr=1.0)
    with rpc.autograd.context() as ctx:
        rpc.autograd.backward(ctx, [rpc.rpc_sync(0, scale, (graphs.leaf(0),)).sum()])
        opt.step(ctx)


def test_a_step_leaves_the_graphs_of_other_trainers_alone() -> None:
    def program(_: int) -> None:
        store()["parameter"] = graphs.parameter(0)
        weight = rpc.RRef(store()["parameter"])
        x = graphs.leaf(1)
        with rpc.autograd.context() as ctx:
            loss = (scale(x) * x).sum()
            rpc.rpc_sync(1, step_out_of_context, (weight,))
            rpc.autograd.backward(ctx, [loss])
            got = rpc.autograd.get_gradients(ctx)[x].numpy()
        np.testing.assert_allclose(got, 2 * x.detach().numpy() * graphs.value(0), **TIGHT)
        assert not np.allclose(weight.local_value().detach().numpy(), graphs.value(0))

    rpc.Simulation(2, 1).run(program, ranks=[0])


def step_out_of_context(weight: Any) -> None:
    """Leave the context of the caller, as another program would be out of it."""
    token = current_chain.set(None)
    try:
        step_elsewhere(weight)
    finally:
        current_chain.reset(token)


def weight_of_server() -> Any:
    return rpc.RRef(store()["module"].weight)


def run_server(x: sw.Tensor) -> sw.Tensor:
    result: sw.Tensor = store()["module"](x)
    return result


@pytest.mark.mpi(min_size=3)
def test_ddp_averages_the_gradients_of_a_context() -> None:
    """Trainers have a dense layer in DDP, and a table on the last rank."""
    stores.clear()
    n = world_size()
    trainers = get_group(range(n - 1))
    rpc.init_rpc(f"w{rank()}")
    store()["parameter"] = graphs.parameter(n - 1)
    barrier()
    if rank() < n - 1:
        sw.manual_seed(0)
        dense = nn.Linear(3, 2, dtype=np.float64)
        ddp = DistributedDataParallel(dense, process_group=trainers)
        kept = sw.full((2, 3), 7.0, dtype=np.float64)
        dense.weight.grad = kept
        x = sw.tensor(np.random.default_rng(rank()).standard_normal((3, 3)))
        for _ in range(2):
            with rpc.autograd.context() as ctx:
                y = rpc.rpc_sync(f"w{n - 1}", scale, (x,))
                rpc.autograd.backward(ctx, [ddp(y).square().sum()])
                found = rpc.autograd.get_gradients(ctx)
                got = [found[p].numpy() for p in dense.parameters()]
                table = rpc.rpc_sync(f"w{n - 1}", graphs.gradient_here, (ctx,))
            assert dense.weight.grad.numpy().tolist() == [[7.0] * 3] * 2
            for have, want in zip(got, average(dense, n - 1), strict=True):
                np.testing.assert_allclose(have, want, rtol=1e-12)
            assert table is not None
    barrier()
    rpc.shutdown(timeout=60)


def scale(x: sw.Tensor) -> sw.Tensor:
    result: sw.Tensor = x * store()["parameter"]
    return result


def average(dense: nn.Linear, trainers: int) -> list[Any]:
    """The mean of the gradients of all trainers, computed at home."""
    sums: list[Any] = [0.0, 0.0]
    for each in range(trainers):
        x = sw.tensor(np.random.default_rng(each).standard_normal((3, 3)))
        own = nn.Linear(3, 2, dtype=np.float64)
        own.load_state_dict(dense.state_dict())
        own(x * graphs.parameter(trainers)).square().sum().backward()
        for i, p in enumerate(own.parameters()):
            assert p.grad is not None
            sums[i] = sums[i] + p.grad.numpy() / trainers
    return sums
