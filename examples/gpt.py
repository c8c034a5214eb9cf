"""A byte-level GPT, and how it is split over ranks; train_gpt.py trains it."""

from __future__ import annotations

import shardwise as sw
from shardwise import nn
from shardwise.dtensor import Partial, Replicate, Shard, distribute_module
from shardwise.nn import functional as F
from shardwise.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, parallelize_module


class Block(nn.Module):
    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, nn.Dropout(dropout)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x: sw.Tensor) -> sw.Tensor:
        b, t, d = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, t, self.heads, 3, d // self.heads).permute(3, 0, 2, 1, 4)
        y = F.scaled_dot_product_attention(*qkv.unbind(0), is_causal=True)
        x = x + self.dropout(self.proj(y.transpose(1, 2).reshape(b, t, d)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")))


class GPT(nn.Module):
    def __init__(self, layers: int, dim: int, heads: int, context: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.context, self.place, self.dropout = context, nn.Embedding(context, dim), nn.Dropout(dropout)
        self.recent = nn.ModuleList(nn.Embedding(256, dim) for _ in range(4))  # of a byte and the 3 before it
        self.blocks = nn.Sequential(*(Block(dim, heads, dropout) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 256, bias=False)
        for p in (p for p in self.parameters() if p.ndim == 2):
            nn.init.normal_(p, std=0.02)

    def forward(self, index: sw.Tensor, target: sw.Tensor | None = None) -> sw.Tensor:
        length, past = index.shape[1], F.pad(index, (3, 0)).to(self.norm.weight.device)
        seen = (e(past[:, k : k + length]) for k, e in enumerate(self.recent))
        x = sum(seen, self.place.weight[:length])
        out = self.head(self.norm(self.blocks(self.dropout(x))))
        return out if target is None else F.cross_entropy(out.view(-1, 256), target.view(-1).to(out.device))


def split(model: GPT, mesh: sw.DeviceMesh, sequence: bool = False) -> GPT:
    """Split heads, hidden units and bytes over the ranks of a mesh; between them the sequence, if wanted.

    Per block, forward and backward, this takes two all-reduces each; with `sequence` two all-gathers and two
    reduce-scatters, which move as much, while norms, dropout and sums work on a part of the sequence.
    """
    everywhere, between = Replicate(), Shard(1) if sequence else Replicate()
    cut = ColwiseParallel(use_local_output=False)
    add = RowwiseParallel(output_layouts=between, use_local_output=False)
    plan = {
        "": PrepareModuleInput(input_layouts=(everywhere,) * 2, desired_input_layouts=(everywhere,) * 2),
        "recent.*": RowwiseParallel(output_layouts=Partial(), use_local_output=False),  # added up at once, in
        "dropout": PrepareModuleInput(input_layouts=between, desired_input_layouts=between),  # front of this
        "blocks.*.qkv": cut,
        "blocks.*.proj": add,
        "blocks.*.up": cut,
        "blocks.*.down": add,
        "head": cut,
    }
    parallelize_module(model, mesh, plan)
    distribute_module(model, mesh)  # what the plan does not name is the same on all ranks
    return model
