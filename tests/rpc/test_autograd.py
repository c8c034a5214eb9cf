"""Backward over workers: the gradients of the same computation at home, in any interleaving."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from ranks import graphs, remote
from ranks.cluster import counts, here, store, stores
from shardwise import rpc
from shardwise.backend.array import Array
from shardwise.backend.errors import AutogradError, RpcTimeoutError
from shardwise.collectives import barrier, rank, world_size
from shardwise.rpc.autograd.contexts import Contexts
from shardwise.tensor import Context, Function
from shardwise.tensor.function import Gradients

TIGHT = {"rtol": 1e-12, "atol": 1e-12}


@pytest.fixture(autouse=True)
def fresh() -> None:
    stores.clear()


def contexts_left(simulation: rpc.Simulation) -> list[int]:
    return [agent.parts[Contexts].debug_info()["num_autograd_contexts"] for agent in simulation.agents]


def compare(plan: graphs.Plan, n: int, mode: Any = "smart") -> None:
    """Compute a plan over the workers and at home, and compare all gradients."""
    loss, leaf_grads, parameter_grads = graphs.at_home(plan, n, here())
    leaves = [graphs.leaf(i) for i in range(plan.leaves)]
    with rpc.autograd.context() as ctx:
        found = graphs.spread(plan, leaves)
        np.testing.assert_allclose(found.item(), loss, **TIGHT)
        rpc.autograd.backward(ctx, [found], mode=mode)
        mine = rpc.autograd.get_gradients(ctx)
        got = [mine.get(each) for each in leaves]
        got += [rpc.rpc_sync(w, graphs.gradient_here, (ctx,)) for w in range(n)]
    for have, want in zip(got, leaf_grads + parameter_grads, strict=True):
        assert (have is None) == (want is None)
        if have is not None:
            np.testing.assert_allclose(have.numpy(), want.numpy(), **TIGHT)
    assert all(each.grad is None for each in leaves)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_gradients_are_those_at_home_in_any_interleaving(n: int) -> None:
    for seed in range(100):
        simulation = rpc.Simulation(n, seed, loss=0.1, repeat=0.1)
        simulation.run(lambda _: graphs.set_parameter())
        simulation.run(lambda _, seed=seed: compare(graphs.draw(seed, n), n), ranks=[0])  # type: ignore[misc]
        assert contexts_left(simulation) == [0] * n, f"seed {seed}"


@pytest.mark.mpi(min_size=2)
def test_gradients_are_those_at_home_on_real_workers() -> None:
    stores.clear()
    rpc.init_rpc(f"w{rank()}")
    graphs.set_parameter()
    barrier()
    for seed in range(10):  # all of them drive at once
        compare(graphs.draw(1000 * rank() + seed, world_size()), world_size())
    rpc.shutdown(timeout=60)


def test_each_of_many_threads_has_a_context_of_its_own() -> None:
    def program(rank: int) -> None:
        for seed in range(3):
            compare(graphs.draw(seed, 3), 3)

    for seed in range(20):  # all workers drive at once
        simulation = rpc.Simulation(3, seed)
        simulation.run(lambda _: graphs.set_parameter())
        simulation.run(program)
        assert contexts_left(simulation) == [0] * 3


def test_gradients_have_the_same_bits_in_every_interleaving() -> None:
    plan = graphs.draw(3, 3, steps=12)
    seen = set()
    for seed in range(60):
        simulation = rpc.Simulation(3, seed)
        simulation.run(lambda _: graphs.set_parameter(np.float32))

        def program(_: int) -> bytes:
            leaves = [graphs.leaf(i, np.float32) for i in range(plan.leaves)]
            with rpc.autograd.context() as ctx:
                calls = [rpc.rpc_async(1 + i % 2, scaled_sum, (leaves[i % 3], i)) for i in range(6)]
                loss = graphs.spread(plan, leaves)
                for call in calls:
                    loss = loss + call.wait()
                rpc.autograd.backward(ctx, [loss])
                found = [rpc.rpc_sync(w, graphs.gradient_here, (ctx,)) for w in range(3)]
                mine = rpc.autograd.get_gradients(ctx)
                found += [mine[each] for each in leaves if each in mine]
                return b"".join(each.numpy().tobytes() for each in found if each is not None)

        seen.update(simulation.run(program, ranks=[0]))
    assert len(seen) == 1


def scaled_sum(x: sw.Tensor, i: int) -> sw.Tensor:
    """Use this worker's parameter, by way of another worker that uses its own."""
    y = x * store()["parameter"] / (i + 3)
    if here() == 1:
        y = rpc.rpc_sync(2, product, (y,)) + rpc.rpc_sync(0, product, (x,))
    return (y @ store()["parameter"]).sum()


def product(x: sw.Tensor) -> sw.Tensor:
    return x * store()["parameter"]


# ---- one thing at a time


def alone(program: Callable[[], Any], n: int = 2, **options: Any) -> Any:
    """Run a program on worker 0 of a simulation."""
    simulation = rpc.Simulation(n, **options)
    simulation.run(lambda _: graphs.set_parameter())
    result = simulation.run(lambda _: program(), ranks=[0])[0]
    assert contexts_left(simulation) == [0] * n
    counts(simulation)
    return result


def ones() -> sw.Tensor:
    return sw.ones(graphs.SIDE, graphs.SIDE, dtype=np.float64, requires_grad=True)


def test_a_result_that_is_not_used_does_not_hang() -> None:
    def program() -> Any:
        x = ones()
        with rpc.autograd.context() as ctx:
            rpc.rpc_sync(1, product, (x,))  # nobody needs it
            rpc.autograd.backward(ctx, [rpc.rpc_sync(1, product, (x,)).sum()])
            return rpc.autograd.get_gradients(ctx)[x].numpy()

    np.testing.assert_allclose(alone(program), graphs.value(1))


def test_fast_mode_gives_the_same_and_waits_for_unused_results() -> None:
    def program() -> Any:
        x = ones()
        with rpc.autograd.context() as ctx:
            rpc.autograd.backward(ctx, [rpc.rpc_sync(1, product, (x,)).sum()], mode="fast")
            found = rpc.autograd.get_gradients(ctx)[x].numpy()
        with rpc.autograd.context() as ctx:
            unused = rpc.rpc_sync(1, product, (x,))
            loss = rpc.rpc_sync(1, product, (x,)).sum()
            with pytest.raises(RpcTimeoutError):
                rpc.autograd.backward(ctx, [loss], mode="fast", timeout=30)
        del unused
        return found

    np.testing.assert_allclose(alone(program), graphs.value(1))


def test_retain_graph_adds_and_a_freed_graph_is_refused() -> None:
    def program() -> Any:
        x = ones()
        with rpc.autograd.context() as ctx:
            loss = rpc.rpc_sync(1, product, (x,)).sum()
            rpc.autograd.backward(ctx, [loss], retain_graph=True)
            rpc.autograd.backward(ctx, [loss])
            twice = rpc.autograd.get_gradients(ctx)[x].numpy()
            with pytest.raises(AutogradError, match="Pass retain_graph=True to the first call"):
                rpc.autograd.backward(ctx, [loss])
            return twice

    np.testing.assert_allclose(alone(program), 2 * graphs.value(1))


def test_hooks_run_once_and_before_the_gradients_add_up() -> None:
    def program() -> Any:
        x = ones()
        x.register_hook(lambda g: 2 * g)
        with rpc.autograd.context() as ctx:
            loss = (rpc.rpc_sync(1, product, (x,)) + rpc.rpc_sync(1, product, (x,))).sum()
            rpc.autograd.backward(ctx, [loss])
            return rpc.autograd.get_gradients(ctx)[x].numpy()

    np.testing.assert_allclose(alone(program), 4 * graphs.value(1))


def tensors(flags: list[bool]) -> list[sw.Tensor]:
    return [sw.ones(2, requires_grad=flag) for flag in flags]


def test_messages_may_mix_tensors_with_and_without_gradient() -> None:
    def program() -> list[bool]:
        with rpc.autograd.context():
            flags = [True, False, True]
            found = rpc.rpc_sync(1, tensors, (flags,))
            assert [each.node is not None for each in found] == flags
            return [each.requires_grad for each in found]

    assert alone(program) == [True, False, True]


def own_parameter() -> sw.Tensor:
    parameter: sw.Tensor = store()["parameter"]
    return parameter


def test_a_leaf_that_a_worker_returns_gets_its_gradient_there() -> None:
    def program() -> Any:
        with rpc.autograd.context() as ctx:
            w = rpc.rpc_sync(1, own_parameter)
            rpc.autograd.backward(ctx, [(w * w).sum()])
            assert rpc.autograd.get_gradients(ctx) == {}
            return rpc.rpc_sync(1, graphs.gradient_here, (ctx,)).numpy()

    np.testing.assert_allclose(alone(program), 2 * graphs.value(1))


def test_outside_of_a_context_no_graph_is_made() -> None:
    def program() -> None:
        y = rpc.rpc_sync(1, product, (ones(),))
        assert y.node is None

    alone(program)


class Faulty(Function):
    """Fails in its backward."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: Array) -> Array:
        return x.copy()

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        raise ValueError("simulated error in backward")


def faulty(x: sw.Tensor, path: list[int]) -> sw.Tensor:
    y: sw.Tensor = rpc.rpc_sync(path[0], faulty, (x, path[1:])) if path else Faulty.apply(x)
    return y + rpc.rpc_sync((here() + 1) % 3, product, (x,))


def test_an_error_anywhere_ends_it_everywhere() -> None:
    for seed in range(30):
        simulation = rpc.Simulation(3, seed, loss=0.1)
        simulation.run(lambda _: graphs.set_parameter())

        def program(_: int) -> None:
            x = ones()
            with rpc.autograd.context() as ctx:
                loss = rpc.rpc_sync(1, faulty, (x, [2, 0, 1, 2])).sum()
                with pytest.raises(ValueError, match="simulated error in backward"):
                    rpc.autograd.backward(ctx, [loss])
                rpc.autograd.backward(ctx, [rpc.rpc_sync(1, product, (x,)).sum()])  # the context goes on

        simulation.run(program, ranks=[0])
        passes = [agent.parts[Contexts].debug_info()["num_backward_passes"] for agent in simulation.agents]
        assert passes == [0] * 3
        assert contexts_left(simulation) == [0] * 3


def test_what_cannot_be_differentiated_is_refused() -> None:
    def program() -> None:
        x = ones()
        with rpc.autograd.context() as ctx:
            backward = rpc.autograd.backward
            with pytest.raises(AutogradError, match="contexts do not nest"), rpc.autograd.context():
                pass
            y = rpc.rpc_sync(1, product, (x,))
            with pytest.raises(AutogradError, match="No tensors provided for gradient computation"):
                backward(ctx, [])
            with pytest.raises(AutogradError, match="requires_grad not set on root 0"):
                backward(ctx, [y.detach().sum()])
            with pytest.raises(AutogradError, match="is not a scalar, all roots need to be scalar"):
                backward(ctx, [y])
            with pytest.raises(AutogradError, match="does not have a valid gradient function"):
                backward(ctx, [sw.ones(1, requires_grad=True)])
            with pytest.raises(TypeError, match="wanted a list of tensors"):
                backward(ctx, y.sum())  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="named by the number"):
                backward("ctx", [y.sum()])  # type: ignore[arg-type]
            with pytest.raises(AutogradError, match=r"call rpc\.autograd\.backward"):
                y.sum().backward()
        with pytest.raises(AutogradError, match=f"Could not find autograd context with id: {ctx}"):
            rpc.autograd.get_gradients(ctx)

    alone(program)


def test_an_rref_runs_backward_where_its_value_is() -> None:
    def program() -> Any:
        x = ones()
        with rpc.autograd.context() as ctx:
            y = rpc.remote(1, product, (x,))
            loss = y.remote().sum()
            loss.backward(ctx)
            with pytest.raises(AutogradError, match="give dist_autograd_ctx_id"):
                loss.backward()
            with pytest.raises(AutogradError, match="should contain a tensor"):
                rpc.remote(1, int).backward(ctx)
            return rpc.autograd.get_gradients(ctx)[x].numpy()

    np.testing.assert_allclose(alone(program), graphs.value(1))


def test_a_deep_chain_needs_no_deep_stack() -> None:
    def program() -> Any:
        x = ones()
        with rpc.autograd.context() as ctx:
            y = x
            for i in range(60):
                y = rpc.rpc_sync(i % 2, halved, (y,))
            rpc.autograd.backward(ctx, [y.sum()])
            return rpc.autograd.get_gradients(ctx)[x].numpy()

    np.testing.assert_allclose(alone(program), np.ones((3, 3)), rtol=1e-9)


def halved(x: sw.Tensor) -> sw.Tensor:
    return x * 0.5 + x * 0.5


def test_contexts_end_at_workers_that_others_have_told() -> None:
    def program() -> list[int]:
        with rpc.autograd.context() as ctx:
            rpc.rpc_sync(
                1, graphs.wander, (graphs.Step("add", (0, 1), (), "sync", False), (2, 3), ones(), ones())
            )
            return [ctx]

    simulation = rpc.Simulation(4, 3, loss=0.3)
    simulation.run(lambda _: graphs.set_parameter())
    simulation.run(lambda _: program(), ranks=[0])
    assert contexts_left(simulation) == [0] * 4


def test_threads_of_one_process_are_workers_too() -> None:
    def program(rank: int) -> None:
        graphs.set_parameter()
        barrier()
        compare(graphs.draw(5, 3), 3)

    remote.on_workers(program, 3)
