"""Every fused kernel of this machine against its plain formula."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.kernel import FusedUnavailableError, plain_formulas
from shardwise.backend.kernels.optimizer import UPDATES, Update
from shardwise.backend.kernels.table import KERNELS
from shardwise.backend.select import get_backend
from shardwise.launch.checks.finding import Finding, fail, ok, warn
from shardwise.launch.checks.kernel_case import AnyKernel, kernel_arguments, update_arguments
from shardwise.launch.checks.unit import time as spell_time

__all__ = ["check_kernels", "check_kernels_on_device", "deviation"]

_TOLERANCE = 1e-4  # of the largest element of the result; wrong code is off by far more, in float32
_REPORT = "report it, with what shardwise doctor --json says; with backend.plain_formulas(): avoids them"

Progress = Callable[[int, int], None]


def check_kernels(seconds: float, progress: Progress) -> Iterator[Finding]:
    """Compare each fused kernel with its formula, in float32 on the CPU.

    Parameters
    ----------
    seconds : float
        After which no further kernel is begun; compiling all of them takes minutes, loading them a few
        seconds.
    progress : callable
        Is told how many of how many are done.
    """
    todo: list[AnyKernel | Update] = [*KERNELS, *UPDATES]
    began = time.monotonic()
    wrong: list[str] = []
    untried: list[str] = []
    done = 0
    for kernel in todo:
        if time.monotonic() - began > seconds:
            break
        try:
            off = _difference(kernel)
        except LookupError:
            untried.append(kernel.name)
            continue
        except FusedUnavailableError as error:
            yield warn(
                "fused kernels",
                f"not available: {error}",
                "pip install --upgrade numba, which is compiled for this NumPy",
            )
            return
        if not off <= _TOLERANCE:
            wrong.append(f"{kernel.name} ({off:.1g})")
        done += 1
        progress(done, len(todo))
    took = spell_time(time.monotonic() - began)
    took += f"; {', '.join(untried)} could not be tried" if untried else ""
    if wrong:
        yield fail("fused kernels", f"differ from their formulas: {', '.join(wrong)}", _REPORT)
    elif done + len(untried) < len(todo):
        yield ok(
            "fused kernels",
            f"{done} of {len(todo)} give what their formulas give, in {took}; --full checks all",
        )
    else:
        yield ok("fused kernels", f"all {done} give what their formulas give, in {took}")


def check_kernels_on_device(progress: Progress) -> Iterator[Finding]:
    """Compare the kernels for CuPy arrays with their formulas, in float32 on device 0."""
    backend = get_backend("cuda")
    todo: list[AnyKernel] = [kernel for kernel in KERNELS if kernel.on_device is not None]
    wrong: list[str] = []
    missing: list[str] = []
    for done, kernel in enumerate(todo, 1):
        arguments = kernel_arguments(kernel)
        there = [backend.asarray(each) if isinstance(each, np.ndarray) else each for each in arguments]
        result = _outcome(kernel(*there), there)
        host = [backend.to_host(part) for part in result]
        if kernel.on_device is not None and kernel.on_device.reason:
            missing.append(kernel.name)
        off = deviation(host, _outcome(kernel.plain(*arguments), arguments))
        if not off <= _TOLERANCE:
            wrong.append(f"{kernel.name} ({off:.1g})")
        progress(done, len(todo))
    if wrong:
        yield fail(
            "CUDA kernels", f"differ from their formulas: {', '.join(wrong)}", _REPORT.partition(";")[0]
        )
    elif missing:
        yield warn(
            "CUDA kernels",
            f"{len(missing)} of {len(todo)} could not be compiled and run as formulas: "
            f"{', '.join(missing[:5])}",
            "install the NVRTC of CuPy's CUDA: pip install 'shardwise[cuda12]', or [cuda13]",
        )
    else:
        yield ok("CUDA kernels", f"all {len(todo)} give what their formulas give")


def deviation(ours: Sequence[Array], theirs: Sequence[Array]) -> float:
    """Give the largest difference of some arrays, as a part of their largest element; NaN meets NaN."""
    worst = 0.0
    for one, other in zip(ours, theirs, strict=True):
        if one.shape != other.shape or one.dtype.kind != other.dtype.kind:
            return float("inf")
        if one.dtype.kind in "iub":
            worst = max(worst, 0.0 if np.array_equal(one, other) else float("inf"))
            continue
        a, b = one.astype(np.float64), other.astype(np.float64)
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return float("inf")
        finite = np.isfinite(a)
        scale = max(1.0, float(np.abs(b[finite]).max(initial=0.0)))
        worst = max(worst, float(np.abs(a - b)[finite].max(initial=0.0)) / scale)
    return worst


@np.errstate(all="ignore")
def _difference(kernel: AnyKernel | Update) -> float:
    if isinstance(kernel, Update):
        columns, numbers = update_arguments(kernel)
        plain, _ = update_arguments(kernel)
        kernel(columns, numbers)
        with plain_formulas():
            kernel(plain, numbers)
        return deviation([x for column in columns for x in column], [x for column in plain for x in column])
    given, again = kernel_arguments(kernel), kernel_arguments(kernel)
    return deviation(_outcome(kernel.fused(*given), given), _outcome(kernel.plain(*again), again))


def _outcome(answer: object, arguments: Sequence[object]) -> list[Array]:
    """Give what a call made: what it returned, or else the array that it wrote."""
    parts = answer if isinstance(answer, tuple) else (arguments[0] if answer is None else answer,)
    return [np.asarray(part) if np.isscalar(part) else part for part in parts if part is not None]
