"""Connectionist temporal classification against the sum over all alignments."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby, product

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from shardwise.nn import functional as F


def brute(log_probs: np.ndarray, labels: list[int], blank: int) -> tuple[float, np.ndarray]:
    """Minus the log-likelihood of the labels, and its gradient, by all paths through the frames."""
    frames, classes = log_probs.shape
    total, weighted = 0.0, np.zeros_like(log_probs)
    for path in product(range(classes), repeat=frames):
        if [c for c, _ in groupby(path) if c != blank] == labels:
            p = np.exp(sum(log_probs[t, c] for t, c in enumerate(path)))
            total += p
            for t, c in enumerate(path):
                weighted[t, c] += p
    if total == 0.0:
        return np.inf, np.zeros_like(log_probs)
    return -np.log(total), -weighted / total


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize("labels", [[], [1], [1, 1], [1, 3], [3, 1, 3], [1, 1, 1]])
@pytest.mark.parametrize("frames", [1, 3, 5])
def test_all_alignments(frames: int, labels: list[int], blank: int) -> None:
    x = np.random.default_rng(frames).standard_normal((frames, 4))
    want, slope = brute(x, labels, blank)
    leaf = sw.tensor(x, requires_grad=True)
    loss = F.ctc_loss(leaf, sw.tensor(np.array(labels, np.int64)), frames, len(labels), blank, "sum")
    np.testing.assert_allclose(loss.item(), want, rtol=1e-12)
    loss.backward()
    np.testing.assert_allclose(leaf.grad.data, slope, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_batches_of_many_lengths(dtype: type) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 4, 3)).astype(dtype)
    sequences, frames = [[1, 2], [2], [], [1, 1]], [5, 3, 4, 2]
    pairs = [
        brute(x[:n, i].astype(np.float64), s, 0)
        for i, (s, n) in enumerate(zip(sequences, frames, strict=True))
    ]
    want = np.array([loss for loss, _ in pairs])
    assert np.isinf(want[3])
    padded = np.full((4, 2), -5)  # what lies behind the labels does not matter
    for i, s in enumerate(sequences):
        padded[i, : len(s)] = s
    lengths = [len(s) for s in sequences]
    behind = sw.tensor(np.concatenate([np.array(s, np.int64) for s in sequences]))
    for targets in (sw.tensor(padded), behind):
        for given in ((frames, lengths), (sw.tensor(frames), sw.tensor(lengths))):
            loss = F.ctc_loss(sw.tensor(x), targets, *given, reduction="none")
            np.testing.assert_allclose(loss.data, want, rtol=1e-5 if dtype == np.float32 else 1e-12)
    leaf = sw.tensor(x, requires_grad=True)
    layer = nn.CTCLoss(zero_infinity=True)
    loss = layer(leaf, behind, frames, lengths)
    np.testing.assert_allclose(loss.item(), (want[0] / 2 + want[1] + want[2]) / 4, rtol=1e-5)
    loss.backward()
    grads = np.zeros(x.shape)
    for i in range(3):
        grads[: frames[i], i] = pairs[i][1] / max(lengths[i], 1) / 4
    np.testing.assert_allclose(leaf.grad.data, grads, atol=1e-6)
    assert np.isinf(F.ctc_loss(sw.tensor(x), behind, frames, lengths).item())


def test_long_sequences_keep_their_precision() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 2, 6)) * 3
    labels = rng.integers(1, 6, (2, 40))
    losses = []
    for dtype in (np.float32, np.float64):
        leaf = sw.tensor(x.astype(dtype), requires_grad=True)
        loss = F.ctc_loss(leaf.log_softmax(-1), sw.tensor(labels), [300, 250], [40, 30])
        loss.backward()
        losses.append((loss.item(), leaf.grad.data))
    np.testing.assert_allclose(losses[0][0], losses[1][0], rtol=1e-5)
    np.testing.assert_allclose(losses[0][1], losses[1][1], atol=1e-5)
    assert np.all(losses[1][1][250:, 1] == 0.0)
    np.testing.assert_allclose(losses[1][1].sum(-1), 0.0, atol=1e-12)


def test_no_frames() -> None:
    x = sw.ones(3, 2, 2)
    loss = F.ctc_loss(x, sw.tensor([[1], [1]]), [0, 0], [0, 1], reduction="none")
    assert loss.tolist() == [0.0, np.inf]
    none = F.ctc_loss(sw.ones(0, 2, 2), sw.tensor([[1], [1]]), [0, 0], [0, 1], reduction="none")
    assert none.tolist() == [0.0, np.inf]
    empty = F.ctc_loss(sw.ones(3, 0, 2), sw.zeros(0, 1, dtype=np.int64), [], [], reduction="sum")
    assert empty.item() == 0.0


def test_refused() -> None:
    x, labels = sw.ones(4, 2, 3), sw.tensor([[1, 2], [2, 1]])

    def told(kind: type[Exception], call: Callable[[], object]) -> str:
        with pytest.raises(kind) as error:
            call()
        return str(error.value)

    assert told(ArgumentError, lambda: F.ctc_loss(x, labels, [4, 5], [2, 2])) == (
        "ctc_loss: input_lengths[1] is 5, but must be from 0 to 4"
    )
    assert told(ArgumentError, lambda: F.ctc_loss(x, labels, [4, 4], [2, 3])) == (
        "ctc_loss: target_lengths[1] is 3, but must be from 0 to 2"
    )
    assert told(ShapeError, lambda: F.ctc_loss(x, labels, [4], [2, 2])) == (
        "ctc_loss: input_lengths must have shape (2,), got (1,)"
    )
    assert told(ShapeError, lambda: F.ctc_loss(x, labels[:1], [4, 4], [2, 2])) == (
        "ctc_loss: targets must have shape (2, labels) or (labels of all,), got (1, 2)"
    )
    assert told(ShapeError, lambda: F.ctc_loss(x, labels.flatten(), [4, 4], [2, 1])) == (
        "ctc_loss: target_lengths add up to 3, but targets has 4 labels"
    )
    assert told(IndexRangeError, lambda: F.ctc_loss(x, labels + 1, [4, 4], [2, 2])) == (
        "ctc_loss: target[0, 1] is 3, and the logits have 3 classes: wanted 0 to 2."
    )
    assert told(IndexRangeError, lambda: F.ctc_loss(x, labels, [4, 4], [2, 2], blank=3)) == (
        "ctc_loss: blank must be a class from 0 to 2, got 3"
    )
    assert told(ArgumentError, lambda: F.ctc_loss(x, labels, [4, 4], [2, 2], blank=1)) == (
        "ctc_loss: targets must not hold blank=1, but label 0 of sequence 0 is it"
    )
    assert told(DTypeError, lambda: F.ctc_loss(x, sw.ones(2, 2), [4, 4], [2, 2])) == (
        "ctc_loss: the targets must be integer classes, not float32; cast with long()"
    )
    assert "input_lengths must be integers, not float64" in told(
        DTypeError,
        lambda: F.ctc_loss(x, labels, [4.0, 4.0], [2, 2]),  # type: ignore[list-item]
    )
