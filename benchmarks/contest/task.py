"""What both sides are given: the sizes of a GPT, its initial weights, and batches of tokens."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["FULL", "LEARNING_RATE", "TINY", "WEIGHT_DECAY", "Task"]

LEARNING_RATE = 1e-3
WEIGHT_DECAY = 0.01


@dataclass(frozen=True, slots=True)
class Task:
    """A decoder-only transformer with pre-norm blocks and erf GELU, trained in float32 by AdamW.

    Attributes
    ----------
    batch : int
        Sequences per rank and step.
    """

    layers: int
    dim: int
    heads: int
    context: int
    batch: int
    vocabulary: int = 256

    @property
    def tokens(self) -> int:
        """Tokens per rank and step."""
        return self.batch * self.context

    @property
    def product(self) -> tuple[int, int, int]:
        """The largest matrix product as (rows, inner, columns): the first linear layer of an MLP."""
        return self.tokens, self.dim, 4 * self.dim

    def weights(self) -> dict[str, npt.NDArray[np.float32]]:
        """Initial weights by name, the same everywhere: matrices normal, deviation 0.02; norms 1 and 0."""
        rng = np.random.default_rng(0)
        return {
            name: rng.normal(0.0, 0.02, shape).astype(np.float32)
            if len(shape) == 2
            else np.full(shape, float(name.endswith("weight")), np.float32)
            for name, shape in self._shapes().items()
        }

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        dim = self.dim
        shapes: dict[str, tuple[int, ...]] = {
            "wte.weight": (self.vocabulary, dim),
            "wpe.weight": (self.context, dim),
        }
        for i in range(self.layers):
            for name, rows, columns in (
                ("qkv", 3 * dim, dim),
                ("proj", dim, dim),
                ("fc", 4 * dim, dim),
                ("out", dim, 4 * dim),
            ):
                shapes |= {f"h.{i}.{name}.weight": (rows, columns), f"h.{i}.{name}.bias": (rows,)}
            for name in ("ln1", "ln2"):
                shapes |= {f"h.{i}.{name}.weight": (dim,), f"h.{i}.{name}.bias": (dim,)}
        return shapes | {
            "lnf.weight": (dim,),
            "lnf.bias": (dim,),
            "head.weight": (self.vocabulary, dim),
        }

    def rows(self, rank: int, step: int) -> npt.NDArray[np.int64]:
        """The tokens of one rank at one step, shape (batch, context + 1).

        Low numbers are more frequent, so that there is something to learn and the loss falls at once:
        a side whose gradients are wrong is found out by its losses.
        """
        u = np.random.default_rng((rank, step)).random((self.batch, self.context + 1))
        return (self.vocabulary * u**3).astype(np.int64)

    def without_data(self) -> Task:
        """The same calls on next to no data: what its step takes is the price of making the calls."""
        return Task(self.layers, dim=8, heads=2, context=4, batch=1, vocabulary=16)

    def to_json(self) -> str:
        """Write it on one line, for the command line of a worker."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Task:
        """Read what `to_json` wrote."""
        return cls(**json.loads(text))


FULL = Task(layers=4, dim=256, heads=8, context=128, batch=16)
TINY = Task(layers=1, dim=16, heads=2, context=8, batch=2)
