"""Dtypes, devices, and what a tensor says of itself."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import shardwise as sw
from shardwise.backend import dtypes
from shardwise.backend.kind import finfo, iinfo
from shardwise.errors import ArgumentError, DeviceError, DTypeError, ShapeError
from shardwise.tensor import gradcheck


def test_to_takes_what_pytorch_s_takes() -> None:
    x = sw.tensor([1.5, 2.5])
    other = sw.zeros(1, dtype=np.float64)
    for same in (x.to("cpu"), x.to("cpu:0"), x.to(np.float32), x.to("float32"), x.to(x), x.to(), x.to(None),
                 x.to(device="cpu", dtype="float32"), x.to("cpu", True), x.to("cpu", False, False),
                 x.to(device=None, dtype=None), x.cpu(), x.type_as(x), x.float(), x.astype("float32"),
                 x.contiguous()):  # fmt: skip
        assert same is x
    for cast in (x.to(other), x.to(np.float64), x.to("cpu", np.float64), x.to("float64", non_blocking=True),
                 x.to(dtype="double"), x.type_as(other), x.type(np.float64), x.double()):  # fmt: skip
        assert (cast.dtype, cast.tolist()) == (np.float64, [1.5, 2.5])
    for copied in (
        x.to(x, copy=True),
        x.to("cpu", False, True),
        x.clone(),
        x.copy(),
        x.astype("float32", copy=True),
    ):
        assert copied.tolist() == x.tolist()
        assert not np.shares_memory(copied.data, x.data)
    assert x.type() == "float32"
    assert x.to("shape").is_meta


def test_gradients_come_back_in_the_dtype_they_left() -> None:
    x = sw.tensor([1.0, 2.0], requires_grad=True)
    (x.half().double() * 3.0).sum().backward()
    assert x.grad is not None
    assert (x.grad.dtype, x.grad.tolist()) == (np.float32, [3.0, 3.0])
    y = sw.tensor([1.0, 2.0], dtype=np.float64, requires_grad=True)
    assert gradcheck(lambda y: y.to(y, copy=True) * y.copy(), (y,))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("float", np.float32), ("double", np.float64), ("half", np.float16), ("bfloat16", ml_dtypes.bfloat16),
     ("int", np.int32), ("long", np.int64), ("short", np.int16), ("char", np.int8), ("byte", np.uint8),
     ("bool", np.bool_), ("cfloat", np.complex64), ("cdouble", np.complex128)],
)  # fmt: skip
def test_dtypes_by_method_and_by_name(name: str, dtype: type) -> None:
    x = getattr(sw.tensor([0, 1, 3]), name)()
    assert x.dtype == dtype
    assert x.tolist() == ([False, True, True] if name == "bool" else [0, 1, 3])
    if name not in ("char", "byte"):
        assert getattr(dtypes, name) == x.dtype
    assert hash(getattr(dtypes, x.dtype.name)) == hash(x.dtype)


def test_every_name_of_a_dtype_is_one() -> None:
    for name in dtypes.__all__:
        assert isinstance(getattr(dtypes, name), np.dtype)
    assert sw.zeros(2, dtype=dtypes.bfloat16).dtype == "bfloat16"


def test_limits() -> None:
    assert float(finfo(dtypes.bfloat16).max) == (2.0 - 2.0**-7) * 2.0**127
    assert finfo().eps == np.finfo(np.float32).eps
    assert finfo("complex64").min == np.finfo(np.float32).min
    assert (iinfo(np.uint8).max, iinfo("int64").min) == (255, -(2**63))
    with pytest.raises(DTypeError, match="finfo: wanted a floating-point dtype, got int64"):
        finfo(np.int64)
    with pytest.raises(DTypeError, match="iinfo: wanted an integer dtype, got bfloat16"):
        iinfo("bfloat16")


def test_targets_that_are_none() -> None:
    x = sw.tensor([1.0])
    with pytest.raises(DTypeError, match="to: 'gpu' is no dtype; wanted one such as 'float32'"):
        x.to("gpu")
    with pytest.raises(ArgumentError, match="to: there is no device 'float32'"):
        x.to(device="float32")
    with pytest.raises(DTypeError, match="astype: 'real' is no dtype"):
        x.astype("real")
    with pytest.raises(DeviceError, match="cannot use device 'cuda:3'"):
        x.cuda(3)


def test_facts() -> None:
    x = sw.zeros(2, 3, dtype=np.float64)
    assert (x.ndim, x.dim(), x.ndimension(), x.numel(), x.nelement()) == (2, 2, 2, 6, 6)
    assert (x.element_size(), x.itemsize, x.nbytes) == (8, 8, 48)
    assert (x.size(), x.size(-1), x.size(0)) == ((2, 3), 3, 2)
    assert (x.stride(), x.stride(-1), x.T.stride(), x[:, ::2].stride()) == ((3, 1), 1, (1, 3), (3, 2))
    assert (x.is_cpu, x.is_cuda, x.is_meta, x.get_device()) == (True, False, False, -1)
    assert x.data_ptr() == x.data.ctypes.data
    assert x[1].data_ptr() == x.data_ptr() + 24
    assert (x.is_contiguous(), x.T.is_contiguous(), x.T.contiguous().is_contiguous()) == (True, False, True)
    assert x.grad_fn is None
    y = sw.ones(1, requires_grad=True) * 2.0
    assert y.grad_fn is y.node
    with pytest.raises(ShapeError, match="size: there is no dim 2 among 2"):
        x.size(2)


def test_facts_of_dtypes() -> None:
    for dtype, facts in {
        "bool": (False, False, False), "uint8": (False, False, False), "int8": (False, False, True),
        "float16": (True, False, True), "bfloat16": (True, False, True), "complex64": (False, True, True),
    }.items():  # fmt: skip
        x = sw.zeros(1, dtype=dtype)
        assert (x.is_floating_point(), x.is_complex(), x.is_signed()) == facts


def test_facts_of_what_has_no_data() -> None:
    x = sw.zeros(2, 3, 4, device="shape")
    assert (x.is_meta, x.is_cpu, x.device) == (True, False, "shape")
    assert (x.stride(), x.nbytes, x.is_contiguous()) == ((12, 4, 1), 96, True)
    assert x.contiguous() is x
    with pytest.raises(DeviceError, match="data_ptr: a tensor on device 'shape' has no address"):
        x.data_ptr()
