"""The peer's kernels alone, by ``out=`` where it has that."""

from __future__ import annotations

from contest.torch_basic_kernels import TORCH_BASIC
from contest.torch_network_kernels import TORCH_NETWORK

__all__ = ["TORCH"]

TORCH = {**TORCH_BASIC, **TORCH_NETWORK}
"""As `OURS` of ``our_kernels``."""
