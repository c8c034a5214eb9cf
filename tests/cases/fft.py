"""Calls of Fourier transforms, in float64 and complex128, small enough for finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cases.linalg import make_complex
from cases.operand import Case, make
from shardwise.tensor import fft

__all__ = ["CASES"]

COMPLEX: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "fft": (fft.fft, (2, 5)),
    "fft cut": (lambda a: fft.fft(a, 3, 0, "ortho"), (4, 2)),
    "fft filled": (lambda a: fft.fft(a, 4, norm="forward"), (3,)),
    "ifft": (lambda a: fft.ifft(a, dim=-2), (3, 2)),
    "ifft filled": (lambda a: fft.ifft(a, 4), (1,)),
    "irfft even": (fft.irfft, (2, 3)),
    "irfft odd": (lambda a: fft.irfft(a, 5, norm="ortho"), (3,)),
    "irfft cut": (lambda a: fft.irfft(a, 4, 0), (4, 2)),
    "irfft filled": (lambda a: fft.irfft(a, 7), (2,)),
    "irfft one": (lambda a: fft.irfft(a, 1), (2,)),
    "hfft": (lambda a: fft.hfft(a, norm="forward"), (3,)),
    "fft2": (lambda a: fft.fft2(a, (2, 3)), (3, 2)),
    "ifftn": (lambda a: fft.ifftn(a, dim=(0, 2), norm="ortho"), (2, 1, 3)),
    "irfftn": (lambda a: fft.irfftn(a, (3, 3)), (2, 2, 2)),
    "hfftn": (lambda a: fft.hfftn(a, dim=(1, 0)), (2, 3)),
    "fftshift": (lambda a: fft.fftshift(a) + fft.ifftshift(a, 1), (2, 3)),
    "fft empty": (fft.fft, (0, 3)),
    "fft strided": (lambda a: fft.fft(a.T[::-1, 1:]), (3, 2)),
}
REAL: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "rfft even": (fft.rfft, (2, 4)),
    "rfft odd": (lambda a: fft.rfft(a, dim=0, norm="ortho"), (5, 1)),
    "rfft cut": (lambda a: fft.rfft(a, 3, norm="forward"), (4,)),
    "rfft filled": (lambda a: fft.rfft(a, 6), (4,)),
    "rfft one": (lambda a: fft.rfft(a, 1), (2,)),
    "ihfft": (fft.ihfft, (5,)),
    "rfft2": (lambda a: fft.rfft2(a, (2, 3)), (3, 2)),
    "rfftn": (lambda a: fft.rfftn(a, dim=(-1, 0)), (3, 1, 2)),
    "ihfft2": (fft.ihfft2, (2, 3)),
    "rfft there and back": (lambda a: fft.irfft(fft.rfft(a) * fft.rfft(a), 5), (5,)),
}

CASES: dict[str, Case] = {
    **{name: (function, (make(*shape),)) for name, (function, shape) in (COMPLEX | REAL).items()},
    **{f"{name} complex": (function, (make_complex(*shape),)) for name, (function, shape) in COMPLEX.items()},
}
