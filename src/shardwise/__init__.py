"""Torch-free distributed training over a sharded tensor: NumPy and CuPy, MPI and NCCL.

Importing the package starts nothing and loads nothing but this file.
"""

from __future__ import annotations

__version__ = "0.1.0.dev0"

__all__ = ["__version__"]
