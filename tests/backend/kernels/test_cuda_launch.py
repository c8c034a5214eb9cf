"""How kernels choose between CUDA code and formula, and what they hand over."""

from __future__ import annotations

import logging
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from emulated_cuda import DeviceArray, declarations, find_compiler, launches, to_device, to_host
from shardwise.backend.errors import ArgumentError, IndexRangeError, ShapeError
from shardwise.backend.kernels.activation.activation import gelu_forward
from shardwise.backend.kernels.activation.rectifier import leaky_relu_forward
from shardwise.backend.kernels.device import launch_cuda
from shardwise.backend.kernels.device.device_source import DeviceSource
from shardwise.backend.kernels.device.formula_source import formula_source
from shardwise.backend.kernels.device_table import LAUNCHERS
from shardwise.backend.kernels.kernel import Kernel, plain_formulas
from shardwise.backend.kernels.optimizer.optimizer import adam, sgd
from shardwise.backend.kernels.place.gather import gather_along, scatter_along
from shardwise.backend.kernels.place.scatter import scatter_rows
from shardwise.backend.kernels.random.dropout import dropout_backward, dropout_forward
from shardwise.backend.kernels.row.loss import cross_entropy_backward, cross_entropy_forward
from shardwise.backend.kernels.row.norm import layer_norm_backward, layer_norm_forward
from shardwise.backend.kernels.row.softmax import softmax_backward, softmax_forward
from shardwise.backend.kernels.table import KERNELS
from shardwise.backend.kernels.unavailable import FusedUnavailableError, report
from shardwise.backend.random import bernoulli, normal, uniform

pytestmark = pytest.mark.usefixtures("emulated_device")
needs_compiler = pytest.mark.skipif(
    find_compiler() is None, reason="there is no C++ compiler (apt-get install g++)"
)

X = np.linspace(-2.0, 2.0, 12).reshape(3, 4)


def names() -> list[str]:
    return [launch.name for launch in launches]


def test_a_family_is_written_in_cuda_as_a_whole() -> None:
    left_out = {"product_backward", "running_product_backward"}  # a few passes, rarely asked for
    families = {kernel.plain.__module__ for kernel in KERNELS if kernel.on_device is not None}
    without = {
        kernel.name for kernel in KERNELS if kernel.on_device is None and kernel.plain.__module__ in families
    }
    assert without == left_out
    assert len(families) > 20


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_arrays_of_every_floating_dtype_go_to_the_device(dtype: Any) -> None:
    y = softmax_forward(to_device(X.astype(dtype)))
    assert type(y) is DeviceArray
    assert y.dtype == dtype
    assert [(launch.name, launch.real) for launch in launches] == [
        (
            "softmax_forward",
            {"float32": "float", "float64": "double"}.get(np.dtype(dtype).name, np.dtype(dtype).name),
        )
    ]


def test_all_else_gets_the_formula() -> None:
    x = to_device(X)
    for arguments in (
        (to_device(X.astype(np.complex128)),),
        (to_device(np.arange(3)),),
        (X,),
    ):
        gelu = Kernel(lambda x: x + x, "no.such.module:f", arrays=1, cuda="no.such.module:f")
        np.testing.assert_array_equal(to_host(gelu(*arguments)), to_host(arguments[0]) * 2)
    with plain_formulas():
        softmax_forward(x)
    softmax_backward(x, x.astype(np.float32))
    assert launches == []


def test_arrays_of_two_devices_get_the_formula(emulated_device: ModuleType) -> None:
    here = to_device(X)
    with emulated_device.cuda.Device(1):
        there = to_device(X)
    softmax_backward(here, there)
    assert launches == []


def test_work_is_done_where_the_arrays_are(emulated_device: ModuleType) -> None:
    with emulated_device.cuda.Device(3):
        x = to_device(X)
    y = softmax_forward(x)
    assert y.device == x.device == emulated_device.cuda.Device(3)


def test_mixed_narrow_and_single_precision_is_worked_on_in_single_precision() -> None:
    y, mean, _ = layer_norm_forward(
        to_device(X.astype(np.float16)), to_device(np.ones(4, np.float32)), None, 1e-5
    )
    assert [launch.real for launch in launches] == ["float"]
    assert (y.dtype, mean.dtype) == (np.float16, np.float32)


def test_statistics_of_narrow_arrays_are_single() -> None:
    y, mean, rstd = layer_norm_forward(to_device(X.astype(np.float16)), None, None, 1e-5)
    assert [launch.real for launch in launches] == ["float16"]
    assert (y.dtype, mean.dtype, rstd.dtype) == (np.float16, np.float32, np.float32)
    loss, logsumexp = cross_entropy_forward(
        to_device(X.astype(np.float16)), to_device(np.array([0, 1, 2])), -1
    )
    assert (loss.dtype, logsumexp.dtype) == (np.float16, np.float32)


def test_nothing_is_launched_for_nothing() -> None:
    assert softmax_forward(to_device(np.empty((0, 4)))).shape == (0, 4)
    none = to_device(np.empty((0, 4)))
    gradients = layer_norm_backward(none, none, None, None, None, 1e-5)
    assert [gradient.shape for gradient in gradients] == [(0, 4), (4,), (4,)]
    assert gelu_forward(to_device(np.empty((2, 0)))).shape == (2, 0)
    assert names() == ["add_parts", "add_parts"]


def test_a_failed_compilation_is_reported_once_and_answered_by_the_formula(
    emulated_device: ModuleType, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class NoCompiler:
        def __init__(self, code: str, *, options: tuple[str, ...]) -> None:
            pass

        def get_function(self, name: str) -> object:
            raise RuntimeError("libnvrtc.so.12 was not found")

    report.cache_clear()
    monkeypatch.setattr(emulated_device, "RawModule", NoCompiler)
    x = to_device(X)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            np.testing.assert_allclose(to_host(softmax_forward(x)), softmax_forward.plain(X))
    assert [record.getMessage() for record in caplog.records] == [
        "fused CUDA kernels are not available, so the plain CuPy formulas run instead (several times slower, "
        "same results): CuPy could not compile row/softmax.cu for float64: RuntimeError: libnvrtc.so.12 was "
        "not found. Check CuPy's installation and that of NVRTC (pip install nvidia-cuda-nvrtc-cu12, or the "
        "one for your CUDA version)."
    ]
    p, g = to_device(np.ones(3)), to_device(np.ones(3))
    sgd([[p], [g]], [(0.5, 1.0, 0.0)])
    np.testing.assert_array_equal(to_host(p), 0.5)


def test_a_formula_that_cannot_be_written_in_cuda_says_so() -> None:
    with pytest.raises(FusedUnavailableError, match=r"^no CUDA code could be made of strange: "):
        formula_source(lambda x: np.frexp(x)[0], "strange", [("wide", "x")], 1)


def test_a_formula_that_branches_becomes_code_that_branches() -> None:
    def ramp(x: float, slope: float) -> float:
        return x * slope if slope else -x

    assert formula_source(ramp, "ramp", [("wide", "x"), ("wide", "slope")], 1) == (
        "__device__ inline void ramp(wide (&result)[1], wide given_x, wide given_slope)\n"
        "{\n"
        "    if (given_slope != 0) {\n"
        "        const wide v0 = (given_x * given_slope);\n"
        "        result[0] = v0;\n"
        "    } else {\n"
        "        const wide v0 = (-given_x);\n"
        "        result[0] = v0;\n"
        "    }\n"
        "}\n"
    )


def test_errors_are_those_of_the_formulas() -> None:
    x, y = to_device(X), to_device(X[:2])
    with pytest.raises(
        ShapeError, match=r"softmax_backward: the gradient has shape \(2, 4\), and the output \(3, 4\)"
    ):
        softmax_backward(y, x)
    with pytest.raises(ShapeError, match=r"layer_norm: weight has shape \(3,\)"):
        layer_norm_forward(x, to_device(np.ones(3)), None, 1e-5)
    with pytest.raises(ArgumentError, match="dropout: wanted a probability p from 0 to 1, got 2"):
        dropout_forward(x, 2.0, 0, 0, 0)
    with pytest.raises(ArgumentError, match="wanted an offset of 0 or more, got -1"):
        dropout_forward(x, 0.5, 0, 0, -1)
    with pytest.raises(ShapeError, match=r"dropout: the gradient has shape \(2, 4\), and the mask \(3, 4\)"):
        dropout_backward(y, to_device(X > 0), 0.5)
    with pytest.raises(IndexRangeError, match=r"^scatter_rows: 6 indices point into a dim of size 0"):
        scatter_rows(to_device(np.ones((1, 2, 3))), to_device(np.zeros(2, np.int64)), 0)
    assert launches == []


@needs_compiler
def test_a_label_out_of_range_gives_nan() -> None:
    logits, g = to_device(X), to_device(np.ones(3))
    for wrong in (4, -1, 2**40):
        labels = to_device(np.array([1, wrong, -100]))
        loss = to_host(cross_entropy_forward(logits, labels, -100)[0])
        assert np.isnan(loss).tolist() == [False, True, False]
        gradient = to_host(cross_entropy_backward(g, logits, labels, None, -100))
        assert np.isnan(gradient).all(axis=1).tolist() == [False, True, False]
        assert np.isfinite(gradient[[0, 2]]).all()


@needs_compiler
def test_indices_wrap_as_those_of_cupy_do() -> None:
    x = np.arange(5.0).reshape(1, 5, 1)
    index = to_device(np.array([-1, 5, 12, -6]).reshape(1, 4, 1))
    assert to_host(gather_along(to_device(x), index)).ravel().tolist() == [4.0, 0.0, 2.0, 4.0]
    ones = to_device(np.ones((1, 4, 1)))
    assert to_host(scatter_along(ones, index, 5)).ravel().tolist() == [1.0, 0.0, 1.0, 0.0, 2.0]


@needs_compiler
@pytest.mark.parametrize("offset", [0, 1, 2, 3, 2**33 + 1])
@pytest.mark.parametrize("count", [1, 4, 1001])
def test_random_numbers_are_those_of_the_cpu_bit_for_bit(offset: int, count: int) -> None:
    like = to_device(np.zeros(1, np.int8))  # its dtype does not matter
    for dtype in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16):
        for draw in (uniform, normal):
            ours = draw((count,), dtype, -3, 2**63, offset, like=like)
            assert type(ours) is DeviceArray
            np.testing.assert_array_equal(to_host(ours), draw((count,), dtype, -3, 2**63, offset))
    for p in (0.0, 0.3, 1.0):
        ours = bernoulli((count,), p, 2**64 - 1, 5, offset, like=like)
        np.testing.assert_array_equal(to_host(ours), bernoulli((count,), p, 2**64 - 1, 5, offset))
    assert set(names()) == {"uniform", "normal", "bernoulli", "random_words"}


@needs_compiler
def test_the_tails_of_the_normal_distribution() -> None:
    like = to_device(np.zeros(1))
    for dtype in (np.float32, np.float64):
        ours = normal((40000,), dtype, 11, 12, like=like)
        np.testing.assert_array_equal(to_host(ours), normal((40000,), dtype, 11, 12))
        assert np.abs(to_host(ours)).max() > 3.5


@needs_compiler
def test_updates_of_mixed_parameters() -> None:
    rng = np.random.default_rng(0)
    host = [
        [
            rng.random((3, 4)).astype(np.float32) + 1,
            np.asfortranarray(rng.random((3, 4))) + 1,
            rng.random(5).astype(np.float16) + 1,
            rng.random(6) + 1j * rng.random(6),
            (rng.random(8) + 1)[::2],
        ]
        for _ in range(4)
    ]
    host[1][0] = host[1][0].astype(np.float64)  # a gradient of another dtype
    device = [[to_device(x) for x in column] for column in host]
    numbers = [tuple(rng.uniform(0.1, 0.9, len(adam.numbers)).tolist())] * 5
    adam(host, numbers)
    adam(device, numbers)
    assert sorted(launch.real for launch in launches) == ["double", "float", "float16"]
    for ours, theirs in zip(device, host, strict=True):
        for x, y in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(to_host(x), y, rtol=2e-3 if x.dtype == np.float16 else 1e-6)


def test_sizes_for_huge_arrays_fit_a_grid() -> None:
    for count in (1, 2**31 + 5, 2**40):
        (blocks,), (threads,) = launch_cuda.each(count, 4)
        assert 1 <= blocks < 2**31
        assert threads == 256
        for columns in (1, 100, 4097, 2**33):
            (blocks,), (team, teams) = launch_cuda.rows(count, columns, 4)
            assert 1 <= blocks < 2**31
            assert team & (team - 1) == 0
            assert team * teams <= 1024
            assert teams == 1 or team <= 32
        (wide, high), _ = launch_cuda.columns(count, 2**33)
        assert wide < 2**31
        assert high <= 65535


def test_arguments_become_the_types_that_kernels_declare(emulated_device: ModuleType) -> None:
    given: list[tuple[object, ...]] = []
    emulated_device.RawModule = lambda code, options: type(  # type: ignore[attr-defined]
        "Module",
        (),
        {"get_function": lambda self, name: lambda grid, block, args: given.append(args)},
    )()
    launch = launch_cuda.Launcher(DeviceSource("row/softmax.cu"))
    launch("any", np.float32, ((1,), (1,)), 3, 0.5, None, np.uint64(2**64 - 1), True)
    assert [type(value) for value in given[0]] == [np.int64, np.float64, np.uint64, np.uint64, np.int64]
    assert given[0][2] == 0
    launch("any", np.float32, ((0,), (1,)), 3)
    assert len(given) == 1


def test_every_parameter_is_of_a_type_that_is_marshalled() -> None:
    known = {"real", "wide", "float", "double", "bool", "int64", "uint64", "uint32"}
    for launch in LAUNCHERS:
        for kernel in declarations(launch.source.text).values():
            for parameter in kernel.parameters:
                assert parameter.kind in known
                assert parameter.pointer or parameter.kind in ("double", "int64", "uint64")


def test_scalar_masks_and_arrays_that_broadcast() -> None:
    y = leaky_relu_forward(to_device(X.astype(np.float32)), slope=0.1)
    assert names() == ["leaky_relu_forward"]
    assert y.shape == X.shape
