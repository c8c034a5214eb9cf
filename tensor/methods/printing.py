"""How a tensor is written. ``numpy.set_printoptions`` sets precision, line width and summaries."""

from __future__ import annotations

import numpy as np

from shardwise.backend.select import backend_of
from shardwise.tensor.methods.facts import Facts

__all__ = ["Printing"]

_UNSAID = ("float32", "int64", "bool", "complex64")  # the dtypes of Python's numbers


class Printing(Facts):
    """``repr`` and ``format``."""

    def __format__(self, spec: str) -> str:
        return format(self.data.item() if spec and not self.data.shape else str(self), spec)

    def __repr__(self) -> str:
        notes = []
        shape, dtype, device = self.data.shape, self.data.dtype, self.device
        if device == "shape":
            body = f"..., shape={shape}"
        else:
            host = backend_of(self.data).to_host(self.data)
            if dtype.kind == "V":  # bfloat16 is written as the float32 that it is equal to
                host = host.astype(np.float32)
            body = np.array2string(host, separator=", ", prefix="tensor(")
            if not host.size and shape != (0,):
                notes.append(f"size={shape}")
        if dtype.name not in _UNSAID or (not self.data.size and dtype != np.float32):
            notes.append(f"dtype={dtype.name}")
        if device != "cpu":
            notes.append(f"device='{device}'")
        if self.node is not None:
            notes.append(f"grad_fn={self.node}")
        elif self.requires_grad:
            notes.append("requires_grad=True")
        return f"tensor({', '.join([body, *notes])})"
