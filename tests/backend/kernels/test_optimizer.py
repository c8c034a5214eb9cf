"""Updates of many parameters in one call, against the formulas in double precision."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from shardwise.backend.errors import DTypeError, ShapeError
from shardwise.backend.kernels.kernel import plain_formulas
from shardwise.backend.kernels.memory import address_cpu
from shardwise.backend.kernels.optimizer.optimizer import (
    UPDATES,
    Update,
    adam,
    adam_amsgrad,
    approach,
    rmsprop_centered,
    sgd,
    sgd_momentum,
)
from shardwise.backend.shape import ShapeArray
from tolerance import assert_close

SHAPES: list[tuple[int, ...]] = [(), (1,), (77,), (6, 5, 4), (0,), (3, 0)]


def columns_of(update: Update, shapes: list[tuple[int, ...]], dtype: object, seed: int = 16) -> list[list]:
    """Parameters, gradients and states; all states are positive, as squares are."""
    rng = np.random.default_rng(seed)
    columns = []
    for name in update.arrays:
        arrays = [np.asarray(rng.standard_normal(shape)) for shape in shapes]
        if name not in ("param", "grad"):
            arrays = [np.abs(array) + 0.5 for array in arrays]
        if np.dtype(dtype).kind == "c":
            arrays = [array + 1j * np.roll(array, 1) for array in arrays]
        columns.append([np.asarray(array, dtype) for array in arrays])
    return columns


def numbers_for(update: Update, count: int) -> list[tuple[float, ...]]:
    """Numbers that are in the range of all formulas, others for each parameter."""
    rng = np.random.default_rng(3)
    return [tuple(rng.uniform(0.1, 0.9, len(update.numbers)).tolist()) for _ in range(count)]


def copied(columns: list[list]) -> list[list]:
    return [[array.copy(order="K") for array in column] for column in columns]


def expected_of(update: Update, columns: list[list], numbers: list[tuple[float, ...]]) -> list[list]:
    """The formula, element by element in Python's own numbers."""
    results = [[np.array(array, np.float64) for array in column] for column in columns]
    for i, row in enumerate(numbers):
        places = [column[i] for column in results]
        for at in np.ndindex(places[0].shape):
            new = update.formula(*(float(array[at]) for array in places), *row)
            for array, value in zip((places[0], *places[2:]), new, strict=True):
                array[at] = value
    return results


@pytest.mark.parametrize("way", ["fused", "plain"])
@pytest.mark.parametrize("update", UPDATES, ids=lambda update: update.name)
def test_each_formula_on_many_shapes(update: Update, way: str) -> None:
    columns, numbers = columns_of(update, SHAPES, np.float64), numbers_for(update, len(SHAPES))
    expected = expected_of(update, columns, numbers)
    if way == "plain":
        with plain_formulas():
            update(columns, numbers)
    else:
        update(columns, numbers)
    for column, wanted in zip(columns, expected, strict=True):
        for ours, reference in zip(column, wanted, strict=True):
            assert ours.dtype == np.float64
            assert_close(ours, reference, scale=1.0)


@pytest.mark.parametrize("way", ["fused", "plain"])
def test_single_precision(way: str) -> None:
    columns, numbers = columns_of(adam, SHAPES, np.float32), numbers_for(adam, 1) * len(SHAPES)
    expected = expected_of(adam, columns, numbers)
    if way == "plain":
        with plain_formulas():
            adam(columns, numbers)
    else:
        adam(columns, numbers)
    for column, wanted in zip(columns, expected, strict=True):
        for ours, reference in zip(column, wanted, strict=True):
            assert ours.dtype == np.float32
            assert_close(ours, reference, scale=1.0)


def test_large_arrays_go_in_blocks() -> None:
    sizes = [(1 << 15,), ((1 << 15) + 1,), (1 << 10, 1 << 6)]
    columns, numbers = columns_of(sgd_momentum, sizes, np.float64), numbers_for(sgd_momentum, 3)
    other = copied(columns)
    sgd_momentum(columns, numbers)
    with plain_formulas():
        sgd_momentum(other, numbers)
    for a, b in zip(columns, other, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(
    "update", [approach, sgd_momentum, adam, adam_amsgrad], ids=lambda update: update.name
)
def test_halves_of_arrays_beyond_the_caches_take_turns(update: Update) -> None:
    size = (1 << 20) + 301  # halves of whole turns, and a rest
    columns, numbers = columns_of(update, [(size,)], np.float32), numbers_for(update, 1)
    with np.errstate(all="ignore"):
        wide = (column[0].astype(np.float64) for column in columns)
        param, *state = update.formula(*wide, *numbers[0])
    before = columns[1][0].copy()
    update(columns, numbers)
    np.testing.assert_array_equal(columns[1][0], before)
    for column, reference in zip((columns[0], *columns[2:]), (param, *state), strict=True):
        np.testing.assert_allclose(column[0], reference, rtol=2e-6, atol=1e-6)


class Subclass(np.ndarray):
    """Not exactly NumPy's."""


def gaps(x: np.ndarray) -> np.ndarray:
    return np.repeat(x, 2, -1)[..., ::2]


def misaligned(x: np.ndarray) -> np.ndarray:
    raw = np.zeros(x.nbytes + 1, np.uint8)[1:]
    out = raw.view(x.dtype).reshape(x.shape)
    out[...] = x
    return out


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "transposed": lambda x: np.asfortranarray(x),
    "with gaps": gaps,
    "reversed": lambda x: x[::-1].copy()[::-1],
    "misaligned": misaligned,
    "swapped": lambda x: x.astype(x.dtype.newbyteorder()),
    "a subclass": lambda x: x.copy().view(Subclass),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("who", ["all", "param", "grad", "state"])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_any_layout_is_updated_where_it_lies(layout: str, who: str, dtype: type) -> None:
    columns, numbers = columns_of(sgd_momentum, [(4, 6), (5, 3)], dtype), numbers_for(sgd_momentum, 2)
    changed = [
        [LAYOUTS[layout](a) if i == 0 and who in ("all", name) else a.copy() for i, a in enumerate(column)]
        for name, column in zip(("param", "grad", "state"), columns, strict=True)
    ]
    sgd_momentum(columns, numbers)
    sgd_momentum(changed, numbers)
    for a, b in zip(columns, changed, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_allclose(y, x, rtol=1e-13)


def test_what_lies_between_is_left_alone() -> None:
    whole = np.arange(8.0)
    sgd([[whole[::2]], [np.ones(4)]], [(1.0, 1.0, 0.0)])
    assert whole.tolist() == [-1.0, 1.0, 1.0, 3.0, 3.0, 5.0, 5.0, 7.0]


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_parameters_are_pairs_of_real_ones(dtype: type) -> None:
    columns, numbers = columns_of(adam, [(), (3, 4)], dtype), numbers_for(adam, 2)
    pairs = [[np.stack([a.real, a.imag], -1) for a in column] for column in columns]
    adam(columns, numbers)
    adam(pairs, numbers)
    for a, b in zip(columns, pairs, strict=True):
        for x, y in zip(a, b, strict=True):
            assert_close(np.stack([x.real, x.imag], -1), np.asarray(y, np.float64), scale=1.0)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_parameters_are_updated_in_single_precision(dtype: type) -> None:
    columns, numbers = columns_of(adam, [(), (50,), (4, 6)], dtype), numbers_for(adam, 3)
    wide = [[np.array(a, np.float32) for a in column] for column in columns]
    adam(wide, numbers)
    adam(columns, numbers)
    for a, b in zip(columns, wide, strict=True):
        for x, y in zip(a, b, strict=True):
            assert x.dtype == dtype
            np.testing.assert_array_equal(x, np.asarray(y, dtype))


def test_dtypes_may_be_mixed() -> None:
    kinds = (np.float32, np.float64, np.complex64, np.float16, np.complex128)
    one = [columns_of(sgd_momentum, [(5,)], kind) for kind in kinds]
    columns = [[column[0] for column in parts] for parts in zip(*one, strict=True)]
    alone, numbers = copied(columns), numbers_for(sgd_momentum, len(kinds))
    sgd_momentum(columns, numbers)
    for i, row in enumerate(numbers):
        sgd_momentum([column[i : i + 1] for column in alone], [row])
    for a, b in zip(columns, alone, strict=True):
        for x, y in zip(a, b, strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, y)


def test_a_gradient_or_state_of_another_precision_is_converted() -> None:
    param, grad, buffer = np.ones(3, np.float32), np.full(3, 0.5), np.ones(3, np.float64)
    sgd([[param], [grad]], [(1.0, 1.0, 0.0)])
    assert param.tolist() == [0.5] * 3
    sgd_momentum([[param], [grad], [buffer]], [(1.0, 1.0, 0.0, 0.5, 1.0)])
    assert (param.tolist(), buffer.tolist()) == ([-0.5] * 3, [1.0] * 3)
    assert (param.dtype, buffer.dtype) == (np.float32, np.float64)


def test_arrays_without_data_are_checked_only() -> None:
    for update in UPDATES:
        for dtype in (np.float32, np.complex64, np.float16):
            arrays = [[ShapeArray((2, 3), dtype)] for _ in update.arrays]
            assert update(arrays, numbers_for(update, 1)) is None
            arrays[1] = [ShapeArray((3, 2), dtype)]
            with pytest.raises(ShapeError):
                update(arrays, numbers_for(update, 1))


def test_no_parameters() -> None:
    assert sgd([[], []], []) is None


def test_infinity_and_nan_need_no_words() -> None:
    for update in UPDATES:
        results = []
        for plain in (False, True):
            columns = columns_of(update, [(5,)], np.float64)
            columns[1][0][:3] = (np.nan, np.inf, -1e100)
            with plain_formulas() if plain else np.errstate(all="raise"):
                update(columns, numbers_for(update, 1))
            results.append(columns)
            written = [columns[0], *columns[2:]]
            assert any(np.isnan(column[0][0]) for column in written) or update.name == "approach"
            assert all(np.isfinite(column[0][2:]).all() for column in written)
        for a, b in zip(*results, strict=True):
            np.testing.assert_array_equal(np.isnan(a[0]), np.isnan(b[0]))


def test_a_variance_is_not_negative() -> None:
    mean = 0.1 + 0.2
    columns = [[np.ones(1)], [np.full(1, mean)], [np.full(1, mean * mean * (1 - 1e-12))], [np.full(1, mean)]]
    rmsprop_centered(columns, [(1e-3, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0)])
    assert np.isfinite(columns[0][0]).all()


def test_a_frozen_parameter_is_refused_and_not_copied() -> None:
    param = np.ones(4)
    param.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        sgd([[param], [np.ones(4)]], [(1.0, 1.0, 0.0)])


def test_a_gradient_that_cannot_be_written_is_read() -> None:
    param = np.ones((2, 3))
    sgd([[param], [np.broadcast_to(np.ones(3), (2, 3))]], [(1.0, 1.0, 0.0)])
    assert param.tolist() == [[0.0] * 3] * 2


def test_what_does_not_fit_changes_nothing() -> None:
    params = [np.ones(4), np.ones((2, 2))]
    with pytest.raises(ShapeError) as shape:
        sgd([params, [np.ones(4), np.ones(4)]], [(1.0, 1.0, 0.0)] * 2)
    assert str(shape.value) == ("sgd: a parameter has shape (2, 2), and its grad has (4,); wanted the same.")
    with pytest.raises(DTypeError) as kind:
        sgd([params, [np.ones(4), np.ones((2, 2), np.complex64)]], [(1.0, 1.0, 0.0)] * 2)
    assert str(kind.value) == (
        "sgd: a parameter of shape (2, 2) is float64, and its grad is complex64; wanted real numbers."
    )
    assert all((param == 1.0).all() for param in params)


def test_the_table_lists_each_formula_once() -> None:
    assert len({update.name for update in UPDATES}) == len(UPDATES)
    for update in UPDATES:
        names = list(inspect.signature(update.formula).parameters)
        assert [*update.arrays, *update.numbers] == names
        assert not {"lr", "sign", "size", "rate"} & set(update.arrays)
    assert repr(sgd) == "Update(sgd: param, grad; lr, sign, l2)"


def test_addresses_are_where_numpy_says(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.zeros((4, 5))
    arrays = [whole, whole[1:], whole[:, 2], np.zeros(()), np.zeros((0, 2)), np.ones(3, np.float32)]
    expected = [array.ctypes.data for array in arrays]
    assert address_cpu.READABLE
    assert address_cpu.addresses(arrays).tolist() == expected
    monkeypatch.setattr(address_cpu, "READABLE", False)
    assert address_cpu.addresses(arrays).tolist() == expected
    assert address_cpu.addresses([]).tolist() == []
