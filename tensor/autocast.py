"""Mixed precision: products in 16 bits, sums and exponentials in 32, chosen op by op."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import ml_dtypes
import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.backend.errors import ArgumentError
from shardwise.backend.product import has_bfloat16
from shardwise.tensor.function import Function
from shardwise.tensor.methods.carrier import Carrier
from shardwise.tensor.mode import current_mode, override
from shardwise.tensor.narrow import is_narrow
from shardwise.tensor.ops.arithmetic import Cast

__all__ = ["autocast", "report_products"]

_logger = logging.getLogger(__name__)
_DEFAULTS = {"cpu": np.dtype(ml_dtypes.bfloat16), "cuda": np.dtype(np.float16)}


@contextmanager
def autocast(
    device_type: Literal["cpu", "cuda"] = "cpu", dtype: DTypeLike | None = None, enabled: bool = True
) -> Iterator[None]:
    """Run a block in mixed precision: a context manager, and a decorator.

    Ops whose class says ``precision = "narrow"`` (matrix products, attention, convolutions) get their
    float32 inputs in `dtype`; those that say ``"wide"`` (softmax, norms, losses, sums, powers) get
    16-bit inputs in float32; all others take what comes. The casts are on the tape, so parameters and
    their gradients stay float32. Run the forward inside and `backward` outside of the block.

    Parameters
    ----------
    device_type : "cpu" or "cuda"
        Which arrays are meant; others are left alone.
    dtype : dtype, optional
        bfloat16 on the CPU and float16 on a GPU, if not given.
    enabled : bool
        If not, the block runs as if there were no autocast around it either.

    Raises
    ------
    ArgumentError
        For another device, or a dtype that is not of 16 bits.

    Notes
    -----
    On the CPU products of bfloat16 are computed as such where the ``mkl`` package multiplies and the
    processor has instructions for them (AVX512-BF16, AMX). Elsewhere inputs are rounded to 16 bits, the
    products are computed in float32, and a message to the log says so once: the numbers are those of
    mixed precision, the speed is not.

    Examples
    --------
    >>> import shardwise as sw
    >>> x, w = sw.ones(2, 3), sw.ones(3, 2, requires_grad=True)
    >>> with sw.autocast():
    ...     y = x @ w
    >>> y.dtype, y.sum().backward(), w.grad.dtype
    (dtype(bfloat16), None, dtype('float32'))
    """
    if device_type not in _DEFAULTS:
        raise ArgumentError(f"autocast: device_type must be 'cpu' or 'cuda', got {device_type!r}")
    narrow = _DEFAULTS[device_type] if dtype is None else np.dtype(dtype)
    if narrow not in _DEFAULTS.values():
        raise ArgumentError(f"autocast: dtype must be float16 or bfloat16, got {narrow}")
    if not enabled:
        mode = current_mode()
        with override(autocast=False, doors=tuple([d for d in mode.doors if not isinstance(d, _Door)])):
            yield
        return
    if device_type == "cpu":
        report_products(narrow.name)
    with override(autocast=True, doors=(*current_mode().doors, _Door(device_type, narrow))):
        yield


class _Door:
    """Casts the inputs of an op, and passes it on."""

    def __init__(self, device_type: str, narrow: np.dtype[Any]) -> None:
        self._on_cpu = device_type == "cpu"
        self._narrow = narrow

    def __call__(self, function: type[Function], args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if function.precision == "narrow":
            args = tuple([self._narrowed(arg) for arg in args])
        elif function.precision == "wide":
            args = tuple([self._widened(arg) for arg in args])
        return function.apply(*args, **params)

    def _meant(self, arg: Any) -> bool:
        if not isinstance(arg, Carrier):
            return False
        here: Any = getattr(arg.data, "local", arg.data)  # of a sharded array: the part of this rank
        return (type(here) is np.ndarray) == self._on_cpu

    def _narrowed(self, arg: Any) -> Any:
        if self._meant(arg) and arg.data.dtype == np.float32:
            return Cast.apply(arg, dtype=self._narrow)
        return arg

    def _widened(self, arg: Any) -> Any:
        if self._meant(arg) and is_narrow(arg.data):
            return Cast.apply(arg, dtype=np.dtype(np.float32))
        return arg


@functools.cache
def report_products(dtype: str) -> None:
    """Say once where products of a dtype are not computed in it."""
    if dtype != "bfloat16" or not has_bfloat16():
        _logger.warning(
            "autocast: %s products are computed in float32 here, on inputs rounded to %s: right numbers, and "
            "no gain in speed. Products in bfloat16 need a processor with AVX512-BF16 or AMX and the mkl "
            "package (pip install 'shardwise[mkl]').",
            dtype,
            dtype,
        )
