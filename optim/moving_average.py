"""A running average of parameters, which is often better than where they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ArgumentError, ModuleError
from shardwise.backend.kernels.optimizer.optimizer import approach
from shardwise.optim.elementwise import parts_of
from shardwise.optim.saved_state import taken_over
from shardwise.tensor import Tensor

__all__ = ["ExponentialMovingAverage"]


class ExponentialMovingAverage:
    """Averages parameters over the steps of a training, the last ones most (Polyak and Juditsky 1992).

    Parameters
    ----------
    parameters : iterable of Tensor
        They are followed: `update` reads them where they are then.
    decay : float
        How much of the average stays at each update.
    use_num_updates : bool
        Let the decay of update n, from 1, be at most ``(1 + n) / (10 + n)``, so that the average is not held
        where the parameters began.

    Attributes
    ----------
    averages : list of Array
        In the order of the parameters; float32 for parameters of 16 bits, which could not hold small changes.
    num_updates : int

    Examples
    --------
    >>> import shardwise as sw
    >>> p = sw.zeros(1)
    >>> average = ExponentialMovingAverage([p], decay=0.5)
    >>> for value in (1.0, 2.0):
    ...     _ = p.fill_(value)
    ...     average.update()
    >>> with average.average_parameters():
    ...     print(p.item())
    1.25
    >>> p.item()
    2.0
    """

    def __init__(
        self, parameters: Iterable[Tensor], decay: float = 0.999, use_num_updates: bool = False
    ) -> None:
        if not 0.0 <= decay <= 1.0:
            raise ArgumentError(f"ExponentialMovingAverage needs decay between 0 and 1, got {decay}")
        self.decay, self.use_num_updates, self.num_updates = decay, use_num_updates, 0
        self._parameters = list(parameters)
        for i, p in enumerate(self._parameters):
            if not isinstance(p, Tensor):
                raise ModuleError(
                    f"parameter {i} of ExponentialMovingAverage is a {type(p).__name__}, not a Tensor"
                )
        self.averages = [_widened(p.data) for p in self._parameters]

    def update(self) -> None:
        """Let the averages follow the parameters; call it after each step of the optimizer."""
        self.num_updates += 1
        decay = self.decay
        if self.use_num_updates:
            decay = min(decay, (1 + self.num_updates) / (10 + self.num_updates))
        arrays = [p.data for p in self._parameters]
        approach([parts_of(self.averages), parts_of(arrays)], [(1.0 - decay,)] * len(arrays))

    def copy_to(self, parameters: Iterable[Tensor] | None = None) -> None:
        """Write the averages into the parameters, or into others like them."""
        targets = self._parameters if parameters is None else list(parameters)
        _check_shapes([p.data for p in targets], self.averages, "parameters")
        _write(targets, self.averages)

    @contextmanager
    def average_parameters(self) -> Iterator[None]:
        """Put the averages in place of the parameters inside the ``with`` block, to evaluate the model."""
        kept = [p.data.copy() for p in self._parameters]
        _write(self._parameters, self.averages)
        try:
            yield
        finally:
            _write(self._parameters, kept)

    def state_dict(self) -> dict[str, Any]:
        """Return the averages, which are shared, and the options."""
        return {
            "decay": self.decay,
            "use_num_updates": self.use_num_updates,
            "num_updates": self.num_updates,
            "averages": list(self.averages),
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over a saved state; arrays are copied.

        Raises
        ------
        ModuleError
            It is of other parameters. Nothing is changed then.
        """
        arrays = [
            taken_over(array, own.dtype, p)
            for array, own, p in zip(state_dict["averages"], self.averages, self._parameters, strict=False)
        ]
        _check_shapes(state_dict["averages"], self.averages, "saved averages")
        self.averages = arrays
        self.decay, self.use_num_updates = state_dict["decay"], state_dict["use_num_updates"]
        self.num_updates = state_dict["num_updates"]


def _widened(array: Array) -> Array:
    """Copy an array; one of 16-bit floats in float32."""
    return array.astype(np.float32) if array.dtype.itemsize == 2 else array.copy()


def _check_shapes(given: Sequence[Array], own: Sequence[Array], what: str) -> None:
    shapes, wanted = [tuple(array.shape) for array in given], [array.shape for array in own]
    if shapes != wanted:
        raise ModuleError(f"ExponentialMovingAverage: the {what} have shapes {shapes}; wanted {wanted}")


def _write(targets: Sequence[Tensor], arrays: Sequence[Array]) -> None:
    for target, array in zip(targets, arrays, strict=True):
        target.data[...] = array.astype(target.data.dtype)
        target.version.count += 1
