"""Losses of margins, pairs, triplets and distances against loops in NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.spatial import distance

import shardwise as sw
from shardwise import nn
from shardwise.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from shardwise.nn import functional as F

RNG = np.random.default_rng(0)
A, P, N = RNG.standard_normal((3, 5, 4))
REDUCTIONS = [("none", lambda x: x), ("sum", np.sum), ("mean", np.mean)]


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def tensors(*arrays: np.ndarray) -> list[sw.Tensor]:
    return [sw.tensor(a) for a in arrays]


@pytest.mark.parametrize(("reduction", "reduce"), REDUCTIONS)
@pytest.mark.parametrize("p", [1, 2])
def test_multi_margin(p: int, reduction: str, reduce: Callable[[np.ndarray], np.ndarray]) -> None:
    target, weight = np.array([1, 0, 3, 3, 2]), np.array([0.5, 1.0, 2.0, 0.0])
    want = np.zeros(5)
    for i, y in enumerate(target):
        for c in range(4):
            if c != y:
                want[i] += weight[y] * max(0.0, 0.7 - A[i, y] + A[i, c]) ** p / 4
    layer = nn.MultiMarginLoss(p, 0.7, sw.tensor(weight), reduction)  # type: ignore[arg-type]
    np.testing.assert_allclose(layer(*tensors(A, target)).data, reduce(want))
    row = F.multi_margin_loss(sw.tensor(A[2]), sw.tensor(3), p, 0.7)
    np.testing.assert_allclose(row.data, sum(max(0.0, 0.7 - A[2, 3] + A[2, c]) ** p for c in range(3)) / 4)


@pytest.mark.parametrize(("reduction", "reduce"), REDUCTIONS)
def test_multilabel_margin(reduction: str, reduce: Callable[[np.ndarray], np.ndarray]) -> None:
    target = np.array([[1, 3, -1, 0], [-1, 2, 2, 2], [0, 1, 2, 3], [2, 2, -1, -1], [3, 0, 1, -1]])
    want = np.zeros(5)
    for i, row in enumerate(target):
        listed = list(row[: list(row).index(-1)]) if -1 in row else list(row)
        for y in listed:
            for c in range(4):
                if c not in listed:
                    want[i] += max(0.0, 1 - A[i, y] + A[i, c]) / 4
    layer = nn.MultiLabelMarginLoss(reduction)  # type: ignore[arg-type]
    np.testing.assert_allclose(layer(*tensors(A, target)).data, reduce(want))
    np.testing.assert_allclose(F.multilabel_margin_loss(*tensors(A[0], target[0])).data, want[0])


@pytest.mark.parametrize(("reduction", "reduce"), REDUCTIONS)
def test_multilabel_soft_margin(reduction: str, reduce: Callable[[np.ndarray], np.ndarray]) -> None:
    target, weight = (P > 0).astype(np.float64), np.array([0.5, 1.0, 2.0, 0.0])
    each = weight * np.logaddexp(0, np.where(target == 1, -A, A))
    layer = nn.MultiLabelSoftMarginLoss(sw.tensor(weight), reduction)  # type: ignore[arg-type]
    np.testing.assert_allclose(layer(*tensors(A, target)).data, reduce(each.mean(1)))


@pytest.mark.parametrize(("reduction", "reduce"), REDUCTIONS)
def test_pairs(reduction: str, reduce: Callable[[np.ndarray], np.ndarray]) -> None:
    sign = np.sign(N[:, 0])
    cosine = np.array([1 - distance.cosine(a, p) for a, p in zip(A, P, strict=True)])
    want = np.where(sign == 1, 1 - cosine, np.maximum(0, cosine - 0.1))
    layer = nn.CosineEmbeddingLoss(0.1, reduction)  # type: ignore[arg-type]
    np.testing.assert_allclose(layer(*tensors(A, P, sign)).data, reduce(want), rtol=1e-9)
    want = np.maximum(0, 0.3 - sign * (A[:, 0] - P[:, 0]))
    ranking = nn.MarginRankingLoss(0.3, reduction)  # type: ignore[arg-type]
    np.testing.assert_allclose(ranking(*tensors(A[:, 0], P[:, 0], sign)).data, reduce(want))
    hinge = nn.HingeEmbeddingLoss(0.3, reduction)  # type: ignore[arg-type]
    want = np.where(sign == 1, A[:, 0], np.maximum(0, 0.3 - A[:, 0]))
    np.testing.assert_allclose(hinge(*tensors(A[:, 0], sign)).data, reduce(want))
    soft = nn.SoftMarginLoss(reduction)  # type: ignore[arg-type]
    np.testing.assert_allclose(soft(*tensors(A[:, 0], sign)).data, reduce(np.log1p(np.exp(-sign * A[:, 0]))))


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_triplets(p: float, swap: bool) -> None:
    def norm(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (np.abs(x - y + 1e-6) ** p).sum(-1) ** (1 / p)

    far = np.minimum(norm(A, N), norm(P, N)) if swap else norm(A, N)
    want = np.maximum(0, 0.5 + norm(A, P) - far)
    got = nn.TripletMarginLoss(0.5, p, swap=swap, reduction="none")(*tensors(A, P, N))
    np.testing.assert_allclose(got.data, want)
    any_distance = nn.TripletMarginWithDistanceLoss(
        distance_function=lambda x, y: F.pairwise_distance(x, y, p), margin=0.5, swap=swap
    )
    np.testing.assert_allclose(any_distance(*tensors(A, P, N)).data, want.mean())


@pytest.mark.parametrize("p", [1.0, 2.0, 3.5, np.inf])
def test_distances(p: float) -> None:
    want = np.linalg.norm(A - P, p, axis=1)
    got = nn.PairwiseDistance(p, eps=0.0, keepdim=True)(*tensors(A, P))
    np.testing.assert_allclose(got.data, want[:, None])
    np.testing.assert_allclose(F.pairwise_distance(*tensors(A[:, None], P)).data.shape, (5, 5))
    for dim in (0, 1):
        norms = np.linalg.norm(A, p, dim, keepdims=True)
        np.testing.assert_allclose(F.normalize(sw.tensor(A), p, dim).data, A / norms)


def test_angles() -> None:
    cosine = [1 - distance.cosine(a, p) for a, p in zip(A, P, strict=True)]
    np.testing.assert_allclose(nn.CosineSimilarity()(*tensors(A, P)).data, cosine)
    np.testing.assert_allclose(nn.CosineSimilarity(0)(*tensors(A.T, P.T)).data, cosine)
    table = F.cosine_similarity(*tensors(A[:, None], P), dim=-1)
    np.testing.assert_allclose(table.data, 1 - distance.cdist(A, P, "cosine"))
    narrow = F.cosine_similarity(sw.ones(2, 1), sw.ones(2, 3))  # one number stands for three
    np.testing.assert_allclose(narrow.data, [1.0, 1.0], rtol=1e-6)


def test_zero_vectors_have_a_finite_gradient() -> None:
    for function in (F.normalize, lambda x: F.cosine_similarity(x, sw.ones(2, 3))):
        x = sw.zeros(2, 3, requires_grad=True)
        out = function(x)
        np.testing.assert_array_equal(out.data, np.zeros(out.shape))
        out.sum().backward()
        assert np.isfinite(x.grad.data).all()
    x = sw.zeros(2, 3, requires_grad=True)
    F.pairwise_distance(x, x.detach(), eps=0.0).sum().backward()
    np.testing.assert_array_equal(x.grad.data, np.zeros((2, 3)))


def test_empty_batches() -> None:
    nothing, none = sw.ones(0, 4, requires_grad=True), sw.zeros(0, dtype=np.int64)
    for loss in (
        F.multi_margin_loss(nothing, none),
        F.multilabel_margin_loss(nothing, sw.zeros(0, 4, dtype=np.int64)),
        F.cosine_embedding_loss(nothing, nothing, sw.ones(0)),
        F.triplet_margin_loss(nothing, nothing, nothing),
        F.soft_margin_loss(nothing, nothing),
    ):
        assert np.isnan(loss.item())
        loss.backward()


def test_refused() -> None:
    x, y = sw.ones(2, 3), sw.tensor([0, 1])
    assert message(IndexRangeError, lambda: F.multi_margin_loss(x, y + 2)) == (
        "multi_margin_loss: target[1] is 3, and the logits have 3 classes: wanted 0 to 2."
    )
    assert message(
        IndexRangeError, lambda: F.multilabel_margin_loss(x, sw.tensor([[0, 1, 2], [1, 5, 0]]))
    ) == ("multilabel_margin_loss: target[1, 1] is 5, and the logits have 3 classes: wanted 0 to 2.")
    assert message(ArgumentError, lambda: F.multi_margin_loss(x, y, 3)) == (
        "multi_margin_loss: p must be 1 or 2, got 3"
    )
    assert message(DTypeError, lambda: F.multi_margin_loss(x, sw.ones(2))) == (
        "multi_margin_loss: the target must be integer classes, not float32; cast with long()"
    )
    assert message(ShapeError, lambda: F.multi_margin_loss(x, sw.tensor([0]))) == (
        "multi_margin_loss: input of shape (2, 3) needs a target of shape (2,), got (1,)"
    )
    assert message(ShapeError, lambda: F.hinge_embedding_loss(x, y)) == (
        "hinge_embedding_loss: input of shape (2, 3) and target of shape (2,) must agree"
    )
    assert message(ShapeError, lambda: F.margin_ranking_loss(x, x, sw.ones(3))) == (
        "margin_ranking_loss: all must have the same number of dims, got input1 (2, 3), input2 (2, 3), "
        "target (3,)"
    )
    assert message(ShapeError, lambda: F.cosine_embedding_loss(x, x, sw.ones(2, 3))) == (
        "cosine_embedding_loss: wanted two inputs of shape (n, dim) and a target (n,), or (dim,) and (); got "
        "(2, 3), (2, 3) and (2, 3)"
    )
    assert message(ArgumentError, lambda: F.triplet_margin_loss(x, x, x, margin=0.0)) == (
        "triplet_margin_loss: margin must be above 0, got 0.0"
    )
    assert message(ShapeError, lambda: F.cosine_similarity(x, sw.ones(2, 4))) == (
        "cosine_similarity: x1 of shape (2, 3) and x2 of (2, 4) do not broadcast"
    )
    assert "there is no dim 1 among 1" in message(ShapeError, lambda: F.normalize(sw.ones(3)))
