"""Streams: what a draw depends on, and what it does not."""

from __future__ import annotations

from contextvars import copy_context

import numpy as np

import shardwise as sw
from shardwise import nn
from shardwise.nn import functional as F
from shardwise.tensor import row_window


def test_the_seed_decides() -> None:
    sw.manual_seed(1)
    a = sw.rand(5).tolist(), sw.randn(5).tolist(), sw.randperm(5).tolist(), sw.randint(0, 9, 5).tolist()
    sw.manual_seed(1)
    b = sw.rand(5).tolist(), sw.randn(5).tolist(), sw.randperm(5).tolist(), sw.randint(0, 9, 5).tolist()
    assert a == b
    assert sw.rand(5).tolist() != a[0]
    sw.manual_seed(2)
    assert sw.rand(5).tolist() != a[0]
    assert sw.initial_seed() == 2


def test_contexts_draw_independently() -> None:
    sw.manual_seed(5)
    copies = [copy_context() for _ in range(2)]
    first = [copy.run(lambda: sw.rand(3).tolist()) for copy in copies]
    assert first[0] == first[1] == sw.rand(3).tolist()


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Dropout(0.5), nn.Dropout(0.5)

    def forward(self, x: sw.Tensor) -> sw.Tensor:
        return sw.stack([self.a(x), self.b(x), self.a(x)])


def test_a_module_s_stream_is_its_path_and_call() -> None:
    x = sw.ones(64)
    sw.manual_seed(0)
    net = Two()
    first, second = net(x), net(x)
    masks = [tuple(row.tolist()) for row in (*first, *second)]
    assert len(set(masks)) == 6  # paths, calls and forwards all differ
    sw.manual_seed(0)
    sw.rand(3)  # draws outside modules have their own count
    np.testing.assert_array_equal(Two()(x).data, first.data)
    sw.manual_seed(0)
    net.eval()(x)  # a forward that draws nothing does not count
    np.testing.assert_array_equal(net.train()(x).data, first.data)


def test_a_row_window_gives_the_rows_of_the_global_mask() -> None:
    x = sw.ones(6, 5)
    sw.manual_seed(0)
    whole = F.dropout(x, 0.5)
    for first, rows in ((0, 2), (2, 3), (5, 1)):
        sw.manual_seed(0)
        with row_window(first, rows):
            part = F.dropout(x[first : first + rows], 0.5)
        np.testing.assert_array_equal(part.data, whole.data[first : first + rows])
    sw.manual_seed(0)
    with row_window(2, 2):  # the batch merged with the dim behind it
        part = F.dropout(sw.ones(2, 5).reshape(10), 0.5)
    np.testing.assert_array_equal(part.data, whole.data[2:4].ravel())


def test_the_model_s_weights_are_those_of_the_seed() -> None:
    sw.manual_seed(3)
    a = nn.Sequential(nn.Linear(4, 5), nn.Embedding(3, 2))
    sw.manual_seed(3)
    b = nn.Sequential(nn.Linear(4, 5), nn.Embedding(3, 2))
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        np.testing.assert_array_equal(p.data, q.data)
    bound = 1 / np.sqrt(4)
    assert np.abs(a[0].weight.data).max() <= bound
