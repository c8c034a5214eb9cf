"""How a kernel chooses between its formula and its fused version, and what it does without numba."""

from __future__ import annotations

import contextvars
import inspect
import logging
import subprocess
import sys
import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from shardwise.backend.kernels.kernel import FusedUnavailableError, Kernel, plain_formulas
from shardwise.backend.kernels.pointwise_table import POINTWISE_KERNELS
from shardwise.backend.kernels.row.loss import cross_entropy_forward
from shardwise.backend.kernels.row.norm import layer_norm_forward
from shardwise.backend.kernels.table import KERNELS
from shardwise.backend.shape import ShapeArray

CALLS: list[str] = []


def formula(x: np.ndarray, y: np.ndarray | None = None, factor: float = 1.0) -> np.ndarray:
    """Add."""
    CALLS.append("plain")
    return x * factor if y is None else x * factor + y


def fused_formula(x: np.ndarray, y: np.ndarray | None = None, factor: float = 1.0) -> np.ndarray:
    CALLS.append("fused")
    return x * x.dtype.type(factor) if y is None else x * x.dtype.type(factor) + y


def broken(x: np.ndarray, y: np.ndarray | None = None, factor: float = 1.0) -> np.ndarray:
    raise FusedUnavailableError("this machine is odd")


def kernel_of(fused: object = fused_formula, **options: object) -> Kernel[..., np.ndarray]:
    kernel = Kernel(formula, "no.such.module:f", arrays=2, **options)
    kernel._fused = fused  # what loading by name would have set
    return kernel


def way(kernel: Kernel[..., np.ndarray], *args: object, **kwargs: object) -> str:
    CALLS.clear()
    kernel(*args, **kwargs)
    return CALLS[-1]


class Subclass(np.ndarray):
    """Not exactly NumPy's."""


X32, X64 = np.ones(3, np.float32), np.ones(3, np.float64)
BY_NAME: dict[str, Kernel[..., Any]] = {kernel.name: kernel for kernel in KERNELS}


def test_numpy_arrays_of_one_precision_are_fused() -> None:
    kernel = kernel_of()
    for arguments in ((X32,), (X64,), (X32, None), (X32, X32)):
        assert way(kernel, *arguments) == "fused"
    assert way(kernel, X32, y=X32) == "fused"
    assert way(kernel, x=X32, factor=2.0) == "fused"


def test_all_else_gets_the_formula() -> None:
    kernel = kernel_of()
    for arguments in (
        (X32, X64),
        (X64, X32),
        (X32.view(Subclass),),
        (X32.astype(">f4"),),
        (X32.astype(np.complex64),),
        (X32.astype(np.longdouble),),
        (np.ones(3, np.int64),),
        (X32, np.ones(3, np.int8)),
        (np.ones(3, bool), X32),
        (2.0,),
        (np.float32(2.0),),
        (ShapeArray(3),),
        (X32, ShapeArray(3)),
    ):
        assert way(kernel, *arguments) == "plain"
    assert way(kernel, X32, y=X64) == "plain"
    assert way(kernel, X32, y=ShapeArray(3)) == "plain"


def test_labels_are_integers_of_any_kind() -> None:
    kernel = kernel_of(integer="y")
    for labels in (np.ones(3, np.int8), np.ones(3, np.uint64), np.ones(3, bool)):
        assert way(kernel, X32, labels) == way(kernel, X32, y=labels) == "fused"
    for other in (X32, ShapeArray(3, np.int64), np.ones(3, np.int64).view(Subclass)):
        assert way(kernel, X32, other) == way(kernel, X32, y=other) == "plain"
    assert way(kernel, np.ones(3, np.int64), np.ones(3, np.int64)) == "plain"


@pytest.mark.parametrize("name", ["erf", "gelu_forward", "gelu_tanh_forward", "softmax_forward"])
def test_integers_are_promoted_by_the_formula(name: str) -> None:
    kernel, x = BY_NAME[name], np.array([[1, 2, 5]])
    np.testing.assert_allclose(kernel(x), kernel(x.astype(np.float64)), rtol=1e-14)
    assert kernel(x).dtype == np.float64


def test_arrays_that_are_written_must_be_writeable_as_they_are() -> None:
    kernel = kernel_of(in_place=1)
    frozen = X32.copy()
    frozen.flags.writeable = False
    assert way(kernel, X32, X32[::-1]) == "fused"
    assert way(kernel, np.ones(6, np.float32)[::2], X32) == "plain"
    assert way(kernel, frozen, X32) == "plain"


def test_small_arrays_may_be_left_to_the_formula() -> None:
    kernel = kernel_of(least=4)
    for small, large in ((X32, np.ones(4, np.float32)), (np.ones((0, 9)), np.ones((2, 2)))):
        assert way(kernel, small) == way(kernel, x=small) == "plain"
        assert way(kernel, large) == way(kernel, x=large) == "fused"
        assert way(kernel, large, large) == "fused"


def test_the_formula_can_be_asked_for_in_one_context() -> None:
    kernel = kernel_of()
    elsewhere: list[str] = []
    with plain_formulas():
        assert way(kernel, X32) == "plain"
        with plain_formulas():
            assert way(kernel, X32) == "plain"
        assert way(kernel, X32) == "plain"
        thread = threading.Thread(target=lambda: elsewhere.append(way(kernel, X32)))
        thread.start()
        thread.join()
        inherited = contextvars.copy_context().run(way, kernel, X32)
    assert elsewhere == ["fused"]
    assert inherited == "plain"
    assert way(kernel, X32) == "fused"


def test_a_failed_compilation_is_reported_once_and_answered_by_the_formula(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kernel = kernel_of(fused=broken)
    with caplog.at_level(logging.WARNING):
        assert way(kernel, X32) == "plain"
        assert way(kernel, X32) == "plain"
    assert [record.getMessage() for record in caplog.records] == [
        "fused kernels are not available, so the plain NumPy formulas run instead (several times slower, "
        "same results): this machine is odd. Install numba (pip install numba) or check its installation."
    ]
    with pytest.raises(FusedUnavailableError, match="this machine is odd"):
        kernel.fused  # noqa: B018 - the property raises


def test_a_missing_module_is_answered_by_the_formula() -> None:
    kernel = Kernel(formula, "shardwise.backend.kernels.no_such_cpu:f", arrays=1)
    assert way(kernel, X32) == "plain"
    with pytest.raises(
        FusedUnavailableError, match=r"No module named 'shardwise\.backend\.kernels\.no_such_cpu'"
    ):
        kernel.fused  # noqa: B018 - the property raises


def test_errors_of_the_user_are_not_taken_for_missing_kernels() -> None:
    def wrong(x: np.ndarray, y: np.ndarray | None = None, factor: float = 1.0) -> np.ndarray:
        raise ValueError("a bad argument")

    kernel = kernel_of(fused=wrong)
    for _ in range(2):
        with pytest.raises(ValueError, match="a bad argument"):
            kernel(X32)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_arrays_are_worked_on_in_float32(dtype: type[np.generic]) -> None:
    kernel = kernel_of()
    x = np.linspace(-2, 2, 50).astype(dtype)
    assert way(kernel, x) == "fused"
    result = kernel(x, x, factor=0.3)
    assert result.dtype == dtype
    wide = x.astype(np.float32)
    np.testing.assert_array_equal(result, (wide * np.float32(0.3) + wide).astype(dtype))
    with plain_formulas():
        assert way(kernel, x) == "plain"
        np.testing.assert_array_equal(kernel(x, x, factor=0.3), result)
    y, mean, rstd = layer_norm_forward(x.reshape(5, 10), None, None, 1e-5)
    assert (y.dtype, mean.dtype, rstd.dtype) == (dtype, np.float32, np.float32)
    loss, normaliser = cross_entropy_forward(x.reshape(5, 10), np.arange(5), -1)
    assert (loss.dtype, normaliser.dtype) == (dtype, np.float32)


@pytest.mark.parametrize("name", ["erf", "gelu_forward", "gelu_tanh_forward", "sum_of_squares"])
def test_results_are_arrays_even_without_dims(name: str) -> None:
    kernel = BY_NAME[name]
    for x in (np.array(0.5), np.array(0.5, np.float32), np.array(0.5, np.float16)):
        with plain_formulas():
            assert type(kernel(x)) is np.ndarray
        assert type(kernel(x)) is np.ndarray


def of_elements(kernel: Kernel[..., object]) -> tuple[object, ...]:
    """Arrays that are large enough to be fused, and numbers for the parameters behind them."""
    x = np.ones((33, 65), np.float32)
    arrays = [x > 0.0 if name == kernel._integer else x for name in inspect.signature(kernel).parameters]
    return (*arrays[: kernel._arrays], *(0.5 for _ in arrays[kernel._arrays :]))


M, V, H = np.ones((2, 3), np.float32), np.ones(3, np.float32), np.ones((1, 4, 2), np.float32)
LABELS, ROWS = np.array([0, 2]), np.ones(2, np.float32)
PAIRS = ((range(2),),)
S, W = np.ones((60, 5, 40), np.float32), np.ones((40, 10), np.float32)
L, L_LABELS, L_ROWS = np.ones((33, 65), np.float32), np.arange(33), np.ones(33, np.float32)
ARGUMENTS: dict[str, tuple[object, ...]] = {
    **{kernel.name: of_elements(kernel) for kernel in POINTWISE_KERNELS},
    "erf": (S,),
    "gelu_forward": (S,),
    "gelu_backward": (S, S),
    "gelu_tanh_forward": (S,),
    "gelu_tanh_backward": (S, S),
    "to_float16": (M,),
    "to_bfloat16": (M,),
    "add_row": (M, V),
    "top_of_rows": (np.ones((2, 9), np.float32), 2, True),
    "transposed": (np.ones((1, 2, 3), np.uint32),),
    "widened_float16": (np.ones(3, np.uint16),),
    "layer_norm_forward": (M, V, None, 1e-5),
    "layer_norm_backward": (M, M, None, ROWS, ROWS, 1e-5),
    "rms_norm_forward": (M, V, 1e-5),
    "rms_norm_backward": (M, M, None, ROWS, 1e-5),
    "batch_norm_forward": (M, V, None, 1e-5),
    "batch_norm_backward": (M, M, None, V, V, 1e-5),
    "group_norm_forward": (M, V, None, 1, 1e-5),
    "group_norm_backward": (M, M, None, M[:, :1], M[:, :1], 1, 1e-5),
    "resample_forward": (H, np.array([[3, 0]]), M[:1, :2]),
    "resample_backward": (H[:, :2], np.array([[3, 0]]), M[:1, :2], 4),
    "softmax_forward": (M,),
    "softmax_backward": (M, M),
    "log_softmax_forward": (M,),
    "log_softmax_backward": (M, M),
    "attention_forward": (H, H, H, None, None, 0.5, True),
    "attention_backward": (H, H, H, H, None, None, H, None, None, 0.5, True),
    "cross_entropy_forward": (M, LABELS, -1),
    "cross_entropy_and_slope": (M, LABELS, -1, 0.5),
    "cross_entropy_backward": (ROWS, M, LABELS, None, -1),
    "weighted_cross_entropy_forward": (L, L_LABELS, None, -1, 0.1),
    "weighted_cross_entropy_backward": (L, L_ROWS, L_LABELS, None, None, -1, 0.1),
    "soft_cross_entropy_forward": (L, L, L[0], 0.1),
    "soft_cross_entropy_backward": (L, L_ROWS, L, L[0], None, 0.1),
    "glu_forward": (S, 2),
    "glu_backward": (S[:, :, :20], S, 2),
    "swiglu_forward": (S,),
    "swiglu_backward": (S[:, :, :20], S),
    "lstm_forward": (S, S[0, :, :10], S[0, :, :10], W, None, None, False),
    "lstm_backward": (
        *(S[..., :10], S[0, :, :10], S[0, :, :10], S[0, :, :10], W, None, S, S[..., :10], None, False),
    ),
    "gru_forward": (S[..., :30], S[0, :, :10], W[:30], None, None, False),
    "gru_backward": (
        *(S[..., :10], S[0, :, :10], S[0, :, :10], W[:30], S[..., :10], S[..., :20], S[..., :10]),
        *(S[..., :10], None, False),
    ),
    "dropout_forward": (M, 0.5, 1, 2, 3),
    "dropout_backward": (M, M > 0, 0.5),
    "embedding_backward": (M, LABELS, 5),
    "scatter_rows": (H, LABELS.repeat(2), 5),
    "gather_along": (H, LABELS.repeat(2).reshape(1, 2, 2)),
    "scatter_along": (H, LABELS.repeat(4).reshape(1, 4, 2), 5),
    "column_sum": (M,),
    "sum_of_squares": (M,),
    "running_sum": (H, 1),
    **{f"sum_{of}over": (H, (0, 2)) for of in ("", "of_squares_", "of_sizes_", "of_numbers_")},
    **{f"{which}_over": (H, (0, 2)) for which in ("largest", "smallest", "product")},
    **{f"running_{what}": (H, 1) for what in ("product", "largest", "smallest")},
    "running_product_backward": (H, H, 1),
    "product_backward": (ROWS, M),
    "take_windows_": (np.ones((4, 1, 1, 2), np.float32), H, (1,), (0,), (1,)),
    "add_windows_": (H.copy(), np.ones((4, 1, 1, 2), np.float32), (1,), (0,), (1,)),
    "depthwise_forward": (H, np.ones((4, 1, 1), np.float32), (2,), (1,), (0,), (1,)),
    "depthwise_input": (H, np.ones((4, 1, 1), np.float32), 4, (2,), (1,), (0,), (1,)),
    "average_forward": (H, PAIRS, ((2,),)),
    "average_backward": (H[..., :1], PAIRS, ((2,),), (2,)),
    "maximum_forward": (H, PAIRS),
    "maximum_backward": (H[..., :1], np.zeros((1, 4, 1), np.int64), (2,)),
    "direct_forward": (H[:, :, None], np.ones((3, 4, 1, 1), np.float32), (1, 2), (0, 0)),
    "direct_weight": (H[:, :, None], H[:, :, None], (1, 1), (0, 0)),
    "depthwise_weight": (H, H, (1,), (1,), (0,), (1,)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_an_everyday_call_is_fused(
    kernel: Kernel[..., object], dtype: type[np.floating], monkeypatch: pytest.MonkeyPatch
) -> None:
    def formula_is_not_wanted(*args: object, **kwargs: object) -> object:
        raise AssertionError("the plain formula ran")

    monkeypatch.setattr(kernel, "plain", formula_is_not_wanted)
    monkeypatch.setattr(kernel, "_least", 0)
    arguments = [
        x.astype(dtype) if isinstance(x, np.ndarray) and x.dtype == np.float32 else x
        for x in ARGUMENTS[kernel.name]
    ]
    kernel(*arguments)
    names = list(inspect.signature(kernel).parameters)
    kernel(**dict(zip(names, arguments, strict=False)))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_both_versions_take_the_same_arguments(kernel: Kernel[..., object]) -> None:
    plain, fused = inspect.signature(kernel.plain), inspect.signature(kernel.fused)
    assert list(plain.parameters) == list(fused.parameters)
    assert [p.default for p in plain.parameters.values()] == [p.default for p in fused.parameters.values()]
    assert inspect.signature(kernel) == plain
    assert kernel.__doc__ == kernel.plain.__doc__
    assert kernel.__doc__


WITHOUT_NUMBA = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "numba":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocker())
import logging
import numpy as np
logging.basicConfig(format="%(levelname)s %(message)s", stream=sys.stdout)
from shardwise.backend import normal, uniform
from shardwise.backend.kernels.row.softmax import softmax_forward
from shardwise.backend.kernels.activation.activation import gelu_forward
from shardwise.backend.kernels.optimizer.optimizer import sgd_momentum
x = np.array([[0.0, np.log(3.0)]], np.float32)
assert np.allclose(softmax_forward(x), [[0.25, 0.75]])
assert np.allclose(gelu_forward(np.ones(2, np.float32)), 0.8413447)
p, g, m = (np.ones(2, np.float32) for _ in range(3))
sgd_momentum([[p], [g], [m]], [(0.1, 1.0, 0.0, 0.5, 1.0)])
assert np.allclose(p, 0.85)
assert normal((3,), np.float32, 1, 2).shape == uniform((3,), np.float64, 1, 2).shape == (3,)
assert not any(name.startswith("numba") for name in sys.modules)
print("done")
"""


def test_everything_runs_without_numba() -> None:
    run = subprocess.run([sys.executable, "-c", WITHOUT_NUMBA], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    warning, done = run.stdout.splitlines()
    assert done == "done"
    assert warning == (
        "WARNING fused kernels are not available, so the plain NumPy formulas run instead (several times "
        "slower, same results): ModuleNotFoundError: No module named 'numba'. Install numba (pip install "
        "numba) or check its installation."
    )


THREADS_WITHOUT_NUMBA = """
import sys, threading
sys.modules["numba"] = None
import logging
import numpy as np
logging.basicConfig(format="%(levelname)s %(message)s", stream=sys.stdout)
from shardwise.backend.kernels.activation import activation
from shardwise.backend.kernels.row import loss, norm, softmax
start = threading.Barrier(4)
x = np.ones((2, 3), np.float32)
def work(function, *args):
    start.wait()
    function(*args)
calls = [(activation.gelu_forward, x), (softmax.softmax_forward, x),
         (norm.layer_norm_forward, x, None, None, 1e-5),
         (loss.cross_entropy_forward, x, np.array([0, 1]), -100)]
threads = [threading.Thread(target=work, args=call) for call in calls]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_threads_that_first_meet_without_numba_warn_once() -> None:
    run = subprocess.run(
        [sys.executable, "-c", THREADS_WITHOUT_NUMBA], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.count("fused kernels are not available") == 1
    assert "ModuleNotFoundError: import of numba halted" in run.stdout
