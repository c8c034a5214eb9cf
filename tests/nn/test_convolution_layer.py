"""Convolutional layers: padding modes, shapes, names, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.errors import ArgumentError, DTypeError, ShapeError
from shardwise.nn import functional as F
from tolerance import assert_near

RNG = np.random.default_rng(1)


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_modes(mode: str) -> None:
    x = RNG.standard_normal((2, 2, 5, 6)).astype(np.float32)
    numpy_mode: Any = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    layer = nn.Conv2d(2, 3, 3, padding=(1, 2), padding_mode=mode)  # type: ignore[arg-type]
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (2, 2)), mode=numpy_mode)
    assert_near(layer(sw.tensor(x)), F.conv2d(sw.tensor(padded), layer.weight, layer.bias).detach().numpy())
    same = nn.Conv2d(2, 3, (2, 4), padding="same", padding_mode=mode)  # type: ignore[arg-type]
    padded = np.pad(x, ((0, 0), (0, 0), (0, 1), (1, 2)), mode=numpy_mode)
    assert_near(same(sw.tensor(x)), F.conv2d(sw.tensor(padded), same.weight, same.bias).detach().numpy())
    assert repr(same) == (
        f"Conv2d(2, 3, kernel_size=(2, 4), stride=(1, 1), padding='same', padding_mode={mode})"
    )


def test_layers() -> None:
    layer = nn.Conv1d(6, 4, 5, stride=2, padding=1, dilation=2, groups=2, bias=False)
    assert repr(layer) == (
        "Conv1d(6, 4, kernel_size=(5,), stride=(2,), padding=(1,), dilation=(2,), groups=2, bias=False)"
    )
    assert {name: t.shape for name, t in layer.state_dict().items()} == {"weight": (4, 3, 5)}
    assert layer(sw.ones(2, 6, 20)).shape == (2, 4, 7)
    big = nn.Conv2d(64, 64, 3)
    assert abs(float(big.weight.detach().numpy().max()) - 1 / 24) < 1e-3
    assert np.abs(big.bias.detach().numpy()).max() <= 1 / 24  # type: ignore[union-attr]
    up = nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)
    assert repr(up) == (
        "ConvTranspose2d(4, 6, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), output_padding=(1, 1), "
        "groups=2)"
    )
    assert {name: t.shape for name, t in up.state_dict().items()} == {"weight": (4, 3, 3, 3), "bias": (6,)}
    assert up(sw.ones(1, 4, 5, 5)).shape == (1, 6, 10, 10)
    assert up(sw.ones(1, 4, 5, 5), output_size=(9, 10)).shape == (1, 6, 9, 10)
    assert up(sw.ones(4, 5, 5), output_size=(6, 9, 9)).shape == (6, 9, 9)
    assert message(ShapeError, lambda: up(sw.ones(1, 4, 5, 5), output_size=(11, 9))) == (
        "ConvTranspose2d: output_size must lie between (9, 9) and (10, 10) for an input of shape "
        "(1, 4, 5, 5), got (11, 9)"
    )
    assert nn.Conv3d(2, 3, 2, dtype=np.float64)(sw.ones(1, 2, 3, 3, 3, dtype=np.float64)).dtype == np.float64
    assert nn.ConvTranspose1d(2, 3, 4)(sw.ones(2, 5)).shape == (3, 8)
    assert nn.ConvTranspose3d(2, 1, 2, dilation=2)(sw.ones(1, 2, 1, 1, 1)).shape == (1, 1, 3, 3, 3)


X, W = sw.ones(2, 4, 5, 5), sw.ones(6, 4, 3, 3)


@pytest.mark.parametrize(
    ("kind", "call", "text"),
    [
        (
            ShapeError,
            lambda: F.conv2d(sw.ones(5, 5), W),
            "conv2d: input must have shape (batch, channels, height, width) or (channels, height, width), "
            "got (5, 5)",
        ),
        (
            ShapeError,
            lambda: F.conv2d(X, sw.ones(6, 3, 3, 3)),
            "conv2d: weight of shape (6, 3, 3, 3), which is (out, channels / groups, *kernel), with "
            "groups=1 does "
            "not fit an input of 4 channels, shape (2, 4, 5, 5)",
        ),
        (
            ShapeError,
            lambda: F.conv2d(X, W, sw.ones(5)),
            "conv2d: bias must have shape (6,), got (5,)",
        ),
        (
            ShapeError,
            lambda: F.conv2d(X, W, dilation=3),
            "conv2d: the kernel reaches over (7, 7), more than the input of (5, 5) with padding 0 has; give "
            "more "
            "padding, or a smaller kernel or dilation",
        ),
        (
            ShapeError,
            lambda: F.conv1d(sw.ones(2, 4, 5), W),
            "conv1d: weight must have shape (out, channels / groups, *kernel) with 1 kernel dims, got (6, "
            "4, 3, 3)",
        ),
        (
            ArgumentError,
            lambda: F.conv2d(X, W, stride=0),
            "conv2d: stride must be an integer of at least 1, or a tuple of 2; got 0",
        ),
        (
            ArgumentError,
            lambda: F.conv2d(X, W, padding=(1, 1, 1)),
            "conv2d: padding must be an integer of at least 0, or a tuple of 2; got (1, 1, 1)",
        ),
        (
            ArgumentError,
            lambda: F.conv2d(X, W, padding="full"),  # type: ignore[arg-type]
            "conv2d: padding must be integers, 'same' or 'valid', got 'full'",
        ),
        (
            ArgumentError,
            lambda: F.conv2d(X, W, padding="same", stride=2),
            "conv2d: padding='same' needs a stride of 1, got 2; give the padding in numbers",
        ),
        (
            ArgumentError,
            lambda: F.conv2d(X, W, groups=0),
            "conv2d: groups must be an integer of at least 1, got 0",
        ),
        (
            DTypeError,
            lambda: F.conv2d(X, W.double()),
            "conv2d: wanted floating tensors of one dtype, got input float32, weight float64; cast the data "
            "with "
            "astype(), or the module with to()",
        ),
        (
            DTypeError,
            lambda: F.conv2d(np.ones((1, 4, 5, 5)), W),  # type: ignore[arg-type]
            "conv2d: input must be a Tensor, got ndarray; make one with shardwise.tensor()",
        ),
        (
            ArgumentError,
            lambda: F.conv_transpose2d(X, sw.ones(4, 1, 2, 2), stride=2, output_padding=2),
            "conv_transpose2d: output_padding must be less than stride or dilation, got 2 with stride 2 and "
            "dilation 1",
        ),
        (
            ShapeError,
            lambda: F.conv_transpose2d(X, sw.ones(4, 1, 1, 1), padding=3),
            "conv_transpose2d: an input of (5, 5) with a kernel of (1, 1) and padding 3 leaves a result of "
            "(-1, -1); give less padding",
        ),
        (
            ArgumentError,
            lambda: nn.Conv2d(3, 4, 3, groups=2),
            "Conv2d: groups must divide in_channels and out_channels, got groups=2 for 3 and 4",
        ),
        (
            ArgumentError,
            lambda: nn.Conv2d(3, 4, 3, padding_mode="mirror"),  # type: ignore[arg-type]
            "Conv2d: padding_mode must be one of zeros, reflect, replicate, circular; got 'mirror'",
        ),
        (
            ShapeError,
            lambda: F.unfold(sw.ones(1, 1, 3, 3), 4),
            "unfold: windows of (4, 4) with dilation (1, 1) do not fit into an image of (3, 3) with padding "
            "(0, 0)",
        ),
        (
            ShapeError,
            lambda: F.fold(sw.ones(1, 5, 4), 3, 2),
            "fold: an image of (3, 3) has 4 windows of 4 elements, so input must have shape (batch, "
            "channels * 4, "
            "4); got (1, 5, 4)",
        ),
    ],
)
def test_refusals(kind: type[Exception], call: Callable[[], object], text: str) -> None:
    assert message(kind, call) == text
