"""How a tensor is written."""

from __future__ import annotations

import numpy as np

from shardwise.backend.select import backend_of
from shardwise.tensor.methods.facts import Facts

__all__ = ["Printing"]


class Printing(Facts):
    """``repr`` and ``format``."""

    def __format__(self, spec: str) -> str:
        return format(self.data.item() if spec and not self.data.shape else str(self), spec)

    def __repr__(self) -> str:
        notes = []
        if self.device == "shape":
            body = f"..., shape={self.data.shape}"
        else:
            host = backend_of(self.data).to_host(self.data)
            body = np.array2string(host, separator=", ", prefix="tensor(")
        if self.data.dtype not in (np.float32, np.int64, np.bool_):
            notes.append(f"dtype={self.data.dtype}")
        if self.device != "cpu":
            notes.append(f"device='{self.device}'")
        if self.node is not None:
            notes.append(f"grad_fn={self.node}")
        elif self.requires_grad:
            notes.append("requires_grad=True")
        return f"tensor({', '.join([body, *notes])})"
