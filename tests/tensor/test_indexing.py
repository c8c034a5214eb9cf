"""Reading and assigning by index, against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import shardwise as sw
from shardwise.backend import ShapeArray
from shardwise.errors import (
    ArgumentError,
    AutogradError,
    DataDependentShapeError,
    DTypeError,
    IndexRangeError,
    ShapeError,
)
from shardwise.tensor import Tensor, grad
from shardwise.tensor.signature import known_shapes, terms_of

shapes = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4)


@st.composite
def indexed(draw: st.DrawFn) -> tuple[tuple[int, ...], Any]:
    """A shape, and an index of any of NumPy's kinds into it."""
    shape = draw(shapes)
    parts: list[Any] = []
    dim = 0
    together = draw(hnp.broadcastable_shapes((2, 3), min_dims=0, max_dims=2))
    while dim < len(shape) and draw(st.integers(0, 5)):
        size = shape[dim]
        kind = draw(st.sampled_from(["int", "slice", "new", "array", "list", "tensor", "mask"]))
        if kind == "int":
            parts.append(draw(st.integers(-size, size - 1)))
        elif kind == "slice":
            parts.append(draw(st.slices(size)))
        elif kind == "new":
            parts.append(None)
            continue
        elif kind == "mask":
            mask = np.zeros(size, bool)
            mask[draw(st.integers(0, size - 1))] = True  # one place broadcasts against all other arrays
            parts.append(draw(st.sampled_from([mask, mask.tolist()])))
        else:
            array = draw(hnp.arrays(np.int64, together, elements=st.integers(-size, size - 1)))
            parts.append({"array": array, "list": array.tolist(), "tensor": sw.tensor(array)}[kind])
        dim += 1
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))) if not parts else len(parts), Ellipsis)
    key = tuple(parts)
    return shape, key[0] if len(key) == 1 and draw(st.booleans()) else key


def plain(key: Any) -> Any:
    """The same index without tensors."""
    if isinstance(key, tuple):
        return tuple(map(plain, key))
    return key.data if isinstance(key, Tensor) else key


@settings(max_examples=80, deadline=None)
@given(indexed())
def test_reading_as_numpy(case: tuple[tuple[int, ...], Any]) -> None:
    shape, key = case
    array = np.arange(np.prod(shape, dtype=int), dtype=np.float64).reshape(shape)
    x = sw.tensor(array, requires_grad=True)
    taken = x[key]
    expected = np.asarray(array[plain(key)])
    np.testing.assert_array_equal(taken.detach().data, expected)
    weights = np.arange(1.0, expected.size + 1).reshape(expected.shape)
    taken.backward(weights)
    gradient = np.zeros(shape)
    np.add.at(gradient, plain(key), weights)
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.data, gradient)


@settings(max_examples=80, deadline=None)
@given(indexed(), st.booleans())
def test_assigning_as_numpy(case: tuple[tuple[int, ...], Any], one: bool) -> None:
    shape, key = case
    array = np.zeros(shape)
    target, x = sw.tensor(array), sw.tensor(array - 1.0, requires_grad=True)
    wanted = np.shape(array[plain(key)])
    value = sw.tensor(np.arange(1.0, np.prod(wanted, dtype=int) + 1).reshape(wanted), requires_grad=True)
    value = sw.tensor(np.array(5.0), requires_grad=True) if one else value
    array[plain(key)] = value.detach().data
    target[key] = value.detach()
    np.testing.assert_array_equal(target.data, array)
    written = x * 1.0
    written[key] = value
    np.testing.assert_array_equal(written.detach().data, np.where(array == 0.0, -1.0, array))
    written.sum().backward()
    assert x.grad is not None
    assert value.grad is not None
    np.testing.assert_array_equal(x.grad.data, array == 0.0)
    stays = np.sum(array != 0.0) if one else np.isin(value.detach().data, array)  # the last value stays
    np.testing.assert_array_equal(value.grad.data, stays)


@pytest.mark.parametrize(
    "key", [1, slice(None, None, -2), None, Ellipsis, (0, slice(1)), np.array(1), sw.tensor(1)]
)
def test_a_view_or_a_copy(key: Any) -> None:
    t = sw.tensor(np.arange(12.0).reshape(3, 4))
    assert np.shares_memory(t[key].data, t.data)
    assert not np.shares_memory(t[[0, 1]].data, t.data)
    assert not np.shares_memory(t[t > 3.0].data, t.data)


def test_an_element_is_a_view_too() -> None:
    t = sw.zeros(2, 2)
    t[1, 1].fill_(3.0)
    t[0][0] = 2.0
    assert t.tolist() == [[2.0, 0.0], [0.0, 3.0]]


def test_dtypes_pass_through() -> None:
    for dtype in (np.float16, ml_dtypes.bfloat16, np.complex64, np.int8, np.bool_):
        t = sw.tensor(np.array([[0, 1], [1, 1]]).astype(dtype))
        assert t[[1, 0]].dtype == t[0].dtype == t[t == t].dtype == dtype
        t[0] = t[1]
        t[[1]] = 0
        assert t.dtype == dtype
        assert t.data.real.astype(np.float32).tolist() == [[1.0, 1.0], [0.0, 0.0]]
    many = sw.tensor(np.zeros(2), dtype=ml_dtypes.bfloat16, requires_grad=True)
    many[np.zeros(1000, int)].sum().backward()
    assert many.grad is not None
    assert many.grad.dtype == ml_dtypes.bfloat16
    assert many.grad[0].item() == 1000.0  # 256 if it were added up in bfloat16
    whole = sw.tensor([1, 2, 3])
    whole[1] = 2.9  # as NumPy and PyTorch do
    assert whole.tolist() == [1, 2, 3]


def test_one_part_is_assigned_to_another() -> None:
    x = sw.tensor(np.arange(6.0).reshape(3, 2), requires_grad=True)
    y = x * 1.0
    y[0] = y[1]  # the view on the right looks at another row
    last = y[2]
    y[1, 0] = 7.0
    (grads,) = grad(y.sum() + last.sum(), x)
    assert y.tolist() == [[2.0, 3.0], [7.0, 3.0], [4.0, 5.0]]
    assert grads.tolist() == [[0.0, 0.0], [1.0, 2.0], [2.0, 2.0]]
    first = y[0]
    with pytest.raises(AutogradError, match="into a tensor with views on the tape"):
        y[:, 1] = 0.0  # of which `first` sees one place
    with pytest.raises(AutogradError, match="into a tensor with views on the tape"):
        y[1:] = y[:-1]
    with pytest.raises(IndexRangeError, match="assignment to"):
        x.detach().clone()[7] = first.detach()


def test_assignment_goes_on_the_tape() -> None:
    x = sw.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 2.0
    square = y * y
    y[0] = 0.0
    with pytest.raises(AutogradError, match=r"input 0 of Mul, .* was written in place after it was saved"):
        square.sum().backward()
    with pytest.raises(
        AutogradError, match=r"cannot write in place \(assignment by index\) into a leaf of shape"
    ):
        x[0] = 1.0
    with sw.no_grad():
        x[0] = 5.0
    assert x.tolist() == [5.0, 2.0, 3.0]
    view = y[1:]
    with pytest.raises(AutogradError, match="into a tensor with views on the tape"):
        y[1] = x[0]
    del view
    y[1:] = x[:2] * x[:2]
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [10.0, 4.0, 0.0]
    buffer = sw.zeros(2)
    buffer[0] = x[2]
    assert buffer.requires_grad
    buffer[:] = 0.0
    assert buffer.detach().tolist() == [0.0, 0.0]
    counts = sw.tensor([1, 2])
    counts[0] = x[0]
    assert not counts.requires_grad


def test_what_is_assigned_may_overlap() -> None:
    t = sw.arange(5)
    t[1:] = t[:-1]
    assert t.tolist() == [0, 0, 1, 2, 3]
    t[...] = t
    t[[0, 1]] = t[[4, 3]]
    assert t.tolist() == [3, 2, 1, 2, 3]


ERRORS: list[tuple[Any, type[Exception], str]] = [
    (3, IndexRangeError, "indexing a tensor of shape (3, 4): index 3 is out of bounds for axis 0"),
    ((0, -5), IndexRangeError, "indexing a tensor of shape (3, 4): index -5 is out of bounds for axis 1"),
    ((0, 0, 0), IndexRangeError, "indexing a tensor of shape (3, 4): too many indices for array"),
    ([0, 7], IndexRangeError, "indexing a tensor of shape (3, 4): index 7 is out of bounds for axis 0"),
    (([0, 1], [0, 1, 2]), IndexRangeError, "indexing a tensor of shape (3, 4): shape mismatch"),
    (np.ones(2, bool), IndexRangeError, "indexing a tensor of shape (3, 4): boolean index did not match"),
    ((..., ...), IndexRangeError, "an index can only have a single ellipsis"),
    (1.0, DTypeError, "an index must be integers, booleans or slices, not 1.0"),
    ("a", DTypeError, "an index must be integers, booleans or slices, not 'a'"),
    (sw.tensor([0.0]), DTypeError, "an index must be integers or booleans, not float32; cast with long()"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "kind", "message"), ERRORS, ids=[message[-30:] for *_, message in ERRORS])
def test_indices_that_do_not_fit(key: Any, kind: type[Exception], message: str) -> None:
    t = sw.zeros(3, 4)
    with pytest.raises(kind) as caught:
        t[key]
    assert message in str(caught.value)
    with pytest.raises(kind) as caught:
        t[key] = 1.0
    assert message.replace("indexing a", "assignment to a") in str(caught.value)


def test_values_that_do_not_fit() -> None:
    t = sw.zeros(3, 4)
    with pytest.raises(ShapeError, match=r"IndexPut cannot take inputs of shapes \(3, 4\), \(3,\)"):
        t[0] = sw.zeros(3)
    with pytest.raises(
        DTypeError, match="cannot assign complex numbers to float32; take their real part first"
    ):
        t[0] = 1j
    with pytest.raises(ArgumentError, match="read-only, as that of an expanded one is; clone"):
        t[:1].expand(3, 4)[0] = 1.0


def test_without_data() -> None:
    x = Tensor(ShapeArray((3, 4), np.float32), True)  # type: ignore[arg-type]
    mask = Tensor(ShapeArray((3, 4), np.bool_))  # type: ignore[arg-type]
    assert x[1:, [0, 0, 1]].shape == (2, 3)
    y = x * 1.0
    y[mask] = 0.0  # whose shape is known
    y[0] = x[1]
    assert y.shape == (3, 4)
    with pytest.raises(DataDependentShapeError, match=r"boolean mask at \S+test_indexing.py:\d+: how many"):
        x[mask]
    with pytest.raises(IndexRangeError, match="out of bounds for dim 0"):
        x[5]


def test_signatures_say_what_passes_through() -> None:
    key = (np.array([0, 1]), slice(None), slice(1, 3))
    op = type("Seen", (), {})
    with sw.tensor.intercept(
        lambda function, args, params: (
            setattr(op, "function", function)
            or setattr(op, "params", params)
            or function.apply(*args, **params)
        )
    ):  # type: ignore[attr-defined]
        result = sw.zeros(3, 4, 5)[key]
    terms = terms_of(op.function, ((3, 4, 5),), op.params)  # type: ignore[attr-defined]
    assert [dim.whole for dim in terms.inputs[0]] == [True, False, True]
    assert terms.outputs[0][1] == terms.inputs[0][1]
    assert known_shapes(op.function, ((3, 4, 5),), op.params) == ((None, 4, None),)  # type: ignore[attr-defined]
    assert result.shape == (2, 4, 2)
