"""Several threads at one tape: gradients are not lost, and one walk does not see another's choices."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import shardwise as sw
from shardwise.tensor import grad


def together(*jobs: Callable[[], None]) -> None:
    """Run jobs in threads that start at once; raise what one of them raised."""
    start = threading.Barrier(len(jobs))
    raised: list[Exception] = []

    def run(job: Callable[[], None]) -> None:
        start.wait(10.0)
        try:
            job()
        except Exception as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def test_backwards_that_meet_at_a_leaf_all_count() -> None:
    leaf = sw.tensor(np.ones(200_000), requires_grad=True)  # NumPy lets go of the interpreter for so many

    def job() -> None:
        for _ in range(6):
            (leaf * 1.0).sum().backward()

    together(*[job] * 4)
    assert leaf.grad is not None
    np.testing.assert_array_equal(leaf.grad.data, 24.0)


def test_gradients_of_different_inputs_of_one_op() -> None:
    both = threading.Barrier(2)

    class Meeting(sw.Function):
        signature = "*"

        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save(a, b)
            return a * b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            a, b = ctx.saved
            both.wait(10.0)  # both threads are inside
            need = ctx.need
            both.wait(10.0)
            return g * b if need[0] else None, g * a if need[1] else None

    a, b = sw.tensor(2.0, requires_grad=True), sw.tensor(3.0, requires_grad=True)
    out = Meeting.apply(a, b)
    found: dict[str, float] = {}

    def one(name: str, tensor: sw.Tensor) -> Callable[[], None]:
        def job() -> None:
            found[name] = grad(out, tensor, retain_graph=True)[0].item()

        return job

    together(one("a", a), one("b", b))
    assert found == {"a": 3.0, "b": 2.0}
    assert out.node is not None
    assert out.node.need == (True, True)


def test_threads_do_not_share_a_mode() -> None:
    x = sw.tensor(np.ones(3), requires_grad=True)
    recorded: list[bool] = []

    def silent() -> None:
        with sw.no_grad():
            recorded.extend((x * 2.0).requires_grad for _ in range(50))

    def loud() -> None:
        recorded.extend(not (x * 2.0).requires_grad for _ in range(50))

    together(silent, loud)
    assert not any(recorded)
