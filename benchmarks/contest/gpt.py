"""The task done with Shardwise: its model, a training step, and the lone pieces that explain it."""

from __future__ import annotations

import contextlib
import time
from functools import cached_property

import numpy as np

import shardwise as sw
from contest.task import LEARNING_RATE, WEIGHT_DECAY, Task
from contest.trainee import Lap, rate_of_product
from shardwise import nn, optim
from shardwise.nn import functional as F
from shardwise.parallel import DistributedDataParallel

__all__ = ["Ours"]


class Block(nn.Module):
    """Attention and an MLP, each added to its input."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        dim, self.heads = task.dim, task.heads
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.fc, self.out = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x: sw.Tensor) -> sw.Tensor:
        """Map (batch, context, dim) to the same shape."""
        b, t, d = x.shape
        qkv = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        mlp: sw.Tensor = self.out(F.gelu(self.fc(self.ln2(x))))
        return x + mlp


class GPT(nn.Module):
    """The model, with its loss."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.wte = nn.Embedding(task.vocabulary, task.dim)
        self.wpe = nn.Embedding(task.context, task.dim)
        self.h = nn.ModuleList(Block(task) for _ in range(task.layers))
        self.lnf, self.head = nn.LayerNorm(task.dim), nn.Linear(task.dim, task.vocabulary, bias=False)

    def forward(self, index: sw.Tensor, target: sw.Tensor) -> sw.Tensor:
        """Return the mean loss of predicting `target` from `index`, both of shape (batch, context)."""
        x = self.wte(index) + self.wpe.weight
        for block in self.h:
            x = block(x)
        logits = self.head(self.lnf(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), target.view(-1))


class Ours:
    """One rank of Shardwise; see `contest.trainee.Trainee`."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.rank, self.size = sw.rank(), sw.world_size()
        self.steps = 0
        model = GPT(task)
        model.load_state_dict(task.weights())
        self._parallel = DistributedDataParallel(model) if self.size > 1 else None
        self._model: nn.Module = model if self._parallel is None else self._parallel
        self._optimizer = optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)

    def step(self, synchronised: bool = True) -> Lap:
        """Do one step and say what it took."""
        rows = self.task.rows(self.rank, self.steps)
        index, target = sw.tensor(rows[:, :-1]), sw.tensor(rows[:, 1:])
        self.steps += 1
        parallel = None if synchronised else self._parallel
        with contextlib.nullcontext() if parallel is None else parallel.no_sync():
            start = time.perf_counter()
            loss = self._model(index, target)
            middle = time.perf_counter()
            loss.backward()
            end = time.perf_counter()
        self._optimizer.step()
        self._optimizer.zero_grad()
        done = time.perf_counter()
        return Lap(loss.item(), middle - start, end - middle, done - end)

    def barrier(self) -> None:
        """Wait for the other ranks."""
        if self.size > 1:
            sw.barrier()

    def all_reduce(self) -> float:
        """Average as many numbers as there are gradients, with nothing beside it; return seconds."""
        start = time.perf_counter()
        sw.all_reduce(self._flat, "avg", out=self._flat)
        return time.perf_counter() - start

    def product(self) -> float:
        """Return the operations a second of the task's largest product."""
        rows, inner, columns = self.task.product
        x, weight = np.ones((rows, inner), np.float32), np.ones((columns, inner), np.float32)
        out = np.empty((rows, columns), np.float32)
        return rate_of_product(self.task, lambda: np.matmul(x, weight.T, out=out))

    def close(self) -> None:
        """Leave the world."""
        sw.shutdown()

    @cached_property
    def _flat(self) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return np.zeros(sum(w.size for w in self.task.weights().values()), np.float32)
