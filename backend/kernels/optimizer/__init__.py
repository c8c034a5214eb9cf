"""Updates of parameters and their state."""

from shardwise.backend.kernels.optimizer.optimizer import UPDATES, Update

__all__ = ["UPDATES", "Update"]
