"""Filling a tensor with random numbers, in place.

The bits come from the streams of :mod:`shardwise.tensor.random`, as those of ``sw.rand`` do: they depend
on the seed, on the draw, and on where an element lies in the global batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from shardwise.backend import random as bits
from shardwise.backend.errors import ArgumentError, DTypeError
from shardwise.tensor.methods.carrier import Carrier, Operand
from shardwise.tensor.methods.in_place import InPlace
from shardwise.tensor.methods.lottery import draw_by_weight
from shardwise.tensor.ops import arithmetic, comparison
from shardwise.tensor.part import in_parts
from shardwise.tensor.random import Draw, next_draw
from shardwise.tensor.signature import Part

__all__ = ["Filling"]


class Filling(InPlace):
    """What replaces every element by a random number."""

    def uniform_(self, from_: float = 0.0, to: float = 1.0) -> Self:
        """Draw every element from [from_, to)."""
        if not to >= from_:
            raise ArgumentError(f"uniform_: the range must not end before it starts, got [{from_}, {to})")
        return self._filled("uniform_", bits.uniform, lambda drawn: from_ + (to - from_) * drawn)

    def normal_(self, mean: float = 0.0, std: float = 1.0) -> Self:
        """Draw every element from the normal distribution."""
        if not std >= 0:
            raise ArgumentError(f"normal_: the standard deviation must be at least 0, got {std}")
        return self._filled("normal_", bits.normal, lambda drawn: mean + std * drawn)

    def log_normal_(self, mean: float = 1.0, std: float = 2.0) -> Self:
        """Draw every element as the exponential of a normal number."""
        if not std > 0:
            raise ArgumentError(f"log_normal_: the standard deviation must be above 0, got {std}")
        return self._filled("log_normal_", bits.normal, lambda drawn: np.exp(mean + std * drawn))

    def exponential_(self, lambd: float = 1.0) -> Self:
        """Draw every element from the density ``lambd * exp(-lambd * x)`` above 0."""
        if not lambd > 0:
            raise ArgumentError(f"exponential_: the rate must be above 0, got {lambd}")
        # What is drawn is below 1, so that the logarithm is finite.
        return self._filled("exponential_", bits.uniform, lambda drawn: np.log1p(-drawn) * (-1.0 / lambd))

    def cauchy_(self, median: float = 0.0, sigma: float = 1.0) -> Self:
        """Draw every element from the Cauchy distribution."""
        if not sigma > 0:
            raise ArgumentError(f"cauchy_: the width must be above 0, got {sigma}")
        return self._filled(
            "cauchy_", bits.uniform, lambda drawn: median + sigma * np.tan(math.pi * (drawn - 0.5))
        )

    def geometric_(self, p: float) -> Self:
        """Draw every element as the number of trials up to the first success, each of probability `p`."""
        if not 0 < p < 1:
            raise ArgumentError(f"geometric_: the probability must be between 0 and 1, got {p}")
        draw, dtype = next_draw(), self.data.dtype

        def make(part: Part, local: Any) -> Any:
            drawn = bits.uniform(part.shape, np.float64, draw.seed, draw.stream, draw.place(part), local)
            return np.maximum(np.ceil(np.log1p(-drawn) / math.log1p(-p)), 1.0).astype(dtype)

        return self._put_numbers("geometric_", self._parted(make))

    def bernoulli_(self, p: Operand = 0.5) -> Self:
        """Write 1 with probability `p`, a number or a tensor that broadcasts, and 0 else."""
        draw = next_draw()
        if isinstance(p, (int, float)):
            array = self._parted(
                lambda part, local: bits.bernoulli(
                    part.shape, p, draw.seed, draw.stream, draw.place(part), local
                )
            )
        else:
            _check_probabilities("bernoulli_", p)
            success: Any = self._trials(draw, p)
            array = success.data
        return self._put_numbers("bernoulli_", array)

    def multinomial(self, num_samples: int, replacement: bool = False) -> Self:
        """Return indices drawn with probabilities in proportion to these weights; see ``sw.multinomial``."""
        drawn: Self = draw_by_weight(self, num_samples, replacement)
        return drawn

    def bernoulli(self) -> Self:
        """Return 1 where a trial succeeds whose probability is the element, and 0 else; without gradient."""
        draw = next_draw()
        _check_probabilities("bernoulli", self)
        return arithmetic.Cast.apply(self._trials(draw, self), dtype=self.data.dtype)

    def _trials(self, draw: Draw, chances: Any) -> Self:
        """Return, in the shape of this tensor, whether trials of these chances succeed."""
        drawn: Any = in_parts(
            self,
            lambda part, local: bits.uniform(
                part.shape, np.float64, draw.seed, draw.stream, draw.place(part), local
            ),
        )
        success: Self = comparison.Less.apply(drawn, chances)
        return success

    def random_(self, from_: int = 0, to: int | None = None) -> Self:
        """Draw every element from the integers from `from_` up to and without `to`.

        With one number only, that is `to`. Without any, all that the dtype holds, and for floats all up to
        the largest that still has a unit of 1.
        """
        low, high = (from_, to) if to is not None else (0, from_ or _most(self.data.dtype) + 1)
        if not high > low:
            raise ArgumentError(f"random_: the range must end behind its start, got [{low}, {high})")
        draw, dtype = next_draw(), self.data.dtype

        def make(part: Part, local: Any) -> Any:
            drawn = bits.integers(low, high, part.shape, draw.seed, draw.stream, draw.place(part), local)
            return drawn.astype(dtype)

        return self._put_numbers("random_", self._parted(make))

    def _filled(self, name: str, distribution: Any, turned: Callable[[Any], Any]) -> Self:
        """Write random floats, turned into those of another distribution."""
        dtype = self.data.dtype
        if dtype.kind not in "fV":
            raise DTypeError(f"{name} fills floating tensors, and this is {dtype}; cast with astype() first")
        draw = next_draw()

        def make(part: Part, local: Any) -> Any:
            return turned(distribution(part.shape, dtype, draw.seed, draw.stream, draw.place(part), local))

        return self._put_numbers(name, self._parted(make))

    def _put_numbers(self, name: str, array: Any) -> Self:
        return self._put(name, array, self._tracked(name))


def _check_probabilities(name: str, chances: Any) -> None:
    values: Any = chances if isinstance(chances, Carrier) else np.asarray(chances)
    if not bool(((values >= 0) & (values <= 1)).all()):
        raise ArgumentError(f"{name}: wanted probabilities from 0 to 1; clamp() them first")


def _most(dtype: np.dtype[Any]) -> int:
    """Return the largest integer up to which `dtype` holds all, within int64."""
    if dtype.kind == "b":
        return 1
    if dtype.kind in "iu":
        return min(int(np.iinfo(dtype).max), 2**63 - 2)
    return int(2 ** {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}[dtype.name])
