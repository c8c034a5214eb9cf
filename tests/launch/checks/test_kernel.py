"""The check of kernels: it knows arguments for all of them, and finds one that is wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest

from emulated_cuda import install
from shardwise.backend.array import Array
from shardwise.backend.kernels.device.launch_cuda import device_table
from shardwise.backend.kernels.device_table import LAUNCHERS
from shardwise.backend.kernels.kernel import Kernel
from shardwise.backend.kernels.table import KERNELS
from shardwise.launch.checks import kernel as checked
from shardwise.launch.checks.finding import Finding
from shardwise.launch.checks.kernel import check_kernels, check_kernels_on_device, deviation
from shardwise.launch.checks.kernel_case import AnyKernel, kernel_arguments


def twice(x: Array) -> Array:
    """A fused version, found by its name."""
    return x + x


def twice_wrongly(x: Array) -> Array:
    return np.float32(1.999) * x


def kernel_of(fused: str, module: str = __name__) -> AnyKernel:
    def _double(x: Array) -> Array:
        return x * 2.0

    return Kernel(_double, f"{module}:{fused}", arrays=1)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_every_kernel_has_arguments(kernel: AnyKernel) -> None:
    one, two = kernel_arguments(kernel), kernel_arguments(kernel)
    floating = [x for x in one if isinstance(x, np.ndarray) and x.dtype.kind == "f"]
    assert all(x.dtype == np.float32 for x in floating)
    for x, y in zip(one, two, strict=True):
        np.testing.assert_equal(x, y)
    answer = kernel.plain(*one)
    parts = answer if isinstance(answer, tuple) else (one[0] if answer is None else answer,)
    for part in parts:
        assert part is None or np.isfinite(np.asarray(part, np.float64)).mean() > 0.9


def found(
    monkeypatch: pytest.MonkeyPatch, kernels: tuple[AnyKernel, ...], seconds: float
) -> tuple[list[Finding], list[tuple[int, int]]]:
    monkeypatch.setattr(checked, "KERNELS", kernels)
    monkeypatch.setattr(checked, "UPDATES", ())
    told: list[tuple[int, int]] = []
    return list(check_kernels(seconds, lambda done, todo: told.append((done, todo)))), told


def test_kernels_that_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    findings, told = found(monkeypatch, (kernel_of("twice"),) * 2, math.inf)
    assert [(each.status, each.what.rpartition(",")[0]) for each in findings] == [
        ("ok", "all 2 give what their formulas give")
    ]
    assert told == [(1, 2), (2, 2)]


def test_a_kernel_that_nobody_knows_how_to_try(monkeypatch: pytest.MonkeyPatch) -> None:
    def _of_a_shape(x: Array, shape: tuple[int, ...]) -> Array:
        return x.reshape(shape)

    odd: AnyKernel = Kernel(_of_a_shape, f"{__name__}:twice", arrays=1)
    findings, told = found(monkeypatch, (odd, kernel_of("twice")), math.inf)
    assert [(each.status, each.what.partition(",")[0]) for each in findings] == [
        ("ok", "all 1 give what their formulas give")
    ]
    assert findings[0].what.endswith("; of_a_shape could not be tried")
    assert told == [(1, 2)]


def test_a_kernel_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    findings, _ = found(monkeypatch, (kernel_of("twice"), kernel_of("twice_wrongly")), math.inf)
    assert [(each.status, each.what) for each in findings] == [
        ("fail", "differ from their formulas: double (0.0005)")
    ]


def test_time_that_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    findings, _ = found(monkeypatch, (kernel_of("twice"),) * 2, 0.0)
    assert [(each.status, each.what.partition(",")[0]) for each in findings] == [
        ("ok", "0 of 2 give what their formulas give")
    ]


def test_no_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    findings, _ = found(monkeypatch, (kernel_of("twice", "no.such.module"),), math.inf)
    assert [each.status for each in findings] == ["warn"]
    assert findings[0].what.startswith("not available: ")


@pytest.mark.parametrize("name", ["softmax_forward", "embedding_backward", "take_windows_"])
def test_kernels_of_a_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (kernel,) = (each for each in KERNELS if each.name == name)
    assert kernel.on_device is not None
    monkeypatch.setattr(checked, "KERNELS", (kernel,))
    told: list[tuple[int, int]] = []
    with install():
        findings = list(check_kernels_on_device(lambda done, todo: told.append((done, todo))))
        # What was made for the double must not outlive it.
        kernel.on_device.forget()
        for launch in LAUNCHERS:
            launch.forget()
        device_table.forget()
    assert findings == [Finding("CUDA kernels", "ok", "all 1 give what their formulas give")]
    assert told == [(1, 1)]


def test_deviations() -> None:
    a = np.array([1.0, -4.0], np.float32)
    assert deviation([a], [a]) == 0.0
    assert math.isclose(deviation([a + np.float32(0.4)], [a]), 0.1, rel_tol=1e-5)
    assert deviation([a], [np.array([1.0, np.nan], np.float32)]) == math.inf
    assert deviation([np.array([1, 2])], [np.array([1, 3])]) == math.inf
    assert deviation([a], [a[:1]]) == math.inf
