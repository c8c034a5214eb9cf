"""An agent learns to balance a pole from observers elsewhere: shardwise run -n 3 examples/rl_agents.py

Rank 0 is the agent: it has the policy. The others are observers: each has a cart with a pole on it, and asks
the agent for every move. The agent waits until all observers have asked, computes one batch, and answers them
all at once: `select_action` returns a Future, so that no thread waits meanwhile. After each round of episodes
it learns from the rewards by REINFORCE (Williams 1992).
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Sequence

import numpy as np

import shardwise as sw
from shardwise import nn, optim, rpc

GAMMA, LIMIT = 0.99, 200


class CartPole:
    """A pole on a cart, as Barto, Sutton and Anderson (1983) have it: push left or right, every 20 ms."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self.state = np.zeros(4)

    def reset(self) -> np.ndarray:
        self.state = self._rng.uniform(-0.05, 0.05, 4)
        return self.state

    def step(self, action: int) -> tuple[np.ndarray, bool]:
        """Push; give the new state (place, speed, angle, its speed) and whether it has fallen."""
        x, v, angle, spin = self.state
        force = 10.0 if action else -10.0
        sine, cosine = np.sin(angle), np.cos(angle)
        push = (force + 0.05 * spin**2 * sine) / 1.1
        turn = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
        shift = push - 0.05 * turn * cosine / 1.1
        self.state = self.state + 0.02 * np.array([v, shift, spin, turn])
        x, _, angle, _ = self.state
        return self.state, bool(abs(x) > 2.4 or abs(angle) > 0.2095)


class Agent:
    """Has the policy; moves all observers in step, so that what it learns depends on no timing."""

    def __init__(self, observers: int) -> None:
        sw.manual_seed(1)
        self.policy = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
        self.optimizer = optim.Adam(self.policy.parameters(), lr=1e-2)
        self._rng = np.random.default_rng(0)
        self._playing = self._observers = observers
        self._lock = threading.Lock()
        self._asked: dict[int, np.ndarray] = {}
        self._moves: rpc.Future[dict[int, int]] = rpc.Future()
        self._chosen: dict[int, list[sw.Tensor]] = {}

    @rpc.functions.async_execution
    def select_action(self, observer: int, state: np.ndarray) -> rpc.Future[int]:
        """Choose a move for one observer, together with those of all others that play."""
        with self._lock:
            self._asked[observer] = state
            answer = self._moves.then(lambda moves: moves.value()[observer])
            self._choose_if_all_have_asked()
        return answer

    def fell(self, observer: int) -> None:
        """Note that an observer's episode has ended."""
        with self._lock:
            self._playing -= 1
            self._choose_if_all_have_asked()

    def _choose_if_all_have_asked(self) -> None:
        if not self._asked or len(self._asked) < self._playing:
            return
        asked = sorted(self._asked)
        batch = sw.tensor(np.stack([self._asked[each] for each in asked]).astype(np.float32))
        log_p = self.policy(batch).log_softmax(dim=1)
        draws = (self._rng.random(len(asked)) < np.exp(log_p.detach().numpy()[:, 1])).astype(int)
        for row, each in enumerate(asked):
            self._chosen.setdefault(each, []).append(log_p[row, int(draws[row])])
        moves, self._moves, self._asked = self._moves, rpc.Future(), {}
        moves.set_result({each: int(draw) for each, draw in zip(asked, draws, strict=True)})

    def learn(self) -> float:
        """Learn from one episode of each observer; gives how long they lasted on average."""
        lengths = [len(self._chosen[each]) for each in sorted(self._chosen)]
        returns = [np.array([(1 - GAMMA ** (n - t)) / (1 - GAMMA) for t in range(n)]) for n in lengths]
        every = np.concatenate(returns)
        weights = sw.tensor(((every - every.mean()) / (every.std() + 1e-6)).astype(np.float32))
        log_p = sw.stack([each for observer in sorted(self._chosen) for each in self._chosen[observer]])
        self.optimizer.zero_grad()
        (-(log_p * weights).sum() / len(lengths)).backward()
        self.optimizer.step()
        self._chosen, self._playing = {}, self._observers
        return float(np.mean(lengths))


CARTS: dict[int, CartPole] = {}  # of the observers on this rank


def play_episode(agent: rpc.RRef[Agent], observer: int) -> int:
    """Play until the pole falls; runs on the observer, and calls the agent back."""
    cart = CARTS.setdefault(observer, CartPole(observer))
    state, fallen, steps = cart.reset(), False, 0
    while not fallen and steps < LIMIT:
        state, fallen = cart.step(agent.rpc_sync().select_action(observer, state))
        steps += 1
    agent.rpc_sync().fell(observer)
    return steps


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=120)
    options = parser.parse_args(argv)
    rank, observers = sw.rank(), sw.world_size() - 1
    if not observers:
        raise SystemExit("an agent and an observer are two ranks at least: shardwise run -n 2")
    rpc.init_rpc("agent" if rank == 0 else f"observer{rank}")
    if rank == 0:
        agent = rpc.RRef(Agent(observers))
        lasted = []
        for round in range(options.rounds):
            names = [f"observer{each}" for each in range(1, observers + 1)]
            rpc.wait_all([rpc.rpc_async(name, play_episode, (agent, i)) for i, name in enumerate(names, 1)])
            lasted.append(agent.local_value().learn())
            if round % 20 == 0:
                print(f"round {round}: the pole stood for {lasted[-1]:.0f} steps", flush=True)
        print(
            f"{observers} observer(s): from {np.mean(lasted[:10]):.1f} steps to {np.mean(lasted[-10:]):.1f}"
        )
    rpc.shutdown()


if __name__ == "__main__":
    main()
