"""Our kernels alone: what is timed of an operation beside the op itself."""

from __future__ import annotations

from contest.our_basic_kernels import OUR_BASIC
from contest.our_network_kernels import OUR_NETWORK

__all__ = ["OURS"]

OURS = {**OUR_BASIC, **OUR_NETWORK}
"""By operation and direction: takes the operation's inputs, and makes the kernel something to call."""
