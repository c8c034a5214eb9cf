"""Padding and packing, there and back."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shardwise as sw
from shardwise.errors import ArgumentError, ShapeError
from shardwise.nn.sequence import (
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
    unpack_sequence,
    unpad_sequence,
)


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def test_padding() -> None:
    a, b = sw.tensor([1.0, 2.0, 3.0]), sw.tensor([4.0])
    assert pad_sequence([a, b], batch_first=True).tolist() == [[1, 2, 3], [4, 0, 0]]
    assert pad_sequence([a, b], padding_value=-1).tolist() == [[1, 4], [2, -1], [3, -1]]
    assert pad_sequence([a, b], True, padding_side="left").tolist() == [[1, 2, 3], [0, 0, 4]]
    a.requires_grad_()
    (pad_sequence([a, b]) * 2.0).sum().backward()
    assert a.grad.tolist() == [2.0, 2.0, 2.0]


def test_packing_puts_steps_behind_each_other() -> None:
    padded = sw.tensor([[1, 2, 0], [3, 4, 5], [6, 0, 0]])
    packed = pack_padded_sequence(padded, [2, 3, 1], batch_first=True, enforce_sorted=False)
    assert packed.data.tolist() == [3, 1, 6, 4, 2, 5]
    assert packed.batch_sizes.tolist() == [3, 2, 1]
    assert packed.sorted_indices.tolist() == [1, 0, 2]
    assert packed.unsorted_indices.tolist() == [1, 0, 2]
    assert packed.lengths.tolist() == [3, 2, 1]
    assert packed.to(np.float64).data.dtype == np.float64
    sorted_ = pack_padded_sequence(sw.tensor([[3, 4, 5], [1, 2, 0]]), sw.tensor([3, 2]), batch_first=True)
    assert sorted_.sorted_indices is None


@settings(max_examples=30, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=5),
    features=st.sampled_from([(), (2,), (2, 3)]),
    batch_first=st.booleans(),
    extra=st.integers(0, 2),
)
def test_there_and_back(lengths: list[int], features: tuple[int, ...], batch_first: bool, extra: int) -> None:
    rng = np.random.default_rng(sum(lengths))
    sequences = [sw.tensor(rng.standard_normal((n, *features)), requires_grad=True) for n in lengths]
    padded = pad_sequence(sequences, batch_first)
    packed = pack_padded_sequence(padded, lengths, batch_first, enforce_sorted=False)
    assert packed.data.shape == (sum(lengths), *features)
    again, sizes = pad_packed_sequence(packed, batch_first, 0.0, max(lengths) + extra)
    assert sizes.tolist() == lengths
    assert again.shape[1 if batch_first else 0] == max(lengths) + extra
    for back in (
        unpad_sequence(again, sizes, batch_first),
        unpack_sequence(pack_sequence(sequences, enforce_sorted=False)),
    ):
        for x, y in zip(sequences, back, strict=True):
            np.testing.assert_array_equal(x.data, y.data)
    weigh = rng.standard_normal(again.shape)
    (again * sw.tensor(weigh)).sum().backward()
    rows = weigh if batch_first else np.swapaxes(weigh, 0, 1)
    for x, row, n in zip(sequences, rows, lengths, strict=True):
        np.testing.assert_array_equal(x.grad.data, row[:n])


def test_refused() -> None:
    x = sw.ones(3, 2)
    assert message(ArgumentError, lambda: pack_padded_sequence(x, [2, 3])) == (
        "pack_padded_sequence: lengths must fall, the longest first, but are [2, 3]; enforce_sorted=False "
        "sorts them"
    )
    for lengths in ([4, 1], [0, 0], [1]):
        assert message(ArgumentError, lambda n=lengths: pack_padded_sequence(x, n)) == (
            f"pack_padded_sequence: wanted 2 lengths from 1 to 3, one per sequence, got {lengths}"
        )
    packed = pack_padded_sequence(x, [3, 1])
    assert message(ArgumentError, lambda: pad_packed_sequence(packed, total_length=2)) == (
        "pad_packed_sequence: total_length=2 is less than the longest sequence, 3"
    )
    assert message(ShapeError, lambda: pad_sequence([x, sw.ones(3, 4)])) == (
        "pad_sequence needs sequences of shapes (length, ...) that agree behind it, got ((3, 2), (3, 4))"
    )
    assert message(ShapeError, lambda: pad_sequence([])) == (
        "pad_sequence needs sequences of shapes (length, ...) that agree behind it, got ()"
    )
    assert message(ArgumentError, lambda: pad_sequence([x], padding_side="top")) == (  # type: ignore[arg-type]
        "pad_sequence: padding_side must be 'left' or 'right', got 'top'"
    )
    assert message(ShapeError, lambda: pack_padded_sequence(sw.ones(3), [3])) == (
        "pack_padded_sequence needs steps and a batch, but the shape is (3,)"
    )
