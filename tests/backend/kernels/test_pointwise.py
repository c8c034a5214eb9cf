"""Functions of elements: fused code against formulas in double precision, at the edges, in every layout."""

from __future__ import annotations

import inspect
import itertools
import subprocess
import sys

import numpy as np
import pytest

from shardwise.backend.errors import DTypeError
from shardwise.backend.kernels.activation.rectifier import (
    leaky_relu_backward,
    prelu_forward,
    threshold_backward,
)
from shardwise.backend.kernels.activation.smooth import mish_forward, sigmoid_forward
from shardwise.backend.kernels.kernel import Kernel
from shardwise.backend.kernels.pointwise.choice import choose, fill
from shardwise.backend.kernels.pointwise.pointwise import WORTH_FUSING
from shardwise.backend.kernels.pointwise.regression import squared_error_forward
from shardwise.backend.kernels.pointwise_table import POINTWISE_KERNELS
from tolerance import assert_close, widened

DTYPES = [np.float32, np.float64]
EDGES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-42, -1e-38, 0.5, -0.5, 3.0, -3.0, 88.0, -88.0, 750.0, -750.0]
HUGE = [1e30, -1e30]

# Numbers behind the arrays, by their names.
NUMBERS = {
    "slope": 0.3, "alpha": 0.7, "scale": 1.1, "rate": 1.3, "threshold": 0.5, "value": -0.25, "low": -0.5,
    "high": 0.75, "size": 0.5, "beta": 0.5, "delta": 0.75,
}  # fmt: skip

# Units in the last place of the largest result that a fused result may be off, by the kernel's name.
each_kernel = pytest.mark.parametrize("kernel", POINTWISE_KERNELS, ids=lambda kernel: kernel.name)


def arguments(
    kernel: Kernel[..., np.ndarray], arrays: list[np.ndarray], mask: np.ndarray
) -> tuple[object, ...]:
    """`arrays` for the arrays, `mask` for the mask, and the number that goes by its name for the others."""
    names = list(inspect.signature(kernel).parameters)
    given = iter(arrays)
    values = [mask if name == kernel._integer else next(given) for name in names[: kernel._arrays]]
    # The results of sigmoid and tanh, and probabilities, are between 0 and 1; roots are taken of such too.
    if kernel.name in ("sigmoid_backward", "tanh_backward", "binary_cross_entropy_backward", "inverse_root"):
        first = kernel._arrays > 1
        unit = [np.asarray(0.5 + 0.49 * np.sin(x)) for x in values[first:]]
        values[first:] = unit
    return (*values, *(NUMBERS[name] for name in names[kernel._arrays :]))


def draws(shape: tuple[int, ...], dtype: type[np.floating], scale: float = 3.0) -> list[np.ndarray]:
    rng = np.random.default_rng(len(shape))
    return [np.asarray(scale * rng.standard_normal(shape)).astype(dtype) for _ in range(3)]


@pytest.mark.parametrize("dtype", DTYPES)
@each_kernel
def test_fused_agrees_with_the_formula_in_double_precision(
    kernel: Kernel[..., np.ndarray], dtype: type[np.floating]
) -> None:
    mask = np.arange(5001) % 3 == 0
    for scale in (0.01, 3.0, 40.0):
        given = arguments(kernel, draws((5001,), dtype, scale), mask)
        result = kernel.fused(*given)
        assert result.dtype == dtype
        assert_close(result, np.asarray(kernel.plain(*widened(*given))))


@pytest.mark.parametrize("dtype", DTYPES)
@each_kernel
def test_fused_agrees_with_the_formula_at_the_edges(
    kernel: Kernel[..., np.ndarray], dtype: type[np.floating]
) -> None:
    edges = np.array([*EDGES, *HUGE], dtype)
    count = kernel._arrays - bool(kernel._integer)
    grids = np.array(list(itertools.product(edges, repeat=count)), dtype).T.copy()
    names = list(inspect.signature(kernel).parameters)
    mask = np.arange(grids.shape[1]) % 2 == 0
    given = iter(grids)
    values = [mask if name == kernel._integer else next(given) for name in names[: kernel._arrays]]
    numbers = [NUMBERS[name] for name in names[kernel._arrays :]]
    with np.errstate(all="ignore"):
        expected = np.asarray(kernel.plain(*values, *numbers))
    result = kernel.fused(*values, *numbers)
    np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
    tiny = float(np.finfo(dtype).tiny)
    np.testing.assert_allclose(result, expected, rtol=1e-5 if dtype is np.float32 else 1e-13, atol=tiny)


@each_kernel
def test_every_shape_and_layout_gives_the_same(kernel: Kernel[..., np.ndarray]) -> None:
    rng = np.random.default_rng(5)
    for shape in [(), (0,), (3, 0, 2), (1,), (7,), (4, 5), (2, 3, 4)]:
        mask = np.asarray(rng.random(shape) < 0.5)
        given = arguments(kernel, draws(shape, np.float32), mask)
        straight = kernel.fused(*given)
        assert straight.shape == shape
        np.testing.assert_allclose(straight, kernel.plain(*given), rtol=2e-5, atol=1e-6)
        turned = [x.T if isinstance(x, np.ndarray) else x for x in given]
        np.testing.assert_array_equal(kernel.fused(*turned), straight.T)
        if shape and 0 not in shape:
            reversed_ = [x[::-1] if isinstance(x, np.ndarray) else x for x in given]
            np.testing.assert_array_equal(kernel.fused(*reversed_), straight[::-1])
            strided = [np.repeat(x, 2, -1)[..., ::2] if isinstance(x, np.ndarray) else x for x in given]
            np.testing.assert_array_equal(kernel.fused(*strided), straight)
            first = next(i for i, x in enumerate(given) if isinstance(x, np.ndarray) and x.dtype.kind == "f")
            mixed = list(given)
            mixed[first] = np.asfortranarray(given[first])
            np.testing.assert_array_equal(kernel.fused(*mixed), straight)


def test_memory_is_walked_in_its_own_order() -> None:
    x = np.ones((50, 60), np.float32)
    assert sigmoid_forward.fused(x.T).strides == x.T.strides
    moved = np.ones((4, 5, 6), np.float32).transpose(2, 0, 1)
    assert sigmoid_forward.fused(moved).strides == moved.strides
    assert squared_error_forward.fused(x.T, np.ones((60, 50), np.float32)).flags.c_contiguous
    assert sigmoid_forward.fused(x[:, ::2]).flags.c_contiguous


def test_a_gradient_that_is_one_number_everywhere_is_read_once() -> None:
    x = np.linspace(-1, 1, 3000, dtype=np.float32).reshape(50, 60)
    for g in (np.broadcast_to(np.float32(2.0), x.shape), np.array(2.0, np.float32)):
        result = leaky_relu_backward.fused(g, x, 0.5)
        np.testing.assert_array_equal(result, np.where(x > 0, np.float32(2.0), np.float32(1.0)))
    rows = np.broadcast_to(np.arange(50, dtype=np.float32)[:, None], x.shape)
    np.testing.assert_array_equal(leaky_relu_backward.fused(rows, x, 0.5), rows * np.where(x > 0, 1, 0.5))


def test_operands_broadcast() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 3, 50)).astype(np.float32)
    for shape in [(3, 1), (1, 3, 1), (50,), (1,), (), (40, 1, 1)]:
        weight = rng.standard_normal(shape).astype(np.float32)
        np.testing.assert_array_equal(prelu_forward(x, weight), np.where(x > 0, x, weight * x))
    mask = rng.random((3, 1)) < 0.5
    np.testing.assert_array_equal(fill(x, mask, 2.0), np.where(mask, 2.0, x))
    np.testing.assert_array_equal(choose(x, x[:1], mask), np.where(mask, x, x[:1]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_places_of_arrays_beyond_the_caches_take_turns(dtype: type[np.floating]) -> None:
    size = (1 << 20) + 77  # turns, and a rest
    g, x = (draws((size,), dtype)[i] for i in range(2))
    np.testing.assert_array_equal(threshold_backward(g, x, 0.5), np.where(x <= 0.5, 0.0, g))
    np.testing.assert_array_equal(choose(g, x, x > 0.25), np.where(x > 0.25, g, x))
    assert_close(squared_error_forward(g, x), (g.astype(np.float64) - x) ** 2)


def test_a_mask_may_be_of_integers() -> None:
    x = np.arange(3000.0)
    mask = np.arange(3000) % 3
    np.testing.assert_array_equal(fill(x, mask, 2.0), np.where(mask, 2.0, x))
    np.testing.assert_array_equal(fill(x[::2], mask[::2], 2.0), np.where(mask, 2.0, x)[::2])


def test_misaligned_and_frozen_arrays() -> None:
    raw = np.zeros(4 * 3000 + 1, np.uint8)[1:].view(np.float32)
    raw[...] = np.linspace(-3, 3, 3000)
    raw.flags.writeable = False
    np.testing.assert_array_equal(sigmoid_forward(raw), sigmoid_forward(raw.copy()))


def test_a_result_is_a_new_array_of_its_own() -> None:
    for x in (np.ones(3000, np.float32), np.ones((50, 60)).T, np.ones((2, 3, 500), np.float32)):
        result = mish_forward(x)
        assert type(result) is np.ndarray
        assert result.base is None
        assert not np.may_share_memory(result, x)


def test_without_a_floating_array_there_is_no_precision() -> None:
    with pytest.raises(DTypeError, match="needs a floating array among its operands"):
        sigmoid_forward.fused(0.5)


SMALL = f"""
import sys
import numpy as np
import shardwise as sw
from shardwise.nn import functional as F
x = sw.tensor(np.linspace(-1, 1, {WORTH_FUSING - 1}), requires_grad=True)
for function in (F.relu, F.elu, F.hardswish, F.gelu, F.silu, F.mish, F.softplus, sw.sigmoid, sw.tanh, sw.erf):
    function(x).sum().backward()
F.mse_loss(x, x.detach()).backward()
sw.where(x > 0, x, 0.0).sum().backward()
print("numba" in sys.modules)
"""


def test_small_arrays_do_not_wait_for_numba() -> None:
    run = subprocess.run([sys.executable, "-c", SMALL], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
