"""The backward engine: counting, accumulation, hooks, sinks, partial backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise.errors import AutogradError, ShapeError
from shardwise.tensor import GraphTask, Tensor, current_task, grad


def double(g: Tensor) -> Tensor:
    return g * 2.0


def leaf(*values: float) -> Tensor:
    return sw.tensor(list(values), dtype=np.float64, requires_grad=True)


def test_gradients_accumulate_until_they_are_cleared() -> None:
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    (3.0 * x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [5.0, 7.0]
    x.grad = None
    x.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_a_diamond_is_walked_once() -> None:
    class Counted(sw.Function):
        signature = "*"
        calls = 0

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            Counted.calls += 1
            return (g * 2.0,)

    x = leaf(1.0)
    y = Counted.apply(x)
    z = y
    for _ in range(20):  # 2 ** 20 paths
        z = z + z
    z.backward()
    assert Counted.calls == 1
    assert x.grad is not None
    assert x.grad.item() == 2.0 * 2**20


def test_deep_graphs_do_not_recurse() -> None:
    x = leaf(1.0)
    y = x
    for _ in range(20_000):
        y = y + 1.0
    y.backward()
    assert x.grad is not None
    assert x.grad.item() == 1.0


def test_leaves_do_not_share_their_gradients_memory() -> None:
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (a + b).sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    assert not np.shares_memory(a.grad.data, b.grad.data)
    a.grad.mul_(5.0)
    assert b.grad.tolist() == [1.0, 1.0]


def test_a_gradient_never_aliases_what_was_saved_or_given() -> None:
    x, y, seed = leaf(1.0, 2.0), leaf(3.0, 4.0), np.array([1.0, 1.0])

    class Swap(sw.Function):
        signature = "*"

        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save(a, b)
            return a * b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            a, b = ctx.saved
            return b, a

    Swap.apply(x, y).backward(seed)
    assert x.grad is not None
    x.grad.zero_()
    assert y.tolist() == [3.0, 4.0]
    kept = np.array([1.0, 1.0])

    class Constant(sw.Function):
        signature = "*"

        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            ctx.slope = kept
            return a * 1.0

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return (ctx.slope,)

    for _ in range(2):
        Constant.apply(x).sum().backward()
    assert kept.tolist() == [1.0, 1.0]
    z = leaf(1.0, 1.0)
    z.backward(seed)
    assert z.grad is not None
    z.grad.zero_()
    assert seed.tolist() == [1.0, 1.0]


def test_hooks_see_the_complete_gradient_and_may_replace_it() -> None:
    seen = []
    x = leaf(2.0)
    y = x * 3.0
    y.register_hook(lambda g: seen.append(g.item()))  # type: ignore[func-returns-value]
    handle = x.register_hook(lambda g: g * 10.0)
    (y + y * y).backward()
    assert seen == [1.0 + 2 * 6.0]
    assert x.grad is not None
    assert x.grad.item() == 390.0
    handle.remove()
    x.grad = None
    (x * 1.0).backward()
    assert x.grad.item() == 1.0
    first, second = (x.register_hook(double) for _ in range(2))
    first.remove()
    first.remove()  # takes away its own registration only, and once
    x.grad = None
    (x * 1.0).backward()
    assert x.grad.item() == 2.0
    second.remove()


def test_post_accumulate_hooks_fire_once_per_backward() -> None:
    fired: list[float] = []
    x = leaf(2.0)
    x.register_post_accumulate_grad_hook(lambda t: fired.append(t.grad.item()))  # type: ignore[union-attr]
    (x * x + x * 3.0 + x).backward()
    assert fired == [8.0]
    (x * 1.0).backward()
    assert fired == [8.0, 9.0]


def test_callbacks_run_when_the_task_ends() -> None:
    x = leaf(1.0)
    ended: list[str] = []

    def hook(_: Tensor) -> None:
        task = current_task()
        assert task is not None
        task.on_finish(lambda: ended.append("finished"))
        ended.append("leaf")

    x.register_post_accumulate_grad_hook(hook)
    (x * 2.0).backward()
    assert ended == ["leaf", "finished"]
    assert current_task() is None


def test_a_sink_receives_written_and_added_gradients() -> None:
    flat = np.full(8, np.nan)
    w, b = sw.tensor(np.ones((2, 3)), requires_grad=True), sw.tensor(np.zeros(2), requires_grad=True)
    w.grad_into(flat[:6].reshape(2, 3))
    b.grad_into(flat[6:])
    x = sw.tensor(np.arange(6.0).reshape(2, 3))
    loss = (sw.nn.functional.linear(x, w, b) + (w * w).sum()).sum()
    loss.backward()
    expected = x.data.sum(0) + 4 * 2 * w.data
    np.testing.assert_array_equal(flat, [*expected.ravel(), 2.0, 2.0])
    assert w.grad is not None
    assert w.grad.data is w.sink
    (w * 1.0).sum().backward()  # adds
    np.testing.assert_array_equal(flat[:6].reshape(2, 3), expected + 1.0)
    w.grad = None
    (w * 2.0).sum().backward()  # writes
    np.testing.assert_array_equal(flat[:6], 2.0)


def test_a_sink_with_a_hook_gets_what_the_hook_returns() -> None:
    sink = np.zeros(1)
    x = leaf(3.0)
    x.grad_into(sink)
    x.register_hook(lambda g: g * 2.0)
    (x * x).backward()
    assert sink.tolist() == [12.0]
    with pytest.raises(
        ShapeError, match=r"a gradient sink must have shape \(1,\) and dtype float64, got \(2,\)"
    ):
        x.grad_into(np.zeros(2))


def test_unused_outputs_count_as_zero() -> None:
    x = leaf(1.0, 2.0, 3.0)
    first, _ = x.split([1, 2])
    first.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 0.0, 0.0]


def test_functions_are_asked_only_for_what_is_needed() -> None:
    needs: list[tuple[bool, ...]] = []

    class Asked(sw.Function):
        signature = "*"

        @staticmethod
        def forward(ctx: Any, a: Any, b: Any, c: Any) -> Any:
            needs.append(ctx.need)
            return a + b + c

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            needs.append(ctx.need)
            return tuple(g if need else None for need in ctx.need)

    a, b = leaf(1.0), leaf(2.0)
    y = Asked.apply(a, b, sw.tensor([3.0]))
    grad(y, b, retain_graph=True)
    y.backward()
    assert needs == [(True, True, False), (False, True, False), (True, True, False)]


def test_integer_results_never_require_grad() -> None:
    x = leaf(1.0, 3.0)
    assert not x.argmax().requires_grad
    assert not (x > 2.0).requires_grad
    with pytest.raises(
        TypeError, match="only floating-point and complex tensors can require grad, not int64"
    ):
        sw.tensor([1], requires_grad=True)


def test_backward_twice_needs_retain_graph() -> None:
    x = leaf(2.0)
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad is not None
    assert x.grad.item() == 8.0
    with pytest.raises(
        AutogradError,
        match=r"cannot run backward through Mul again, whose result has shape \(1,\).*retain_graph",
    ):
        y.backward()


def test_backward_errors_say_what_to_do() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(
        AutogradError, match=r"tensor of shape \(2,\), a result of Mul: only a scalar has an implied"
    ):
        (x * 2.0).backward()
    with pytest.raises(AutogradError) as caught:
        (x.sum() * 1j).backward()
    assert str(caught.value) == (
        "backward of a tensor of shape (), a result of Mul: only a real number has an implied gradient of 1, "
        "and this is complex128. Pass gradient=, or take abs() or .real first."
    )
    with pytest.raises(
        ShapeError, match=r"gradient of an output of shape \(2,\) must have that shape, got \(3,\)"
    ):
        (x * 2.0).backward(np.ones(3))
    with pytest.raises(AutogradError, match="does not require grad"):
        sw.tensor([1.0]).backward()
    with sw.no_grad():
        y = x * 2.0
    assert not y.requires_grad


def test_grad_leaves_other_leaves_alone() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    h = x * w
    gx, gh = grad((h * h).sum(), [x, h])
    np.testing.assert_allclose(gx.data, 2 * h.data * w.data)
    np.testing.assert_allclose(gh.data, 2 * h.data)
    assert x.grad is None
    assert w.grad is None
    with pytest.raises(AutogradError, match=r"input 0 of grad, of shape .* is not used"):
        grad((x * 2.0).sum(), w)
    assert grad((x * 2.0).sum(), [w], allow_unused=True) == (None,)


def test_create_graph_differentiates_gradients() -> None:
    x = leaf(1.5)
    (first,) = grad(x**4, x, create_graph=True)
    (second,) = grad(first, x, create_graph=True)
    (third,) = grad(second, x)
    assert [round(t.item(), 9) for t in (first, second, third)] == [4 * 1.5**3, 12 * 1.5**2, 24 * 1.5]
    x.grad = None
    (x**3).backward(create_graph=True)
    assert x.grad is not None
    gradient = x.grad
    x.grad = None
    gradient.backward()
    assert x.grad.item() == pytest.approx(6 * 1.5)


@pytest.mark.parametrize("constant", [lambda x: x.detach(), lambda x: Tensor(x.data)])
def test_a_constant_over_the_memory_of_an_input_stays_one(constant: Any) -> None:
    for values in ([2.0, 3.0], 2.0):
        x = sw.tensor(values, dtype=np.float64, requires_grad=True)
        (g,) = grad((x * x * constant(x)).sum(), x, create_graph=True)
        (gg,) = grad(g.sum(), x)
        np.testing.assert_array_equal(g.detach().numpy(), 2.0 * x.data**2)
        np.testing.assert_array_equal(gg.numpy(), 2.0 * x.data)


def test_retain_grad_keeps_the_gradient_of_a_result() -> None:
    x = leaf(3.0)
    y = x * 2.0
    y.retain_grad()
    (y * y).backward()
    assert y.grad is not None
    assert y.grad.item() == 12.0


def test_gradients_may_arrive_from_outside() -> None:
    x = leaf(2.0)
    y = x * 3.0
    z = y * y
    task = GraphTask([(z.node, 0, np.array([1.0]))], z.wrap)
    task.expect(y.node, 1)
    task.run()
    assert x.grad is None
    assert task.pending == 2  # one for y from outside, and then x's
    task.deliver(y.node, 0, np.array([100.0]))
    task.run()
    assert x.grad is not None
    assert x.grad.item() == (12.0 + 100.0) * 3.0


def test_a_wrong_backward_is_named() -> None:
    class TooFew(sw.Function):
        signature = "*"

        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            return a + b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return (g,)

    class WrongShape(sw.Function):
        signature = "a->a"

        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a * 1.0

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return (g[:1],)

    class Reshaped(sw.Function):
        signature = "*"  # it broadcasts, but not from (2, 3) to (3, 2)

        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a * 1.0

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return (g.T,)

    with pytest.raises(AutogradError, match=r"Reshaped returned a gradient of shape \(3, 2\) for input 0"):
        Reshaped.apply(sw.ones(2, 3, requires_grad=True)).sum().backward()

    class Bare(sw.Function):  # its only gradient is no tuple, as PyTorch allows
        signature = "*"

        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a * 1.0

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2.0 * g

    x = leaf(1.0, 2.0)
    Bare.apply(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(AutogradError, match="backward of TooFew returned 1 gradients for 2 inputs"):
        TooFew.apply(leaf(1.0), leaf(2.0)).backward()
    with pytest.raises(AutogradError, match=r"backward of WrongShape returned a gradient of shape \(1,\)"):
        WrongShape.apply(leaf(1.0, 2.0)).sum().backward()


def test_gradients_have_the_dtype_of_their_tensor() -> None:
    a = sw.tensor(np.ones(2, np.float32), requires_grad=True)
    b = sw.tensor(np.ones(2, np.float64), requires_grad=True)
    (a * b).sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    assert (a.grad.dtype, b.grad.dtype) == (np.float32, np.float64)
