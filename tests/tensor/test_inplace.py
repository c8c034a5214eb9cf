"""In-place writes: version counters, views, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import shardwise as sw
from shardwise.errors import AutogradError, DTypeError, ShapeError


def test_values() -> None:
    x = sw.tensor([1.0, 2.0])
    alias = x.detach()
    x.add_(1.0).mul_(sw.tensor([2.0, 3.0])).sub_(1.0).div_(2.0)
    np.testing.assert_allclose(alias.data, [1.5, 4.0])
    x += 1.0
    x -= 0.5
    x *= 2.0
    x /= 4.0
    np.testing.assert_allclose(alias.data, [1.0, 2.25])
    assert x.fill_(7.0).tolist() == [7.0, 7.0]
    assert x.zero_().tolist() == [0.0, 0.0]
    assert x.copy_(np.array([1, 2])).tolist() == [1.0, 2.0]
    assert x.add_(sw.tensor([1.0]), alpha=2.0).tolist() == [3.0, 4.0]


def test_gradients_flow_through_writes() -> None:
    x = sw.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2.0
    y.add_(x)
    y.mul_(3.0)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [9.0, 9.0]
    x.grad = None
    z = sw.zeros(2)
    z.copy_(x)
    (z * z).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    x.grad = None
    w = x * 1.0
    w.zero_()
    assert not w.requires_grad


def test_a_needed_value_that_was_overwritten_is_an_error() -> None:
    x = sw.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    y.add_(1.0)
    with pytest.raises(
        AutogradError,
        match=r"output 0 of Exp, of shape \(2,\), was written in place after it was saved.*clone\(\)",
    ):
        y.sum().backward()
    w = sw.tensor([1.0], requires_grad=True)
    z = w * w
    with sw.no_grad():
        w.add_(1.0)
    with pytest.raises(AutogradError, match=r"input 0 of Mul, .* was written in place"):
        z.backward()


def test_a_write_through_a_view_is_seen() -> None:
    x = sw.tensor(np.ones((2, 2)), requires_grad=True)
    h = x * 1.0
    y = h.exp()
    with sw.no_grad():
        y.reshape(4).fill_(0.0)
    with pytest.raises(AutogradError, match=r"output 0 of Exp, of shape \(2, 2\), was written in place"):
        y.sum().backward()


def test_an_unneeded_value_may_be_overwritten() -> None:
    x = sw.tensor([1.0, 2.0], requires_grad=True)
    y = x + 1.0
    y.mul_(2.0)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]


def test_leaves_views_and_bases_are_refused() -> None:
    x = sw.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(
        AutogradError, match=r"cannot write in place \(Add\) into a leaf of shape \(2,\) that requires grad"
    ):
        x.add_(1.0)
    y = x * 2.0
    view = y[:1]
    with pytest.raises(AutogradError, match=r"\(Mul\) into a view of another tensor on the tape"):
        view.mul_(2.0)
    with pytest.raises(AutogradError, match=r"\(Mul\) into a tensor with views on the tape"):
        y.mul_(2.0)
    del view
    y.mul_(2.0)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4.0, 4.0]
    with sw.no_grad():
        x.add_(1.0)
    assert x.tolist() == [2.0, 3.0]


def test_a_gradient_is_not_lost_to_others_that_look_at_the_memory() -> None:
    w = sw.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    base = sw.zeros(4)
    view = base[:2]  # made before anything was on the tape
    with pytest.raises(
        AutogradError,
        match=r"cannot write in place \(Add\) into a view of another tensor on the tape, of shape "
        r"\(2,\). Write x\[i\] = x\[i\] \+ y in place of x\[i\] \+= y; else clone\(\) it first, or drop",
    ):
        view.add_(w[:2])
    with pytest.raises(AutogradError, match=r"\(copy_\) into a tensor with views on the tape"):
        base.copy_(w)
    assert base.tolist() == [0.0] * 4
    del view
    base.copy_(w)
    (base * 3.0).sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [3.0] * 4


def test_a_view_that_is_left_alone_may_be_written() -> None:
    w = sw.tensor([1.0, 2.0], requires_grad=True)
    h = (w * 2.0).reshape(1, 2)
    h.mul_(3.0)
    fresh = sw.zeros(1, 2).reshape(2)
    fresh += w
    (h.sum() + fresh.sum()).backward()
    assert w.grad is not None
    assert w.grad.tolist() == [7.0, 7.0]


def test_an_index_may_be_written_after_use() -> None:
    x = sw.tensor([1.0, 2.0, 3.0], requires_grad=True)
    rows, mask = sw.tensor([0, 2]), sw.tensor([True, False, True])
    y, z = x[rows], x[mask]
    rows.zero_()
    mask.fill_(False)
    (y + z * 10.0).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [11.0, 0.0, 11.0]


def test_shapes_and_dtypes_that_do_not_fit() -> None:
    x = sw.tensor([1, 2])
    with pytest.raises(DTypeError, match=r"cannot write float32 in place \(copy_\) into int64"):
        x.copy_(sw.tensor([0.5, 0.5]))
    with pytest.raises(
        ShapeError, match=r"cannot write a result of shape \(3, 2\) in place \(Add\) into shape \(2,\)"
    ):
        x.add_(sw.tensor(np.ones((3, 2), int)))
    y = sw.tensor([1.0], requires_grad=True)
    with pytest.raises(AutogradError, match=r"cannot write in place \(assignment by index\) into a leaf"):
        y[0] = 2.0
    x[0] = 9
    assert x.tolist() == [9, 2]
