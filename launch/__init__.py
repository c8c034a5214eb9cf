"""Floor 8: start ranks and watch them."""

from __future__ import annotations

from shardwise.launch.mpi import MpiInstallation, find_mpi
from shardwise.launch.spawn import spawn
from shardwise.launch.terminal import on_terminal, terminal_width

__all__ = ["MpiInstallation", "find_mpi", "on_terminal", "spawn", "terminal_width"]
