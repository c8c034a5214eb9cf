"""One operation that both sides are measured at, and what the machine would need for it at least."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Arrays", "Draw", "Operation"]

Arrays: TypeAlias = Sequence[npt.NDArray[Any]]


class Draw:
    """Makes the inputs, the same for both sides."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)

    def normal(self, *shape: int) -> npt.NDArray[np.float32]:
        """Return float32 numbers around 0."""
        return self._rng.standard_normal(shape, np.float32)

    def below(self, limit: int, *shape: int) -> npt.NDArray[np.int64]:
        """Return integers from 0 to `limit`, which is left out."""
        return self._rng.integers(0, limit, shape)

    def coins(self, *shape: int) -> npt.NDArray[np.bool_]:
        """Return booleans without a pattern, which processors cannot guess."""
        return self._rng.random(shape) < 0.5


@dataclass(frozen=True, slots=True)
class Operation:
    """A function of tensors, written once for both libraries.

    Attributes
    ----------
    name : str
    inputs : callable
        ``inputs(draw) -> arrays``. Floats require grad.
    call : callable
        ``call(library, *tensors)`` gives a tensor.
    saved : int
        How many arrays of the size of the result the backward has to read beside its gradient.
    free : bool
        The backward moves nothing: its gradients are views, or were made by the forward.
    flops : int
        Floating-point operations of a forward, where these and not the memory are the limit.
    """

    name: str
    inputs: Callable[[Draw], Arrays]
    call: Callable[..., Any]
    saved: int = 0
    flops: int = 0
    free: bool = False

    def least_bytes(self, arrays: Arrays, result_bytes: int) -> tuple[int, int]:
        """Return what a forward and a backward have to read and write at least.

        Parameters
        ----------
        arrays : sequence of array
            The inputs.
        result_bytes : int
        """
        given = sum(array.nbytes for array in arrays)
        gradients = sum(array.nbytes for array in arrays if array.dtype.kind == "f")
        return given + result_bytes, (1 + self.saved) * result_bytes + gradients
