"""Small trainings that touch most kernels: their losses on a device are to be those of the CPU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import shardwise as sw
from shardwise import nn, optim
from shardwise.nn import functional as F

__all__ = ["MODELS", "losses"]

STEPS = 4


class Block(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads, self.dropout = heads, nn.Dropout(0.1)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.RMSNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x: sw.Tensor) -> sw.Tensor:
        b, t, d = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*qkv.unbind(0), is_causal=True)
        x = x + self.dropout(self.proj(y.transpose(1, 2).reshape(b, t, d)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")))


class GPT(nn.Module):
    """Tokens: embedding, attention, norms, GELU, dropout, cross-entropy."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(20, 16), nn.Embedding(8, 16)
        self.blocks = nn.Sequential(Block(16, 2), Block(16, 2))
        self.head = nn.Linear(16, 20, bias=False)

    def forward(self, x: sw.Tensor, target: sw.Tensor) -> sw.Tensor:
        tokens = (x[:, 0, 0, :8] * 5.0).abs().long() % 20
        logits = self.head(self.blocks(self.token(tokens) + self.place.weight))
        return F.cross_entropy(logits.view(-1, 20), tokens.view(-1), label_smoothing=0.1)


class Images(nn.Module):
    """Images: convolutions (grouped ones too), batch and group norm, pooling of both kinds, resizing."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm1 = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.deep, self.norm2 = nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.GroupNorm(2, 8)
        self.head = nn.Linear(8, 5)

    def forward(self, x: sw.Tensor, target: sw.Tensor) -> sw.Tensor:
        x = F.max_pool2d(F.silu(self.norm1(self.first(x))), 2)
        x = F.leaky_relu(self.norm2(self.deep(F.interpolate(x, scale_factor=1.5, mode="bilinear"))))
        return F.cross_entropy(self.head(F.adaptive_avg_pool2d(x, 1).flatten(1)), target)


class Sequences(nn.Module):
    """Sequences: LSTM and GRU, gated units, losses of numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru = nn.LSTM(6, 5, batch_first=True, bidirectional=True), nn.GRU(10, 4)
        self.head = nn.Linear(2, 1)

    def forward(self, x: sw.Tensor, target: sw.Tensor) -> sw.Tensor:
        y, _ = self.gru(self.lstm(x[:, 0, :, :6])[0].transpose(0, 1))
        return F.smooth_l1_loss(self.head(F.glu(y[-1]))[:, 0], target.float())


MODELS: dict[str, Callable[[], nn.Module]] = {"gpt": GPT, "images": Images, "sequences": Sequences}


def losses(name: str, device: str) -> list[float]:
    """Train a model for a few steps; the same weights, data and random bits on every device."""
    sw.manual_seed(3)
    model = MODELS[name]().to(device)
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    rng = np.random.default_rng(4)
    seen = []
    for _ in range(STEPS):
        x = sw.tensor(rng.standard_normal((4, 3, 10, 8)).astype(np.float32)).to(device)
        loss = model(x, sw.tensor(rng.integers(0, 5, 4)).to(device))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seen.append(loss.item())
    return seen
