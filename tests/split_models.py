"""Models to be split: each with something that a split could get wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import shardwise as sw
from gpt import GPT
from shardwise import nn
from shardwise.nn import functional as F
from shardwise.pipelining import Pipe, SplitPoint, pipe_split
from shardwise.tensor import Tensor

BEGINNING, END = SplitPoint.BEGINNING, SplitPoint.END
ROWS = 6


class Case(NamedTuple):
    """A model, the arguments of a microbatch, and where to cut it."""

    make: Callable[[], nn.Module]
    args: Callable[[int], tuple[Any, ...]]
    spec: dict[str, SplitPoint] | None
    kwargs: Callable[[int], dict[str, Any]] = lambda rows: {}


def normal(*shape: int, seed: int = 0) -> Tensor:
    return sw.tensor(np.random.default_rng(seed).standard_normal(shape))


def fixed(module: nn.Module) -> nn.Module:
    """The same values on every rank, in float64."""
    rng = np.random.default_rng(3)
    for parameter in module.parameters():
        parameter.data = rng.standard_normal(parameter.shape) / 3
    for buffer in module.buffers():
        if buffer.dtype.kind == "f":
            buffer.data = buffer.data.astype(np.float64)
    return module


def row(count: int, width: int = 4) -> nn.Sequential:
    model = nn.Sequential(*(nn.Linear(width, width) for _ in range(count)))
    fixed(model)
    return model


def modules(pipe: Pipe) -> list[tuple[str, ...]]:
    return [stage.modules for stage in pipe.info().stages]


def mlp() -> nn.Module:
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [nn.Linear(5, 5), nn.Tanh(), nn.Dropout(0.2)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Skips: each level of the way down goes to that of the way up."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(2 * 2**i, 4 * 2**i, 3, padding=1) for i in range(2)])
        self.norms = nn.ModuleList([nn.BatchNorm2d(4 * 2**i) for i in range(2)])
        self.middle = nn.Conv2d(8, 8, 3, padding=1)
        self.up = nn.ModuleList([nn.Conv2d(16, 4, 3, padding=1), nn.Conv2d(8, 2, 3, padding=1)])

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for conv, norm in zip(self.down, self.norms, strict=True):
            x = F.relu(norm(conv(x)))
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for conv in self.up:
            x = conv(sw.cat([F.interpolate(x, scale_factor=2), skips.pop()], 1))
        return x


class Tied(nn.Module):
    """The embedding is the head as well; its table is looked at in the middle, too."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, index: Tensor) -> Tensor:
        x = self.embedding(index)
        for layer in self.layers:
            x = x + layer(x).tanh() * self.embedding.weight[0]
        return self.head(x)


class Twice(nn.Module):
    """One module, with dropout in it, that is called three times, with an op between."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.shared = nn.Linear(5, 5), nn.Sequential(nn.Linear(5, 5), nn.Dropout(0.3))
        self.last = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.shared(self.first(x))
        pipe_split()
        x = self.shared(x.sin()) + x
        pipe_split()
        return self.last(self.shared(x))


class Outputs(nn.Module):
    """Several results, nested, one of them from an early stage, one an integer, one that has no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(5, 4), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor, scale: float) -> dict[str, Any]:
        early = self.a(x) * scale
        pipe_split()
        middle, count = self.b(early).relu(), (early > 0).sum()
        pipe_split()
        return {"late": self.c(middle), "more": (early.detach(), [middle.sum(), count, early.exp()])}


class InPlace(nn.Module):
    """Writes into tensors that came over a cut, and into what looks at others."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(5, 5) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        y = self.layers[0](x)
        kept = y * 1.0
        pipe_split()
        kept.add_(self.layers[1](y))
        kept[:, 0] = y[:, 1]
        z = y * 2.0
        pipe_split()
        kept.mul_(2.0)
        z.add_(1.0)
        return self.layers[2](z) + kept


class Rotary(nn.Module):
    """A table that is a buffer, one that is made on the way, and a mask made of a keyword argument."""

    table: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", normal(8, 4, seed=1))
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        n = x.shape[1]
        cos = self.table[:n].cos() * 2.0
        place = sw.arange(n, device=x.device)
        causal = place[:, None] >= place[None, :]
        mask = sw.where(keep[:, None, :], 0.0, -30.0).astype(np.float64)
        for layer in self.layers:
            scores = layer(x * cos) @ x.transpose(1, 2) + mask
            weights = sw.where(causal, scores, -30.0).softmax(-1)
            x = x + weights @ x
        return x


class Encoder(nn.Module):
    """The library's own transformer, with a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Linear(3, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3, norm=nn.LayerNorm(8))
        self.out = nn.Linear(8, 2)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.out(self.encoder(self.into(x), src_key_padding_mask=mask))


class Convolutions(nn.Module):
    """Batch normalisation, whose statistics its own stage keeps; a flattening that reads the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True),
            nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6, momentum=None), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        )  # fmt: skip
        self.head = nn.Linear(6 * 2 * 2, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)
        return self.head(x.view(x.shape[0], -1))


class Frozen(nn.Module):
    """Layers that do not learn, in front and in the middle."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(5, 5) for _ in range(4)))
        self.scale = nn.Parameter(sw.ones(5))
        for i in (0, 2):
            self.layers[i].requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x) * self.scale


class Recurrent(nn.Module):
    """Results of a module in a nest of tuples; an attribute that one module leaves for another."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.linear = nn.LSTM(4, 5, batch_first=True), nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        out, (h, c) = self.rnn(x)
        self.last = h[-1] + c[-1]
        y = self.linear(out)
        pipe_split()
        return y.sum(1) @ sw.ones(4, 5, dtype=np.float64) * self.last


class Contexts(nn.Module):
    """Blocks that are recomputed, a stretch without a tape and one of 16 bits, each with a cut inside."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(5, 5), nn.Dropout(0.2)) for _ in range(4)])

    def forward(self, x: Tensor) -> Tensor:
        x = sw.recompute(self.blocks[0], x)
        with sw.no_grad():
            fixed = self.blocks[1](x)
            pipe_split()
            fixed = fixed.sin() + self.blocks[1](x)
        x = sw.recompute(self.blocks[2], x) + fixed
        with sw.autocast():
            low = (x @ self.blocks[2][0].weight).astype(np.float64)
            pipe_split()
            low = low + x @ self.blocks[3][0].weight
        return sw.recompute(lambda y: self.blocks[3](y).tanh(), low.astype(np.float64))


class Hooked(nn.Module):
    """Hooks that change what goes in, what comes out, and gradients; on the model as well."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(5, 5) for _ in range(3)])
        for i, layer in enumerate(self.layers):
            layer.register_forward_pre_hook(lambda module, args, i=i: (args[0] * (i + 1.0),))
            layer.register_forward_hook(lambda module, args, output: (output, output.exp()))
            if i:
                layer.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 0.5,))
        self.register_forward_pre_hook(lambda module, args: (args[0] * 2.0,))
        self.register_forward_hook(lambda module, args, output: output + args[0])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x, y = layer(x)
            x = x + y.tanh()
        return x


def ids(rows: int) -> Tensor:
    return sw.tensor(np.random.default_rng(rows).integers(0, 11, (rows, 7)))


CASES: dict[str, Case] = {
    "mlp": Case(mlp, lambda n: (normal(n, 5),), {"3": BEGINNING, "5": END, "9": BEGINNING}),
    "gpt": Case(
        lambda: GPT(3, 8, 2, 7, 0.1), lambda n: (ids(n),), {"blocks.1": BEGINNING, "blocks.2.down": END},
        lambda n: {"target": ids(n)},
    ),
    "inside a block": Case(
        lambda: GPT(2, 8, 2, 7, 0.1), lambda n: (ids(n),),
        {"recent.2": BEGINNING, "blocks.0.proj": BEGINNING, "blocks.1.norm2": END},
    ),
    "unet": Case(
        UNet, lambda n: (normal(n, 2, 8, 8),), {"down.1": BEGINNING, "middle": BEGINNING, "up.0": BEGINNING}
    ),
    "tied": Case(
        Tied, lambda n: (ids(n),), {"layers.0": BEGINNING, "layers.2": BEGINNING, "head": BEGINNING}
    ),
    "twice": Case(Twice, lambda n: (normal(n, 5),), None),
    "outputs": Case(Outputs, lambda n: (normal(n, 5), 1.5), None),
    "in place": Case(InPlace, lambda n: (normal(n, 5),), None),
    "rotary": Case(
        Rotary, lambda n: (normal(n, 6, 4),), {"layers.1": BEGINNING, "layers.2": BEGINNING},
        lambda n: {"keep": sw.tensor(np.random.default_rng(1).random((n, 6)) < 0.8)},
    ),
    "encoder": Case(
        Encoder, lambda n: (normal(n, 5, 3),),
        {"encoder.layers.1": BEGINNING, "encoder.layers.2.norm1": BEGINNING, "out": BEGINNING},
        lambda n: {"mask": sw.tensor(np.random.default_rng(1).random((n, 5)) < 0.2)},
    ),
    "convolutions": Case(
        Convolutions, lambda n: (normal(n, 2, 9, 9),),
        {"features.1": END, "features.4": BEGINNING, "head": BEGINNING},
    ),
    "frozen": Case(Frozen, lambda n: (normal(n, 5),), {f"layers.{i}": BEGINNING for i in (1, 2, 3)}),
    "contexts": Case(Contexts, lambda n: (normal(n, 5),), None),
    "hooked": Case(Hooked, lambda n: (normal(n, 5),), {"layers.1": BEGINNING, "layers.2": BEGINNING}),
    "recurrent": Case(Recurrent, lambda n: (normal(n, 3, 4),), None),
}  # fmt: skip
