"""Tensors and other libraries: DLPack, array interfaces, Python's protocols."""

from __future__ import annotations

import gc
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shardwise as sw
from shardwise.backend.shape import ShapeArray
from shardwise.errors import AutogradError, DataDependentShapeError, DeviceError, DTypeError, ShapeError
from shardwise.tensor.creation import asarray, from_dlpack
from shardwise.tensor.tensor import Tensor

DTYPES = [
    np.bool_, np.int8, np.int64, np.uint8, np.float16, np.float32, np.float64, np.complex64, np.complex128,
    ml_dtypes.bfloat16,
]  # fmt: skip


class Foreign:
    """Another library's array: no ``__array__``, only DLPack, and the old or the new protocol."""

    def __init__(self, array: Any, versioned: bool = True) -> None:
        self.tensor = Tensor(array)
        self.versioned = versioned

    def __dlpack__(self, **options: Any) -> Any:
        if self.versioned:
            return self.tensor.__dlpack__(**options)
        if "max_version" in options:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.tensor.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("versioned", [True, False])
def test_dlpack_shares_memory_both_ways(dtype: Any, versioned: bool) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    there = from_dlpack(Foreign(array, versioned))
    assert (there.dtype, there.shape, there.tolist()) == (array.dtype, (2, 3), array.tolist())
    assert np.shares_memory(there.data, array)
    turned = from_dlpack(Foreign(array.T[::-1], versioned))
    assert turned.tolist() == array.T[::-1].tolist()
    array[0, 0] = 1
    assert there.tolist()[0][0] == 1


def test_numpy_reads_tensors_by_dlpack() -> None:
    x = sw.tensor([[1.0, 2.0], [3.0, 4.0]])
    array = np.from_dlpack(x.T)
    assert array.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert np.shares_memory(array, x.data)
    assert x.__dlpack_device__() == (1, 0)


def test_memory_that_runs_backwards_is_copied() -> None:
    x = sw.tensor([1.0, 2.0, 3.0])[::-1]
    array = np.from_dlpack(x)
    assert array.tolist() == [3.0, 2.0, 1.0]
    assert min(array.strides) > 0  # PyTorch ends the process at others
    with pytest.raises(BufferError) as caught:
        x.__dlpack__(copy=False)
    wanted = "__dlpack__: cannot share memory with the negative strides (-4,); clone() it first"
    assert str(caught.value) == wanted


def test_memory_that_must_not_be_written_stays_so() -> None:
    array = np.ones(3)
    array.flags.writeable = False
    there = from_dlpack(Foreign(array))
    assert not there.data.flags.writeable
    assert from_dlpack(Foreign(np.ones(3))).data.flags.writeable


def test_shared_memory_outlives_its_maker() -> None:
    there = from_dlpack(Foreign(np.full(1000, 2.0, ml_dtypes.bfloat16)))
    gc.collect()
    there.data[0] = 5.0
    assert there.float().sum().item() == 2003.0


def test_what_cannot_be_shared_is_named() -> None:
    leaf = sw.tensor([1.0], requires_grad=True)
    with pytest.raises(
        AutogradError, match=r"__dlpack__ of a tensor that requires grad: call detach\(\) first"
    ):
        np.from_dlpack(leaf)
    with pytest.raises(DTypeError, match="from_dlpack: wanted an array with __dlpack__, got list"):
        from_dlpack([1.0])  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="a tensor without data"):
        sw.zeros(2, device="shape").__dlpack__()

    class Metal(Foreign):
        def __dlpack_device__(self) -> tuple[int, int]:
            return 8, 0

    with pytest.raises(DeviceError, match="wanted an array on the CPU or a CUDA device, got DLPack device 8"):
        from_dlpack(Metal(np.ones(2)))

    class Locked(Foreign):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("locked")

    with pytest.raises(DTypeError, match="from_dlpack: cannot take over this Locked: locked"):
        from_dlpack(Locked(np.ones(2)))


def test_arrays_of_other_libraries_become_tensors() -> None:
    array = np.arange(3, dtype=ml_dtypes.bfloat16)
    assert np.shares_memory(asarray(Foreign(array)).data, array)
    assert not np.shares_memory(sw.tensor(Foreign(array)).data, array)
    assert sw.tensor(Foreign(array)).dtype == ml_dtypes.bfloat16

    class OnlyInterface:
        __array_interface__ = np.arange(3.0).__array_interface__

    assert sw.tensor(OnlyInterface()).dtype == np.float64


def test_the_cuda_array_interface_is_there_on_cuda_only() -> None:
    x = sw.tensor([1.0])
    assert not hasattr(x, "__cuda_array_interface__")

    class Device(np.ndarray):  # type: ignore[type-arg]
        __cuda_array_interface__: ClassVar[dict[str, int]] = {"version": 3}

    on_device = Tensor(np.ones(2).view(Device))
    assert on_device.__cuda_array_interface__ == {"version": 3}
    on_device.requires_grad_()
    with pytest.raises(AutogradError, match="__cuda_array_interface__ of a tensor that requires grad"):
        _ = on_device.__cuda_array_interface__


def test_numpy_leaves_the_tape_by_force() -> None:
    x = sw.tensor([1.0], requires_grad=True)
    assert (x * 2).numpy(force=True).tolist() == [2.0]
    assert np.shares_memory(x.numpy(force=True), x.data)


# ---- Python's protocols


def test_truth() -> None:
    assert bool(sw.tensor(2.0))
    assert not sw.tensor([[0]])
    for x in (sw.ones(2), sw.zeros(0)):
        with pytest.raises(ShapeError, match=r"the truth value of a tensor of shape \(\d,\) is ambiguous"):
            bool(x)


def test_numbers() -> None:
    assert complex(sw.tensor(1 + 2j)) == 1 + 2j
    assert (complex(sw.tensor([2])), int(sw.tensor(2.7)), float(sw.tensor([[3]]))) == (2, 2, 3.0)
    with pytest.raises(TypeError):
        float(sw.tensor(1j))
    half = sw.tensor([0.1, 0.5]).bfloat16()
    assert half.tolist() == [0.10009765625, 0.5]
    assert type(half[1].item()) is float
    assert type(sw.tensor(3).item()) is int
    assert (range(10)[sw.tensor(3)], "abc"[sw.tensor(True)]) == (3, "b")


def test_rounding() -> None:
    x = sw.tensor([1.25, 2.5, -0.75], requires_grad=True)
    assert (round(x).tolist(), round(x, 1).tolist()) == (
        [1.0, 2.0, -1.0],
        [np.float32(1.2), 2.5, np.float32(-0.8)],
    )


def test_membership() -> None:
    x = sw.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    assert 3 in x
    assert 5 not in x
    assert sw.tensor(2.0) in x
    assert np.array([3.0, 9.0]) in x
    assert 1 not in sw.zeros(0)
    assert float("nan") not in sw.tensor([float("nan")])


def test_sequences() -> None:
    x = sw.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    first, second = x
    (first * second).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[3.0, 4.0], [1.0, 2.0]]
    assert list(sw.zeros(0, 2)) == []
    for call in (len, iter):
        with pytest.raises(ShapeError, match="0-d tensor"):
            call(sw.tensor(1.0))


def test_numpy_gets_no_array_of_what_has_a_gradient() -> None:
    x = sw.tensor([1.0, 2.0], requires_grad=True)
    for call in (lambda: np.array([x[0], x[1]]), lambda: np.asarray(x)):
        with pytest.raises(AutogradError) as caught:
            call()
        assert str(caught.value) == (
            "NumPy asked for the array of a tensor that requires grad. To keep its gradient, join tensors by "
            "np.stack([...]), not np.array([...]), and use functions that take them; else call detach() first"
        )
    np.stack([x[0] * x[1], x[1]]).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]


def test_values_of_what_has_none() -> None:
    x = sw.zeros(1, device="shape")
    for call in (float, int, bool, complex, Tensor.item, Tensor.tolist, np.asarray, lambda t: 1 in t):
        with pytest.raises(DataDependentShapeError):
            call(x)  # type: ignore[operator]
    assert isinstance(x.data, ShapeArray)


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=4))
def test_lists_come_back(values: list[float]) -> None:
    x = sw.tensor(values)
    assert x.tolist() == values
    assert [float(each) for each in x] == values
    assert np.asarray(x).tolist() == values
