"""Train a classifier of digits with its parameters on a server: shardwise run -n 3
examples/parameter_server.py

Rank 0 is the server, the others are trainers. Two ways to learn (--how):

    batch      trainers compute gradients; the server parks each call until all have come, averages, takes one
               step, and answers all of them with the new parameters (async_execution: no thread waits)
    autograd   the network runs on the server, the loss is the trainer's; backward goes through the calls, and
               each trainer steps the server's parameters when it is ready (Hogwild)
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import shardwise as sw
from shardwise import nn, optim, rpc
from shardwise.nn import functional as F

Arrays = list[np.ndarray]


def build() -> nn.Module:
    sw.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def load(part: int, parts: int) -> tuple[sw.Tensor, sw.Tensor]:
    """Return every `parts`-th digit, from `part` on: images of shape (n, 64), labels of shape (n,)."""
    images, labels = load_digits(return_X_y=True)
    return sw.tensor((images[part::parts] / 16).astype(np.float32)), sw.tensor(labels[part::parts])


class Server:
    """Has the parameters, and changes them."""

    def __init__(self, trainers: int, lr: float) -> None:
        self.model = build()
        self.optimizer = optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        self._trainers = trainers
        self._lock = threading.Lock()
        self._given: dict[int, Arrays] = {}  # by trainer, so that the sum does not depend on who comes first
        self._stepped: rpc.Future[Arrays] = rpc.Future()

    def parameters(self) -> Arrays:
        return [p.detach().numpy() for p in self.model.parameters()]

    def references(self) -> list[rpc.RRef[Any]]:
        return [rpc.RRef(p) for p in self.model.parameters()]

    def forward(self, x: sw.Tensor) -> sw.Tensor:
        result: sw.Tensor = self.model(x)
        return result

    @rpc.functions.async_execution
    def step(self, trainer: int, grads: Arrays) -> rpc.Future[Arrays]:
        """Take the gradients of one trainer; the answer to all of them is what the last one's call makes."""
        with self._lock:
            stepped = self._stepped
            self._given[trainer] = grads
            if len(self._given) < self._trainers:
                return stepped
            given = [self._given[each] for each in sorted(self._given)]
            self._given, self._stepped = {}, rpc.Future()
        for p, *each in zip(self.model.parameters(), *given, strict=True):
            p.grad = sw.tensor(sum(each[1:], each[0]) / len(each))
        self.optimizer.step()
        stepped.set_result(self.parameters())
        return stepped

    def accuracy(self) -> float:
        images, labels = load(0, 4)
        return (self.model(images).argmax(dim=1) == labels).astype(np.float32).mean().item()


def train_batch(server: rpc.RRef[Server], trainer: int, steps: int, trainers: int) -> None:
    """Compute gradients here; the server averages."""
    model, (images, labels) = build(), load(trainer, trainers + 1)
    rng = np.random.default_rng(trainer)
    for _ in range(steps):
        rows = rng.integers(0, len(labels), 32)
        for p in model.parameters():
            p.grad = None
        F.cross_entropy(model(images[rows]), labels[rows]).backward()
        grads = [p.grad.numpy() for p in model.parameters()]
        for p, new in zip(model.parameters(), server.rpc_sync().step(trainer, grads), strict=True):
            p.data[...] = new


def train_autograd(server: rpc.RRef[Server], trainer: int, steps: int, trainers: int) -> None:
    """Compute the loss here, and the rest on the server; one context for each step."""
    images, labels = load(trainer, trainers + 1)
    rng = np.random.default_rng(trainer)
    optimizer = rpc.DistributedOptimizer(optim.SGD, server.rpc_sync().references(), lr=0.1 / trainers)
    for _ in range(steps):
        rows = rng.integers(0, len(labels), 32)
        with rpc.autograd.context() as ctx:
            loss = F.cross_entropy(server.rpc_sync().forward(images[rows]), labels[rows])
            rpc.autograd.backward(ctx, [loss])
            optimizer.step(ctx)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--how", choices=["batch", "autograd"], default="batch")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args(argv)
    rank, trainers = sw.rank(), sw.world_size() - 1
    if not trainers:
        raise SystemExit("a server and a trainer are two ranks at least: shardwise run -n 2")
    rpc.init_rpc("server" if rank == 0 else f"trainer{rank}")
    if rank == 0:
        train = {"batch": train_batch, "autograd": train_autograd}[options.how]
        server = rpc.RRef(Server(trainers, lr=0.1))
        trained = [
            rpc.rpc_async(f"trainer{t}", train, (server, t, options.steps, trainers), timeout=0)
            for t in range(1, trainers + 1)
        ]
        rpc.wait_all(trained)
        accuracy = server.local_value().accuracy()
        print(f"{trainers} trainer(s), {options.steps} steps each: accuracy {accuracy:.3f}")
    rpc.shutdown()


if __name__ == "__main__":
    main()
