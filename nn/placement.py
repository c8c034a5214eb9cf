"""Where a module's tensors lie, of which dtype they are, and whether they learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import ml_dtypes
import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.backend.errors import DTypeError, ModuleError
from shardwise.backend.select import is_device
from shardwise.nn.tree import Tree
from shardwise.tensor import Tensor, empty, no_grad

__all__ = ["Placement"]


class Placement(Tree):
    """Moving and casting all parameters and buffers; the tensors stay the objects that they are."""

    def to(
        self,
        *targets: DTypeLike | Tensor,
        device: str | None = None,
        dtype: DTypeLike | None = None,
        non_blocking: bool = False,
    ) -> Self:
        """Move all parameters and buffers to a device, or cast the floating ones to a floating dtype.

        Parameters
        ----------
        *targets : str, dtype or Tensor
            Devices (``"cpu"``, ``"cuda:0"``), dtypes, or a tensor whose device and dtype are meant.
        device : str, optional
        dtype : dtype, optional
            Floating or complex. Complex tensors keep to complex dtypes.
        non_blocking : bool
            Taken for PyTorch's sake; copies from host memory are always finished on return.

        Raises
        ------
        DTypeError
            A target that is neither a device nor a floating or complex dtype.
        ModuleError
            A gradient lies in a bucket of DistributedDataParallel.
        """
        wanted: list[Any] = []
        for target in targets:
            wanted.extend([target.device, target.dtype] if isinstance(target, Tensor) else [target])
        wanted += [target for target in (device, dtype) if target is not None]
        for target in wanted:
            if not (is_device(target) or _is_floating(target)):
                raise DTypeError(f"Module.to takes devices and floating or complex dtypes, not {target!r}")

        def moved(tensor: Tensor) -> Tensor:
            for target in wanted:
                if is_device(target) or _casts(tensor, target):
                    tensor = tensor.to(target)
            return tensor

        return self._replace_tensors(moved, f"move {{}} to {', '.join(map(repr, wanted))}")

    def _replace_tensors(self, change: Callable[[Tensor], Tensor], what: str) -> Self:
        """Give every parameter and buffer, and their gradients, the array of a changed copy."""
        for name, tensor in (*self.named_parameters(), *self.named_buffers()):
            array = change(tensor.detach()).data
            if array is tensor.data:
                continue
            if tensor.sink is not None:
                raise ModuleError(
                    f"cannot {what.format(name)}: its gradients go into a bucket of "
                    "DistributedDataParallel. Call to() before wrapping."
                )
            tensor.data = array
            if tensor.grad is not None:
                tensor.grad = change(tensor.grad.detach())
        return self

    def type(self, dst_type: DTypeLike) -> Self:
        """Cast all parameters and buffers, those of integers too, to a dtype."""
        if not _is_floating(dst_type) and any(p.requires_grad for p in self.parameters()):
            raise DTypeError(
                f"Module.type: parameters that require grad cannot be {dst_type!r}; call "
                "requires_grad_(False) first"
            )
        return self._replace_tensors(lambda tensor: tensor.astype(dst_type), f"cast {{}} to {dst_type!r}")

    def to_empty(self, *, device: str) -> Self:
        """Move all parameters and buffers to a device without their values; see `skip_init`."""
        return self._replace_tensors(
            lambda tensor: empty(tensor.shape, dtype=tensor.dtype, device=device), f"move {{}} to {device!r}"
        )

    def float(self) -> Self:
        """Cast floating parameters and buffers to float32."""
        return self._cast_floating(np.float32)

    def double(self) -> Self:
        """Cast floating parameters and buffers to float64."""
        return self._cast_floating(np.float64)

    def half(self) -> Self:
        """Cast floating parameters and buffers to float16."""
        return self._cast_floating(np.float16)

    def bfloat16(self) -> Self:
        """Cast floating parameters and buffers to bfloat16."""
        return self._cast_floating(ml_dtypes.bfloat16)

    def _cast_floating(self, dtype: DTypeLike) -> Self:
        return self.to(dtype)

    def cpu(self) -> Self:
        """Move all parameters and buffers to the host."""
        return self.to("cpu")

    def cuda(self, device: int | str | None = None) -> Self:
        """Move all parameters and buffers to a CUDA device, the current one if none is named."""
        return self.to("cuda" if device is None else device if isinstance(device, str) else f"cuda:{device}")

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Have all parameters learn, or none."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or set them to zero."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                with no_grad():
                    parameter.grad.zero_()


def _is_floating(dtype: DTypeLike) -> bool:
    try:
        return np.dtype(dtype).kind in "fcV"  # V: bfloat16
    except TypeError:
        return False


def _casts(tensor: Tensor, dtype: DTypeLike) -> bool:
    """Tell whether a cast to `dtype` is meant for this tensor: neither integers nor imaginary parts go."""
    kind = tensor.dtype.kind
    return kind in "fV" or (kind == "c" and np.dtype(dtype).kind == "c")
