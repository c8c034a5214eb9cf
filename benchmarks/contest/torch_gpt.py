"""The task done with torch: eager mode, fused AdamW, DDP on gloo; the twin of ``gpt.py``."""

from __future__ import annotations

import contextlib
import time
from datetime import timedelta
from functools import cached_property
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn, optim
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from contest.task import LEARNING_RATE, WEIGHT_DECAY, Task
from contest.trainee import Lap, rate_of_product

__all__ = ["Torch"]


class Block(nn.Module):
    """Attention and an MLP, each added to its input."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        dim, self.heads = task.dim, task.heads
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.fc, self.out = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, context, dim) to the same shape."""
        b, t, d = x.shape
        qkv = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        mlp: torch.Tensor = self.out(F.gelu(self.fc(self.ln2(x))))
        return x + mlp


class GPT(nn.Module):
    """The model, with its loss."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.wte = nn.Embedding(task.vocabulary, task.dim)
        self.wpe = nn.Embedding(task.context, task.dim)
        self.h = nn.ModuleList(Block(task) for _ in range(task.layers))
        self.lnf, self.head = nn.LayerNorm(task.dim), nn.Linear(task.dim, task.vocabulary, bias=False)

    def forward(self, index: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return the mean loss of predicting `target` from `index`, both of shape (batch, context)."""
        x = self.wte(index) + self.wpe.weight
        for block in self.h:
            x = block(x)
        logits = self.head(self.lnf(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), target.view(-1))


class Torch:
    """One process of torch; see `contest.trainee.Trainee`.

    Parameters
    ----------
    meeting : Path
        A file through which the processes find each other.
    """

    def __init__(self, task: Task, rank: int, size: int, meeting: Path) -> None:
        torch.set_num_threads(1)
        torch.set_num_interop_threads(1)
        self.task, self.rank, self.size = task, rank, size
        self.steps = 0
        model = GPT(task)
        model.load_state_dict({name: torch.from_numpy(w) for name, w in task.weights().items()})
        self._parallel = None
        if size > 1:
            dist.init_process_group(
                "gloo", f"file://{meeting}", timedelta(minutes=5), rank=rank, world_size=size
            )
            self._parallel = DistributedDataParallel(model)
        self._model: nn.Module = model if self._parallel is None else self._parallel
        self._optimizer = optim.AdamW(
            model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True
        )

    def step(self, synchronised: bool = True) -> Lap:
        """Do one step and say what it took."""
        rows = torch.from_numpy(self.task.rows(self.rank, self.steps))
        index, target = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
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
        """Wait for the other processes."""
        if self.size > 1:
            dist.barrier()

    def all_reduce(self) -> float:
        """Sum as many numbers as there are gradients, with nothing beside it; return seconds."""
        start = time.perf_counter()
        dist.all_reduce(self._flat)
        return time.perf_counter() - start

    def product(self) -> float:
        """Return the operations a second of the task's largest product."""
        rows, inner, columns = self.task.product
        x, weight, out = torch.ones(rows, inner), torch.ones(columns, inner), torch.empty(rows, columns)
        return rate_of_product(self.task, lambda: torch.mm(x, weight.t(), out=out))

    def close(self) -> None:
        """Leave the process group."""
        if self.size > 1:
            dist.destroy_process_group()

    @cached_property
    def _flat(self) -> torch.Tensor:
        return torch.zeros(sum(w.size for w in self.task.weights().values()))
