"""The peer behind the names of ``library.py``, on one thread."""

from __future__ import annotations

import torch

from contest.library import Library
from contest.torch_kernels import TORCH

__all__ = ["peer"]


def peer() -> Library:
    """Return torch."""
    torch.set_num_threads(1)
    return Library(
        torch, torch.nn.functional, torch.nn, torch.optim, torch.autograd.grad, torch.from_numpy, TORCH
    )
