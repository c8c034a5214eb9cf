"""Combining parts, and which reductions take which dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from ranks.definition import DTYPES, takes
from shardwise.backend.errors import CollectiveError, DTypeError
from shardwise.collectives.reduction import REDUCTIONS, check_reduction, combine


def where() -> str:
    return "all_reduce on world, rank 1"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_is_taken(dtype: np.dtype[np.generic]) -> None:
    for op in REDUCTIONS:
        if takes(op, dtype):
            check_reduction(op, dtype, where)
        else:
            with pytest.raises(DTypeError, match=r"^all_reduce on world, rank 1: op='\w+' of dtype \w+"):
                check_reduction(op, dtype, where)


def test_what_is_refused_says_what_to_do() -> None:
    cases = [
        ("avg", "int64", "op='avg' of dtype int64 would not be an integer; convert first, "
         "x.astype('float64'), or use op='sum' and divide."),
        ("max", "complex64", "op='max' of dtype complex64: complex numbers have no order; reduce abs(x)."),
        ("bor", "float32", "op='bor' of dtype float32: bits of a float cannot be reduced; wanted bool or an "
         "integer, for instance x.view('uint32')."),
        ("sum", "M8[s]", "dtype datetime64[s] cannot be reduced; wanted bool, integer, float or complex."),
        ("sum", "V3", "dtype |V3 cannot be reduced; wanted bool, integer, float or complex."),
    ]  # fmt: skip
    for op, dtype, message in cases:
        with pytest.raises(DTypeError) as caught:
            check_reduction(op, np.dtype(dtype), where)
        assert str(caught.value) == f"all_reduce on world, rank 1: {message}"
    with pytest.raises(CollectiveError) as unknown:
        check_reduction("mean", np.dtype("f"), where)
    assert str(unknown.value) == (
        "all_reduce on world, rank 1: there is no reduction op='mean'; "
        "choose one of sum, avg, prod, min, max, band, bor, bxor."
    )


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16], ids=lambda kind: np.dtype(kind).name)
def test_narrow_floats_are_summed_wide_and_rounded_once(kind: type[np.generic]) -> None:
    step = float(ml_dtypes.finfo(kind).eps) / 2
    parts = [np.array([1.0], kind), *(np.array([step * 0.75], kind) for _ in range(4))]
    out = np.empty(1, kind)
    combine(parts, "sum", out)
    # Added one by one and rounded each time, the small ones are lost.
    assert out[0] == kind(1 + 3 * step)
    assert out[0] > 1


def test_order_is_that_of_the_ranks() -> None:
    parts = [np.array([each], np.float32) for each in (1e8, 1.0, -1e8, 1.0)]
    out = np.empty(1, np.float32)
    combine(parts, "sum", out)
    assert out[0] == 1.0
    combine(parts[::-1], "sum", out)
    assert out[0] == 0.0


def test_not_a_number_goes_through() -> None:
    parts = [np.array([np.nan, 1.0]), np.array([2.0, np.nan])]
    out = np.empty(2)
    for op in ("min", "max", "sum"):
        combine(parts, op, out)  # type: ignore[arg-type]
        assert np.isnan(out).all()


def test_overflow_is_a_value_and_no_warning() -> None:
    out = np.empty(1, np.float16)
    combine([np.array([6e4], np.float16)] * 2, "sum", out)
    assert out[0] == np.inf
    with_integers = np.empty(1, np.int8)
    combine([np.array([100], np.int8)] * 2, "sum", with_integers)
    assert with_integers[0] == -56


def test_the_result_may_go_where_the_first_part_is() -> None:
    parts = [np.arange(3.0), np.arange(3.0) + 1, np.arange(3.0) + 2]
    combine(parts, "sum", parts[0])
    assert parts[0].tolist() == [3.0, 6.0, 9.0]
