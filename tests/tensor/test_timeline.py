"""Times of ops: what is noted, from where, and that nothing is outside of the block."""

from __future__ import annotations

import itertools
import threading

import pytest

import shardwise as sw
from shardwise import nn, optim
from shardwise.tensor.timeline import Span, time_ops, timed


def test_forward_and_backward_of_each_op_by_module() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.GELU(), nn.Linear(8, 2)))
    x = sw.randn(3, 4)
    spans: list[Span] = []
    with time_ops(spans):
        model(x).sum().backward()
    assert [(span.name, span.way, span.module) for span in spans] == [
        ("Linear", "forward", "0"),
        ("Gelu", "forward", "1.0"),
        ("Linear", "forward", "1.1"),
        ("Sum", "forward", ""),
        ("Sum", "backward", ""),
        ("Linear", "backward", "1.1"),
        ("Gelu", "backward", "1.0"),
        ("Linear", "backward", "0"),
    ]
    assert all(span.start <= span.end for span in spans)
    assert all(one.end <= other.start for one, other in itertools.pairwise(spans))
    assert {span.thread for span in spans} == {threading.current_thread().name}


def test_nothing_is_noted_outside() -> None:
    x = sw.ones(3, requires_grad=True)
    spans: list[Span] = []
    with time_ops(spans):
        y = x.exp()
    (y * 2.0).sum().backward()
    assert [span.name for span in spans] == ["Exp"]


def test_blocks_nest() -> None:
    outer: list[Span] = []
    inner: list[Span] = []
    x = sw.ones(3)
    with time_ops(outer):
        x.exp()
        with time_ops(inner):
            x.sin()
        x.cos()
    assert [span.name for span in outer] == ["Exp", "Sin", "Cos"]
    assert [span.name for span in inner] == ["Sin"]


def test_what_fails_is_passed_on() -> None:
    spans: list[Span] = []
    with pytest.raises(sw.ShardwiseError), time_ops(spans):
        sw.ones(3) + sw.ones(4)
    assert spans == []
    assert (sw.ones(3) + sw.ones(3)).tolist() == [2.0, 2.0, 2.0]


def test_gradients_are_the_same() -> None:
    x = sw.randn(5, 3, requires_grad=True)
    (x.softmax(-1) * x).sum().backward()
    assert x.grad is not None
    before, x.grad = x.grad.numpy(), None
    spans: list[Span] = []
    with time_ops(spans):
        (x.softmax(-1) * x).sum().backward()
    assert x.grad is not None
    assert (x.grad.numpy() == before).all()
    assert sum(span.way == "backward" for span in spans) == 3


def test_the_step_of_an_optimizer_is_noted() -> None:
    w = sw.ones(3, requires_grad=True)
    opt = optim.SGD([w], lr=0.1)
    spans: list[Span] = []
    with time_ops(spans):
        w.sum().backward()
        opt.step()
    assert [(span.name, span.way) for span in spans][-1] == ("SGD.step", "block")
    with timed("nobody listens"):
        w.exp()
    assert len(spans) == 3
