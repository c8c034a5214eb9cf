"""Arguments that are no tensors, and sizes that are no sizes, are named with what to do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn, optim
from shardwise.errors import ArgumentError, DTypeError
from shardwise.nn import functional as F

X = sw.ones(2, 3)


@pytest.mark.parametrize(
    ("call", "name", "kind"),
    [
        (lambda: nn.Linear(3, 2)([[1.0, 2.0, 3.0]]), "linear: input", "list"),
        (lambda: F.linear(X, np.ones((2, 3))), "linear: weight", "ndarray"),
        (lambda: nn.Embedding(3, 2)([0, 1]), "embedding: input", "list"),
        (lambda: nn.LayerNorm(3)(1.0), "layer_norm: input", "float"),
        (lambda: nn.GELU()("text"), "gelu: input", "str"),
        (lambda: nn.ReLU()([1.0]), "relu: input", "list"),
        (lambda: F.softmax([1.0]), "softmax: input", "list"),
        (lambda: F.log_softmax([1.0]), "log_softmax: input", "list"),
        (lambda: nn.Dropout(0.5)([1.0]), "dropout: input", "list"),
        (lambda: F.cross_entropy(X, [0, 1]), "cross_entropy: target", "list"),
        (lambda: F.mse_loss(X, 1.0), "mse_loss: target", "float"),
        (lambda: F.scaled_dot_product_attention(X, X, 3), "attention: value", "int"),
        (lambda: F.scaled_dot_product_attention(X, X, X, [[True]]), "attention: attn_mask", "list"),
    ],
)
def test_not_a_tensor(call: Callable[[], object], name: str, kind: str) -> None:
    with pytest.raises(DTypeError) as caught:
        call()
    assert str(caught.value) == f"{name} must be a Tensor, got {kind}; make one with shardwise.tensor()"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.Linear(3.5, 2), "Linear: in_features must be an integer of at least 0, got 3.5"),
        (lambda: nn.Linear(3, -2), "Linear: out_features must be an integer of at least 0, got -2"),
        (lambda: nn.Embedding("a", 2), "Embedding: num_embeddings must be an integer of at least 0, got 'a'"),
        (lambda: sw.zeros(2.5), r"sizes must be integers of at least 0, got (2.5,)"),
        (lambda: sw.rand(2, -1), r"sizes must be integers of at least 0, got (2, -1)"),
    ],
)
def test_not_a_size(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        call()
    assert str(caught.value) == message


def test_options_that_are_no_numbers() -> None:
    with pytest.raises(ArgumentError, match="AdamW needs lr >= 0, got 'a'"):
        optim.AdamW([sw.tensor([1.0], requires_grad=True)], lr="a")  # type: ignore[arg-type]


def test_spawn_s_arguments_are_a_tuple() -> None:
    with pytest.raises(RuntimeError, match=r"spawn: args must be a tuple, as in args=\(5,\), got int"):
        sw.spawn(print, 5, nprocs=1)  # type: ignore[arg-type]


def test_the_time_out_of_a_world_is_chosen_once() -> None:
    def late(_: int) -> None:
        sw.rank()
        sw.collectives.init(timeout=4.0)

    with pytest.raises(RuntimeError, match=r"init\(timeout=4\): rank 0 is already in a world whose time-out"):
        sw.spawn(late, nprocs=1)
