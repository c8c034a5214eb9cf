"""CUDA sources through NVRTC, which needs no device: what compiles, and to what instructions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from emulated_cuda import declarations
from shardwise.backend.kernels.device.device_source import DeviceSource
from shardwise.backend.kernels.device_table import DEVICE_SOURCES
from shardwise.backend.kernels.optimizer.optimizer import UPDATES, adam
from shardwise.backend.kernels.optimizer.optimizer_cuda import update_launcher
from shardwise.backend.kernels.pointwise_table import POINTWISE_KERNELS
from shardwise.backend.kernels.random.quantile_constants import quantile_constants
from shardwise.backend.quantile import DOUBLE, SINGLE

Compile = Callable[[str, Sequence[str]], str]

EXACT = [source for source in DEVICE_SOURCES if "--fmad=false" in source.options("float32")]
FAMILIES = [source for source in DEVICE_SOURCES if source not in EXACT]


def update_source(update: Any) -> DeviceSource:
    return update_launcher(update.formula, len(update.arrays)).source


def pointwise_sources() -> list[DeviceSource]:
    return [kernel.on_device.function.launch.source for kernel in POINTWISE_KERNELS]  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def compile_to_ptx() -> Compile:
    """NVRTC, for a source and options; gives the PTX, or the CUBIN's PTX is empty where one is made."""
    nvrtc = pytest.importorskip(
        "cupy_backends.cuda.libs.nvrtc", reason="CuPy is not installed (pip install 'shardwise[nvrtc]')"
    )
    try:
        nvrtc.getVersion()
    except (RuntimeError, OSError, ImportError) as error:
        pytest.skip(f"CuPy finds no NVRTC (pip install 'shardwise[nvrtc]'): {error}")

    def compiled(text: str, options: Sequence[str]) -> str:
        program = nvrtc.createProgram(text, "kernels.cu", [], [])
        try:
            try:
                nvrtc.compileProgram(program, list(options))
            except nvrtc.NVRTCError:
                pytest.fail(nvrtc.getProgramLog(program))
            assert nvrtc.getProgramLog(program).strip("\0\n ") == ""  # no warnings
            if "-arch=compute_80" not in options:
                assert len(nvrtc.getCUBIN(program)) > 1000
            ptx = nvrtc.getPTX(program) if "-arch=compute_80" in options else b""
            return ptx if isinstance(ptx, str) else ptx.decode()
        finally:
            nvrtc.destroyProgram(program)

    return compiled


def together(sources: Sequence[DeviceSource]) -> str:
    """One program of many: to start NVRTC takes longer than to compile most of them."""
    parts = [source.text.replace('extern "C" __global__', "__global__") for source in sources]
    return "\n".join(f"namespace source_{i} {{\n{part}\n}}" for i, part in enumerate(parts))


@pytest.mark.parametrize(
    ("dtype", "device"),
    [
        *(("float32", "sm_80"), ("float32", "sm_90"), ("bfloat16", "sm_80"), ("bfloat16", "sm_90")),
        *(("float64", "sm_90"), ("float16", "sm_80")),
    ],
)
def test_kernels_compile_without_a_word(dtype: str, device: str, compile_to_ptx: Compile) -> None:
    compile_to_ptx(together(FAMILIES), [*FAMILIES[0].options(dtype), f"-arch={device}"])
    if dtype in EXACT[0].dtypes:
        compile_to_ptx(together(EXACT), [*EXACT[0].options(dtype), f"-arch={device}"])


@pytest.mark.parametrize(("dtype", "device", "every"), [("float32", "sm_90", 1), ("bfloat16", "sm_80", 5)])
def test_kernels_made_of_formulas_compile_without_a_word(
    dtype: str, device: str, every: int, compile_to_ptx: Compile
) -> None:
    sources = [*map(update_source, UPDATES), *pointwise_sources()][::every]
    compile_to_ptx(together(sources), [*sources[0].options(dtype), f"-arch={device}"])


WIDE_READS = {
    "activation/activation.cu": (
        "gelu_forward",
        "gelu_backward",
        "gelu_tanh_forward",
        "gelu_tanh_backward",
        "erf_each",
    ),
    "row/softmax.cu": ("softmax_forward", "softmax_backward", "log_softmax_forward", "log_softmax_backward"),
    "row/norm.cu": ("layer_norm_forward", "layer_norm_backward", "rms_norm_forward", "rms_norm_backward"),
    "row/loss.cu": ("cross_entropy_forward", "cross_entropy_backward"),
    "channel/planes.cu": ("plane_sums", "normalize_planes", "normalize_planes_backward"),
    "random/dropout.cu": ("dropout_backward",),
    "reduction/reduction.cu": ("sum_of_squares",),
}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("source", DEVICE_SOURCES, ids=lambda source: source.file)
def test_memory_is_read_16_bytes_at_a_time_and_registers_hold_what_was_read(
    source: DeviceSource, dtype: str, compile_to_ptx: Compile
) -> None:
    if dtype not in source.dtypes:
        return
    ptx = compile_to_ptx(source.text, [*source.options(dtype), "-arch=compute_80"])
    bodies = {part.partition("(")[0]: part for part in ptx.split(".visible .entry ")[1:]}
    assert bodies.keys() == declarations(source.text).keys()
    assert ".local" not in ptx
    for name in WIDE_READS.get(source.file, ()):
        assert re.search(r"ld\.global(\.nc)?\.v(4\.[a-z]+32|2\.f64)", bodies[name]), name


def test_updates_read_16_bytes_at_a_time(compile_to_ptx: Compile) -> None:
    source = update_source(adam)
    ptx = compile_to_ptx(source.text, [*source.options("float32"), "-arch=compute_80"])
    assert len(re.findall(r"ld\.global\.v4", ptx)) >= 4
    assert len(re.findall(r"st\.global\.v4", ptx)) >= 3
    assert ".local" not in ptx


def test_random_bits_are_compiled_without_multiply_adds(compile_to_ptx: Compile) -> None:
    [source] = EXACT
    for dtype, kind in (("float32", "f32"), ("float64", "f64")):
        ptx = compile_to_ptx(source.text, [*source.options(dtype), "-arch=compute_80"])
        normal = ptx.split(".visible .entry normal(")[1].split(".visible .entry ")[0]
        assert f"fma.rn.{kind}" not in normal
        assert f"div.rn.{kind}" in normal
        assert f"sqrt.rn.{kind}" in normal


def test_included_files_are_put_in_place_once() -> None:
    text = DeviceSource("row/norm.cu").text
    assert "#include" not in text
    assert text.count("typedef REAL real;") == 1
    assert '#line 1 "row/norm.cu"' in text
    assert re.search(r'#line \d+ "row/norm.cu"\n', text)


def test_lines_keep_their_numbers() -> None:
    text = DeviceSource("row/loss.cu").text
    file, number = "", 0
    where = {}
    for line in text.splitlines():
        mark = re.fullmatch(r'#line (\d+) "(.+)"', line)
        if mark:
            file, number = mark[2], int(mark[1])
        else:
            where[file, number] = line
            number += 1
    folder = DeviceSource("row/loss.cu").folder
    for (name, place), line in where.items():
        original = (folder / name).read_text().splitlines()[place - 1]
        assert line == original or (line == "" and original.startswith("#"))


def test_the_type_of_elements_is_an_option() -> None:
    source = DeviceSource("row/softmax.cu", exact=True)
    assert source.options(np.float32)[1] == "-DREAL=float"
    assert source.options("float64")[1] == "-DREAL=double"
    assert source.options("bfloat16")[1] == "-DREAL=bfloat16"
    assert source.options(np.float16)[-1] == "--fmad=false"


def test_constants_of_the_quantile_come_from_one_place() -> None:
    text = quantile_constants()
    numbers = {float.fromhex(number) for number in re.findall(r"-?0x[\da-f.]+p[+-]\d+", text)}
    for functions in (SINGLE, DOUBLE):
        ratios = [functions.centre, functions.tail, *([functions.far_tail] if functions.far_tail else [])]
        for ratio in ratios:
            assert {*ratio[0], *ratio[1]} <= numbers
        assert {
            *functions.logarithm.series,
            functions.logarithm.ln2_high,
            functions.logarithm.ln2_low,
        } <= numbers
