"""PyTorch's `inference_mode`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from shardwise.tensor.mode import current_mode, override

__all__ = ["inference_mode"]


@contextmanager
def inference_mode(mode: bool = True) -> Iterator[None]:
    """Record nothing on the tape, as `no_grad` does: a context manager, and a decorator.

    Parameters
    ----------
    mode : bool
        If not, the block runs as if this were not here.
    """
    with override(grad=current_mode().grad and not mode):
        yield
