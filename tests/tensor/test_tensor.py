"""Making, converting, indexing and printing tensors."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shardwise as sw
from shardwise.errors import AutogradError, DTypeError, ShapeError
from shardwise.tensor import Tensor


def test_dtypes_of_new_tensors() -> None:
    assert sw.tensor([1.0]).dtype == np.float32
    assert sw.tensor(1.5).dtype == np.float32
    assert sw.tensor([1, 2]).dtype == np.int64
    assert sw.tensor([True]).dtype == np.bool_
    assert sw.tensor([1j]).dtype == np.complex64
    for dtype in (np.float64, np.float16, np.int8, np.uint32, np.complex128, ml_dtypes.bfloat16):
        assert sw.tensor(np.ones(2, dtype)).dtype == dtype
    assert sw.tensor([1, 2], dtype=np.float64).dtype == np.float64
    with pytest.raises(DTypeError, match="cannot make a tensor of <U1 values"):
        sw.tensor(["a"])


def test_a_tensor_is_not_made_of_a_list_by_its_class() -> None:
    with pytest.raises(DTypeError, match=r"and got a list; shardwise\.tensor\(\) makes"):
        Tensor([1.0])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="manual_seed: the seed must be an integer, got 'a'"):
        sw.manual_seed("a")  # type: ignore[arg-type]


def test_tensor_copies_and_as_tensor_shares() -> None:
    array = np.ones(3)
    assert not np.shares_memory(sw.tensor(array).data, array)
    assert np.shares_memory(sw.as_tensor(array).data, array)
    assert np.shares_memory(sw.from_numpy(array).data, array)
    t = sw.tensor(array)
    assert sw.as_tensor(t) is t


def test_python_scalars_are_weak_and_numpy_arrays_mix() -> None:
    x = sw.tensor([1.0, 2.0])
    assert (x * 2.5).dtype == np.float32
    assert (np.float32(2.0) * x).dtype == np.float32
    assert (x + np.ones(2)).dtype == np.float64
    left = np.array([10.0, 20.0], np.float32) - x
    assert isinstance(left, Tensor)
    assert left.tolist() == [9.0, 18.0]
    assert (sw.tensor([3]) / 2).dtype == np.float64
    assert isinstance(np.exp(x), Tensor)
    assert np.concatenate([x, x]).tolist() == [1.0, 2.0, 1.0, 2.0]
    assert np.sum(x, axis=0).item() == 3.0


@given(st.integers(0, 3), st.integers(0, 3), st.integers(1, 3))
def test_shapes_as_numpy(a: int, b: int, c: int) -> None:
    array = np.arange(a * b * c, dtype=np.float32).reshape(a, b, c)
    t = sw.tensor(array)
    assert t.transpose(0, 2).shape == array.swapaxes(0, 2).shape
    assert t.sum(1).shape == array.sum(1).shape
    assert t.mean((0, 2), keepdim=True).shape == (1, b, 1)
    assert t.flatten().shape == (a * b * c,)
    assert t.unsqueeze(-1).shape == (a, b, c, 1)
    assert t.unsqueeze(0).squeeze(0).shape == t.shape
    assert [p.shape for p in t.chunk(2, 2)] == [
        s.shape for s in np.split(array, [-(-c // 2)], 2) if s.shape[2]
    ]
    np.testing.assert_array_equal(t.permute(2, 0, 1).data, array.transpose(2, 0, 1))
    np.testing.assert_array_equal(t[..., ::-1].data, array[..., ::-1])
    np.testing.assert_array_equal((t > 2.0).data, array > 2.0)


def test_reshape_errors() -> None:
    t = sw.zeros(2, 3)
    assert t.reshape(-1).shape == (6,)
    assert t.view(3, -1).shape == (3, 2)
    with pytest.raises(ShapeError, match=r"cannot reshape \(2, 3\) \(6 elements\) to \(4, -1\)"):
        t.reshape(4, -1)
    with pytest.raises(ShapeError, match=r"split sizes \[1, 1\] add up to 2, but dim 1 has 3"):
        t.split([1, 1], 1)


def test_shapes_that_do_not_broadcast_are_named() -> None:
    with pytest.raises(ShapeError) as caught:
        sw.zeros(2) + sw.zeros(3)
    assert str(caught.value) == (
        "Add cannot take inputs of shapes (2,), (3,): operands could not be broadcast together with shapes "
        "(2,) (3,). Sizes must be equal or 1, counted from the last dim; put dims of size 1 where they are "
        "missing, with unsqueeze() or reshape()"
    )
    with pytest.raises(DTypeError) as refused:
        sw.tensor([True]) - sw.tensor([False])
    assert str(refused.value).startswith(
        "Sub cannot take inputs of dtypes bool, bool: numpy boolean subtract"
    )
    assert str(refused.value).endswith("Cast with astype(), or use an op for these")

    class Listed(sw.Function):
        signature = "*"

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return [x]

    with pytest.raises(DTypeError) as listed:
        Listed.apply(sw.zeros(2))
    assert str(listed.value) == "forward of Listed returned a list; return an array, or a tuple of arrays"
    with pytest.raises(ShapeError, match=r"matmul: cannot multiply shapes \(2, 3\) and \(2, 3\)"):
        sw.zeros(2, 3) @ sw.zeros(2, 3)
    with pytest.raises(ShapeError, match=r"linear: the last dim of input must be 4"):
        sw.nn.functional.linear(sw.zeros(2, 3), sw.zeros(5, 4))


def test_numbers_out() -> None:
    x = sw.tensor([[1.5]])
    assert (x.item(), float(x), int(x), bool(x), x.tolist()) == (1.5, 1.5, 1, True, [[1.5]])
    assert [1, 2, 3][sw.tensor(1)] == 2
    assert len(sw.zeros(4, 2)) == 4
    assert [row.tolist() for row in sw.tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
    with pytest.raises(ShapeError, match=r"item\(\) needs exactly one element, but the shape is \(2,\)"):
        sw.zeros(2).item()
    with pytest.raises(DTypeError, match="only integer tensors can be an index"):
        [1, 2][x]  # type: ignore[call-overload]


def test_a_loss_can_be_formatted() -> None:
    assert f"{sw.tensor(1.2345, requires_grad=True):.2f} {sw.tensor(7):4d}|" == "1.23    7|"
    assert f"{sw.tensor(1.5)}" == "tensor(1.5)"
    with pytest.raises(ValueError, match="Unknown format code 'f'"):
        format(sw.tensor([1.0, 2.0]), ".2f")


def test_operators_with_a_number_on_the_left() -> None:
    x = sw.tensor([2.0, 4.0])
    assert (5 // x).tolist() == [2.0, 1.0]
    assert (5 % x).tolist() == [1.0, 1.0]


def test_leaving_the_tape_is_explicit() -> None:
    x = sw.tensor([1.0], requires_grad=True)
    with pytest.raises(AutogradError, match=r"call detach\(\)\.numpy\(\)"):
        x.numpy()
    with pytest.raises(AutogradError, match=r"call detach\(\) first"):
        np.asarray(x)
    assert x.detach().numpy().tolist() == [1.0]
    assert np.shares_memory(x.detach().data, x.data)
    assert np.asarray(x.detach()).tolist() == [1.0]


def test_copies_and_pickles() -> None:
    x = sw.tensor([1.0, 2.0], requires_grad=True)
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert y.tolist() == x.tolist()
        assert y.requires_grad
        assert not np.shares_memory(x.data, y.data)
    with pytest.raises(AutogradError, match="only leaves can be deep-copied"):
        copy.deepcopy(x * 2.0)


def test_repr() -> None:
    assert repr(sw.tensor([1.0, 2.0])) == "tensor([1., 2.])"
    assert repr(sw.tensor([1.0], requires_grad=True)) == "tensor([1.], requires_grad=True)"
    x = sw.tensor([1.0], dtype=np.float64, requires_grad=True)
    assert repr(x * 2) == "tensor([2.], dtype=float64, grad_fn=Mul)"
    assert repr(sw.tensor(3)) == "tensor(3)"


def test_equal_compares_elements_and_hash_is_identity() -> None:
    x = sw.tensor([1, 2])
    assert (x == sw.tensor([1, 3])).tolist() == [True, False]
    assert (x != 1).tolist() == [False, True]
    assert len({x, x, sw.tensor([1, 2])}) == 2


def test_devices() -> None:
    x = sw.tensor([1.0])
    assert x.device == "cpu"
    assert x.to("cpu") is x
    assert x.to("cpu", np.float64).dtype == np.float64


def test_the_package_is_also_a_module() -> None:
    import shardwise.tensor as floor

    assert floor.Tensor is Tensor
    assert floor([1.0]).tolist() == [1.0]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("name", "args", "count"),
    [("unsqueeze", (3,), 3), ("squeeze", (-3,), 2), ("transpose", (0, 2), 2), ("softmax", (2,), 2),
     ("unbind", (2,), 2), ("chunk", (2, 2), 2), ("flatten", (0, 2), 2)],
)  # fmt: skip
def test_a_dim_that_is_not_there_is_named(name: str, args: tuple[int, ...], count: int) -> None:
    with pytest.raises(
        ShapeError, match=rf"(?i)^{name}: there is no dim -?\d among {count}; wanted a number"
    ):
        getattr(sw.zeros(2, 3), name)(*args)


def test_rearrangements_that_cannot_be() -> None:
    t = sw.zeros(2, 3)
    for call, message in (
        (lambda: t.reshape(6, -2), "cannot reshape (2, 3) (6 elements) to (6, -2)"),
        (lambda: t.flatten(1, 0), "flatten: start_dim=1 lies behind end_dim=0"),
        (lambda: t.expand(3), "cannot expand (2, 3) to (3,), which has fewer dims"),
        (lambda: t.split(0), "split: cannot cut shape (2, 3) into pieces of 0"),
        (lambda: t.chunk(0), "chunk: cannot cut shape (2, 3) into 0 pieces"),
        (lambda: t.sum().unbind(), "unbind: a tensor without dims has no slices"),
    ):
        with pytest.raises(ShapeError) as caught:
            call()
        assert message in str(caught.value)


def test_tensors_without_elements_or_dims_can_be_rearranged() -> None:
    empty = sw.zeros(0, 3, 4)
    assert empty.flatten(1).shape == (0, 12)
    assert empty.flatten(0, 1).shape == (0, 4)
    assert sw.nn.functional.layer_norm(empty, (3, 4)).shape == (0, 3, 4)
    scalar = sw.tensor(2.0)
    assert scalar.transpose(0, -1).shape == scalar.squeeze(0).shape == scalar.softmax(0).shape == ()
    assert scalar.unsqueeze(0).shape == scalar.flatten().shape == (1,)


def test_bits_are_for_integers_and_booleans() -> None:
    a, b = sw.tensor([True, False]), sw.tensor([True, True])
    assert ((~a).tolist(), (a & b).tolist(), (a | False).tolist()) == (
        [False, True],
        [True, False],
        [True, False],
    )
    bits = sw.tensor([1, 2])
    assert ((~bits).tolist(), (bits & 2).tolist(), (1 | bits).tolist()) == ([-2, -3], [0, 2], [1, 3])
    with pytest.raises(
        DTypeError,
        match=r"^~ takes integers, bit by bit, or booleans, not float32; compare first, "
        r"as in x != 0, or cast with astype\(\)$",
    ):
        _ = ~bits.astype(np.float32)
    with pytest.raises(DTypeError, match=r"^& takes integers, bit by bit, or booleans, not float;"):
        _ = bits & 1.0
