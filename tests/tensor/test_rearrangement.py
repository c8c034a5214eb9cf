"""Other dims, pieces, repetitions and triangles, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import shardwise as sw
from shardwise.errors import ArgumentError, AutogradError, IndexRangeError, ShapeError
from shardwise.tensor import Tensor
from shardwise.tensor.ops.view import keeps_memory

X = np.arange(24.0).reshape(2, 3, 4)
arrays = hnp.arrays(np.int16, hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4))

Call = Callable[[Any], Any]

# what PyTorch calls it, and what NumPy gives
SAME: dict[str, tuple[Call, Call]] = {
    "unflatten": (lambda t: t.unflatten(2, (2, -1)), lambda a: a.reshape(2, 3, 2, 2)),
    "swapdims": (lambda t: t.swapdims(0, -1), lambda a: a.swapaxes(0, -1)),
    "movedim": (lambda t: t.movedim((0, 1), (-1, 0)), lambda a: np.moveaxis(a, (0, 1), (-1, 0))),
    "T": (lambda t: t.T, lambda a: a.T),
    "mT": (lambda t: t.mT, lambda a: a.swapaxes(-1, -2)),
    "expand": (lambda t: t[:, :1].expand(5, -1, 3, -1), lambda a: np.broadcast_to(a[:, :1], (5, 2, 3, 4))),
    "repeat": (lambda t: t.repeat(2, 1, 1, 3), lambda a: np.tile(a, (2, 1, 1, 3))),
    "tile": (lambda t: t.tile(2, 1), lambda a: np.tile(a, (2, 1))),
    "repeat_interleave": (lambda t: t.repeat_interleave(2, 1), lambda a: np.repeat(a, 2, 1)),
    "repeat_interleave flat": (lambda t: t.repeat_interleave(2), lambda a: np.repeat(a, 2)),
    "repeat_interleave each": (
        lambda t: t.repeat_interleave(sw.tensor([0, 2, 1]), dim=1, output_size=3),
        lambda a: np.repeat(a, [0, 2, 1], 1),
    ),
    "flip": (lambda t: t.flip(0, -1), lambda a: np.flip(a, (0, 2))),
    "fliplr": (lambda t: t.fliplr(), np.fliplr),
    "flipud": (lambda t: t.flipud(), np.flipud),
    "roll": (lambda t: t.roll(5), lambda a: np.roll(a, 5)),
    "roll dims": (lambda t: t.roll((1, -1), (0, 2)), lambda a: np.roll(a, (1, -1), (0, 2))),
    **{
        f"rot90 {k}": (lambda t, k=k: t.rot90(k, (2, 0)), lambda a, k=k: np.rot90(a, k, (2, 0)))
        for k in range(-1, 5)
    },
    "tril": (lambda t: t.tril(-1), lambda a: np.tril(a, -1)),
    "triu": (lambda t: t.triu(1), lambda a: np.triu(a, 1)),
    "diagonal": (lambda t: t.diagonal(1, -1, 0), lambda a: a.diagonal(1, 2, 0)),
    "diagflat": (lambda t: t.diagflat(-2), lambda a: np.diagflat(a, -2)),
    "diag": (lambda t: t[0, 0].diag(1), lambda a: np.diag(a[0, 0], 1)),
    "diag of a matrix": (lambda t: t[0].diag(-1), lambda a: np.diag(a[0], -1)),
    "unfold": (
        lambda t: t.unfold(-1, 2, 2),
        lambda a: np.lib.stride_tricks.sliding_window_view(a, 2, -1)[..., ::2, :],
    ),
    "narrow": (lambda t: t.narrow(-1, -3, 2), lambda a: a[..., 1:3]),
    "select": (lambda t: t.select(1, -1), lambda a: a[:, -1]),
    "tensor_split": (lambda t: t.tensor_split(3, -1)[1], lambda a: np.array_split(a, 3, -1)[1]),
    "tensor_split at": (
        lambda t: t.tensor_split(sw.tensor([1, 3]), 2)[1],
        lambda a: np.array_split(a, [1, 3], 2)[1],
    ),
    "hsplit": (lambda t: t.hsplit(3)[2], lambda a: np.hsplit(a, 3)[2]),
    "vsplit": (lambda t: t.vsplit([1])[1], lambda a: np.vsplit(a, [1])[1]),
    "dsplit": (lambda t: t.dsplit(2)[0], lambda a: np.dsplit(a, 2)[0]),
}

DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16, np.complex64, np.int8, np.bool_]


@pytest.mark.parametrize("name", SAME)
def test_as_numpy(name: str) -> None:
    ours, theirs = SAME[name]
    for array in (X, np.ascontiguousarray(X.transpose(2, 0, 1)).transpose(1, 2, 0), X.repeat(2, 1)[:, ::-2]):
        np.testing.assert_array_equal(ours(sw.from_numpy(array)).data, theirs(array))
    for dtype in DTYPES:
        result = ours(sw.tensor(X.astype(dtype)))
        assert result.dtype == dtype
        np.testing.assert_array_equal(result.data, theirs(X.astype(dtype)))


# NumPy's functions, called on a tensor and on its array
FUNCTIONS: dict[str, Call] = {
    "reshape": lambda a: np.reshape(a, (4, -1)),
    "ravel": np.ravel,
    "transpose": lambda a: np.transpose(a, (1, 2, 0)),
    "matrix_transpose": np.matrix_transpose,
    "swapaxes": lambda a: np.swapaxes(a, 0, 2),
    "moveaxis": lambda a: np.moveaxis(a, [0, 1], [1, 2]),
    "expand_dims": lambda a: np.expand_dims(a, (0, -1)),
    "squeeze": lambda a: np.squeeze(np.expand_dims(a, 1), axis=1),
    "broadcast_to": lambda a: np.broadcast_to(a, (2, 2, 3, 4)),
    "broadcast_arrays": lambda a: np.broadcast_arrays(a, a[:1])[1],
    "atleast": lambda a: np.atleast_3d(np.atleast_2d(np.atleast_1d(a[0, 0]))),
    "concatenate": lambda a: np.concatenate([a, a], axis=-1),
    "concatenate flat": lambda a: np.concatenate([a, a[0]], axis=None),
    "stack": lambda a: np.stack([a, a], axis=1),
    "hstack": lambda a: np.hstack([a, a]),
    "vstack": lambda a: np.vstack([a, a]),
    "dstack": lambda a: np.dstack([a[0], a[1]]),
    "column_stack": lambda a: np.column_stack([a[0, :, 0], a[0]]),
    "append": lambda a: np.append(a, a[:1], axis=0),
    "split": lambda a: np.split(a, 2, axis=2)[1],
    "array_split": lambda a: np.array_split(a, 3, axis=2)[0],
    "hsplit": lambda a: np.hsplit(a, [1])[1],
    "vsplit": lambda a: np.vsplit(a, 2)[1],
    "dsplit": lambda a: np.dsplit(a, [1, 2])[1],
    "meshgrid": lambda a: np.meshgrid(a[0, 0], a[0, :, 0], a[:, 0, 0])[1],
    "meshgrid sparse": lambda a: np.meshgrid(a[0, 0], a[0, :, 0], sparse=True, indexing="ij")[1],
    "flip": np.flip,
    "flip axis": lambda a: np.flip(a, axis=1),
    "fliplr": np.fliplr,
    "flipud": np.flipud,
    "roll": lambda a: np.roll(a, 2, axis=1),
    "rot90": lambda a: np.rot90(a, axes=(1, 2)),
    "repeat": lambda a: np.repeat(a, [1, 0, 2], axis=1),
    "tile": lambda a: np.tile(a, (2, 1, 1, 2)),
    "pad": lambda a: np.pad(a, ((0, 0), (1, 2), (0, 1)), constant_values=7),
    "pad symmetric": lambda a: np.pad(a, 5, mode="symmetric"),
    "pad one dim": lambda a: np.pad(a[0, 0], {0: (1, 2)}, mode="edge"),
    "tril": np.tril,
    "triu": lambda a: np.triu(a, k=1),
    "diagonal": lambda a: np.diagonal(a, 1, axis1=1, axis2=2),
    "diag": lambda a: np.diag(a[0, 0]),
    "diagflat": lambda a: np.diagflat(a, 1),
    "take": lambda a: np.take(a, [[0, -1]], axis=1),
    "take flat": lambda a: np.take(a, [5, -1]),
    "take one": lambda a: np.take(a, 1, axis=2),
    "take_along_axis": lambda a: np.take_along_axis(a, np.array([[[1], [-1], [0]]]), axis=2),
    "delete": lambda a: np.delete(a, [0, -1], axis=1),
    "copy": np.copy,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numpy_functions(name: str) -> None:
    call = FUNCTIONS[name]
    result = call(sw.tensor(X, requires_grad=True))
    assert isinstance(result, Tensor)
    assert result.requires_grad
    np.testing.assert_array_equal(result.detach().data, call(X))


@given(arrays, st.data())
def test_any_shape_by_any_order(array: np.ndarray, data: st.DataObject) -> None:
    t = sw.tensor(array)
    order = data.draw(st.permutations(range(array.ndim)))
    moved = t.permute(order)
    np.testing.assert_array_equal(moved.data, array.transpose(order))
    sizes = data.draw(st.permutations(moved.shape))
    np.testing.assert_array_equal(moved.reshape(*sizes).data, array.transpose(order).reshape(sizes))
    dim = data.draw(st.integers(-array.ndim, array.ndim - 1))
    sections = data.draw(st.integers(1, 5))
    for ours, theirs in zip(t.tensor_split(sections, dim), np.array_split(array, sections, dim), strict=True):
        np.testing.assert_array_equal(ours.data, theirs)
    assert sw.cat(t.split(sections, dim), dim).tolist() == array.tolist()
    shift = data.draw(st.integers(-5, 5))
    np.testing.assert_array_equal(t.roll(shift, dim).data, np.roll(array, shift, dim))
    np.testing.assert_array_equal(t.flip(dim).data, np.flip(array, dim))
    assert sw.stack(t.unbind(dim), dim).tolist() == array.tolist() if array.shape[dim] else True


@given(hnp.array_shapes(max_dims=4, max_side=4), st.data())
def test_it_is_known_which_reshapes_copy(shape: tuple[int, ...], data: st.DataObject) -> None:
    array = np.zeros(shape)
    array = array.transpose(data.draw(st.permutations(range(array.ndim))))
    if array.shape[0] > 1 and data.draw(st.booleans()):
        array = array[:: data.draw(st.sampled_from([2, -1]))]
    size = array.size
    first = data.draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
    for wanted in ((first, size // first), (size,), (1, first, 1, size // first)):
        shares = np.shares_memory(np.reshape(array, wanted), array)
        assert keeps_memory(array.shape, array.strides, wanted) == shares


def test_views_and_copies() -> None:
    base = sw.tensor(X)
    for look in (
        base.reshape(-1),
        base.mT,
        base[0],
        base.narrow(2, 0, 1),
        base.diagonal(),
        base.unbind()[0],
        base.unfold(1, 2, 1),
    ):
        assert np.shares_memory(look.data, base.data)
    for copy in (
        base.flip(0),
        base.mT.reshape(-1),
        base.roll(1),
        base.rot90(0),
        base[0].diag(),
        base.tile(1),
    ):
        assert not np.shares_memory(copy.data, base.data)
    base.diagonal(0, 1, 2).fill_(-1.0)
    assert base[1, 2, 2].item() == -1.0
    x = sw.tensor(X, requires_grad=True)
    y = x * 1.0
    copied = y.mT.reshape(-1)
    copied.mul_(2.0)  # no view of y, so this is allowed
    copied.sum().backward()
    assert x.grad is not None
    assert x.grad.data.min() == 2.0


def test_narrow_gradients_add_up_in_float32() -> None:
    x = sw.tensor(np.ones(1), dtype=ml_dtypes.bfloat16, requires_grad=True)
    x.expand(3, 1000).sum().backward()
    assert x.grad is not None
    assert x.grad.item() == float(ml_dtypes.bfloat16(3000.0))


def test_bits_as_another_dtype() -> None:
    t = sw.tensor([[1.0, -2.0]], requires_grad=True)
    bits = t.view(np.int32)
    assert (bits.dtype, bits.requires_grad) == (np.int32, False)
    np.testing.assert_array_equal(bits.data, np.array([[1.0, -2.0]], np.float32).view(np.int32))
    assert bits.view(np.dtype(np.float32)).tolist() == t.tolist()
    assert t.view(np.uint8).shape == (1, 8)
    assert np.shares_memory(bits.data, t.data)
    assert not t.view(np.float16).requires_grad


def test_without_dims_or_elements() -> None:
    scalar, empty = sw.tensor(2.0), sw.zeros(0, 3)
    assert scalar.t().shape == scalar.T.shape == scalar.mH.shape == scalar.roll(1).shape == ()
    assert scalar.repeat(2, 2).tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert scalar.repeat_interleave(3).tolist() == scalar.tile(3).tolist() == [2.0, 2.0, 2.0]
    assert scalar.unfold(0, 1, 1).shape == scalar.diagflat().shape[:1] == (1,)
    assert empty.unbind() == ()
    assert [piece.shape for piece in empty.split(2)] == [(0, 3)]
    assert [piece.shape for piece in empty.chunk(2)] == [(0, 3), (0, 3)]
    assert [piece.shape for piece in empty.tensor_split(2)] == [(0, 3), (0, 3)]
    assert empty.repeat(2, 1).shape == (0, 3)
    assert empty.repeat_interleave(np.zeros(0, int), 0).shape == (0, 3)
    assert sw.zeros(0).diag().shape == (0, 0)
    assert empty.diagonal().shape == (0,)


ERRORS: list[tuple[Call, type[Exception], str]] = [
    (lambda t: t.view(5), ShapeError, "cannot view (2, 3, 4) (24 elements) to (5,); the sizes must multiply "
     "to the same number, with at most one -1"),
    (lambda t: t.unflatten(1, (2, 2)), ShapeError, "cannot unflatten dim 1 of (3,) (3 elements) to (2, 2)"),
    (lambda t: t.permute(0, 0, 1), ShapeError, "permute: (0, 0, 1) is no order of 3 dims; name each of them"),
    (lambda t: t.movedim((0, 1), 2), ShapeError, "movedim: (0, 1) and 2 differ in number"),
    (lambda t: t.t(), ShapeError, "t() takes at most two dims, got the shape (2, 3, 4); use mT"),
    (lambda t: t.H, ShapeError, "H is for matrices, got the shape (2, 3, 4); use mH"),
    (lambda t: t.squeeze((0, 0)), ShapeError, "squeeze: a dim is named twice in (0, 0)"),
    (lambda t: t.expand(2, 3, 5), ShapeError, "cannot expand (2, 3, 4) to (2, 3, 5); only dims of size one"),
    (lambda t: t.expand(-1, 2, 3, 4), ShapeError, "cannot expand (2, 3, 4) to (-1, 2, 3, 4)"),
    (lambda t: t.flip(3), ShapeError, "flip: there is no dim 3 among 3; wanted a number from -3 to 2"),
    (lambda t: t.roll((1, 2), 0), ShapeError, "roll: (1, 2) shifts 2 dims, but 1 are named in (0,)"),
    (lambda t: t.rot90(1, (0, 0)), ShapeError, "wanted two different dims of shape (2, 3, 4), got (0, 0)"),
    (lambda t: t.repeat(2), ShapeError, "(2,) has fewer counts than shape (2, 3, 4) has dims; use tile()"),
    (lambda t: t.tile(-1), ArgumentError, "tile: counts must be at least 0, got (1, 1, -1)"),
    (lambda t: t.repeat_interleave([1, 2], 1), ShapeError, "repeat_interleave: counts of shape (2,) for dim "
     "1 of shape (2, 3, 4); wanted one, or one for each of the 3 slices"),
    (lambda t: t.repeat_interleave(2, 1, output_size=5), ShapeError, "add up to 6, not to output_size=5"),
    (lambda t: t.split([1, 1], 1), ShapeError, "split sizes [1, 1] add up to 2, but dim 1 has 3"),
    (lambda t: t.tensor_split(0), ArgumentError, "tensor_split: wanted at least one section, got 0"),
    (lambda t: t.hsplit(2), ShapeError, "hsplit: dim 1 of shape (2, 3, 4) does not part into 2 equal pieces"),
    (lambda t: t[0, 0].vsplit(1), ShapeError, "vsplit: wanted at least 2 dims, got the shape (4,)"),
    (lambda t: t.narrow(2, 3, 2), IndexRangeError, "narrow: dim 2 has size 4, and 2 places from 3 on do not"),
    (lambda t: t.select(1, 3), IndexRangeError, "select: index 3 is out of range for dim 1 of size 3; wanted "
     "-3 to 2"),
    (lambda t: t.diagonal(0, 1, -2), ShapeError, "diagonal: dim1 and dim2 are both 1"),
    (lambda t: t.diag(), ShapeError, "diag: wanted a vector or a matrix, got the shape (2, 3, 4)"),
    (lambda t: t.diag_embed(0, 1, 1), ShapeError, "diag_embed: dim1 and dim2 are both 1"),
    (lambda t: t[0, 0].tril(), ShapeError, "tril: wanted at least two dims, got the shape (4,)"),
    (lambda t: t.unfold(1, 4, 1), ShapeError, "unfold: windows of 4, 1 apart, do not fit dim 1 of shape "
     "(2, 3, 4); wanted a size of at most 3 and a step of at least 1"),
    (lambda t: np.pad(t, 1, "mean"), ArgumentError, "np.pad of a tensor: mode must be one of constant, edge"),
    (lambda t: np.pad(t[:, :0], 1, "edge"), ShapeError, "np.pad: dim 1 of shape (2, 0, 4) has nothing to"),
    (lambda t: np.split(t, 2, axis=1), ShapeError, "np.split: dim 1 of size 3 has no 2 equal parts"),
    (lambda t: np.take(t, [0], axis=0, mode="clip"), ArgumentError, "the mode 'raise' only"),
    (lambda t: np.squeeze(t, axis=1), ShapeError, "np.squeeze: dim 1 of shape (2, 3, 4) has not size one"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "message"), ERRORS, ids=[message[:30] for *_, message in ERRORS])
def test_what_cannot_be_is_named(call: Call, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        call(sw.tensor(X))
    assert message in str(caught.value)


def test_pieces_stay_on_the_tape_together() -> None:
    x = sw.tensor(X, requires_grad=True)
    first, second = (x * 1.0).split([1, 1])
    with pytest.raises(AutogradError, match="into a view of another tensor"):
        first.mul_(2.0)
    (first * 3.0 + second).sum().backward()
    assert x.grad is not None
    assert x.grad[:, 0, 0].tolist() == [3.0, 1.0]
