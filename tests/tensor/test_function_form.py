"""Methods as functions: tensors and arrays in, numbers first, names, results written elsewhere."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise.backend.shape import ShapeArray
from shardwise.errors import ArgumentError, AutogradError, DTypeError, ShapeError
from shardwise.tensor import Tensor, function_form, gradcheck

A = np.array([[0.5, 0.25, 0.75], [0.125, 0.625, 0.375]])
B = np.array([[0.25, 0.5, 0.125], [0.75, 0.375, 0.5]])
V = np.array([0.5, 0.25, 0.75])
S = np.array([[2.0, 0.5], [0.5, 1.0]])
I = np.array([[6, 4, 9], [3, 8, 1]])  # noqa: E741 (integers)
J = np.array([[1, 2, 3], [2, 1, 1]])
PICK = np.array([[0, 1, 0]])
ROWS = np.array([1, 0])

# What a function is called with, beside one array A, which needs no entry.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(
        (
            "add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "floor_divide",
            "remainder", "fmod", "pow", "float_power", "hypot", "logaddexp", "logaddexp2", "xlogy", "xlog1py",
            "atan2", "arctan2", "copysign", "heaviside", "maximum", "minimum", "fmax", "fmin", "eq", "ne",
            "not_equal", "lt", "less", "le", "less_equal", "gt", "greater", "ge", "greater_equal", "isclose",
            "allclose", "logical_and", "logical_or", "logical_xor", "ldexp", "dist", "inner", "cross", "kron",
        ),
        (A, B),
    ),
    **dict.fromkeys(
        (
            "gcd", "lcm", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift",
            "bitwise_right_shift",
        ),
        (I, J),
    ),
    **dict.fromkeys(
        (
            "cholesky", "cholesky_inverse", "det", "logdet", "inverse", "matrix_exp", "slogdet", "cov",
            "corrcoef",
        ),
        (S,),
    ),
    **dict.fromkeys(("vdot", "dot", "outer", "ger"), (V, V)),
    **dict.fromkeys(
        ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "logsumexp", "unsqueeze"), (A, 0)
    ),
    **dict.fromkeys(("kthvalue", "topk", "chunk", "tensor_split", "hsplit"), (A, 1)),
    **dict.fromkeys(("movedim", "moveaxis", "transpose", "swapaxes", "swapdims"), (A, 0, 1)),
    **dict.fromkeys(("index_add", "index_copy"), (A, 0, ROWS, B)),
    **dict.fromkeys(("scatter", "scatter_add"), (A, 0, PICK, B[:1])),
    "acosh": (A + 1.0,),
    "arccosh": (A + 1.0,),
    "addbmm": (S, S[None], S[None]),
    "addcdiv": (A, A, B),
    "addcmul": (A, A, B),
    "addmm": (S, S, S),
    "addmv": (V[:2], S, V[:2]),
    "addr": (S, V[:2], V[:2]),
    "baddbmm": (S[None], S[None], S[None]),
    "bincount": (J.reshape(-1),),
    "bitwise_not": (I,),
    "bmm": (S[None], S[None]),
    "broadcast_to": (V, (2, 3)),
    "cholesky_solve": (S, S),
    "clamp": (A, 0.3),
    "clamp_max": (A, 0.3),
    "clamp_min": (A, 0.3),
    "clip": (A, 0.3),
    "diag_embed": (V,),
    "diagflat": (V,),
    "dsplit": (A[None], 3),
    "equal": (A, A),
    "flip": (A, (0,)),
    "gather": (A, 0, PICK),
    "histogram": (A, 4),
    "imag": (A + 1j * B,),
    "index_fill": (A, 0, ROWS, 2.0),
    "index_put": (A, (ROWS,), B),
    "index_select": (A, 0, ROWS),
    "is_same_size": (A, A),
    "lerp": (A, B, 0.25),
    "masked_fill": (A, A > 0.3, 2.0),
    "masked_scatter": (A, A > 0.3, B),
    "masked_select": (A, A > 0.3),
    "matmul": (A, B.T),
    "matrix_power": (S, 2),
    "mm": (A, B.T),
    "mv": (A, V),
    "nanquantile": (A, 0.5),
    "narrow": (A, 1, 0, 2),
    "permute": (A, (1, 0)),
    "put": (A, ROWS, V[:2]),
    "quantile": (A, 0.5),
    "repeat_interleave": (A, 2),
    "reshape": (A, (3, 2)),
    "roll": (A, 1),
    "scatter_reduce": (A, 0, PICK, B[:1], "sum"),
    "select": (A, 0, 1),
    "split": (A, 2),
    "take": (A, ROWS),
    "take_along_dim": (A, PICK, 0),
    "tile": (A, (2, 1)),
    "trace": (S,),
    "unflatten": (A, 1, (3, 1)),
    "vsplit": (A, 2),
}  # fmt: skip
FUNCTIONS = [name for name in function_form.__all__ if name not in ("is_tensor", "polygamma")]
NUMBERS_FIRST = [
    "add", "sub", "mul", "div", "true_divide", "floor_divide", "remainder", "fmod", "pow", "float_power",
    "hypot", "logaddexp", "logaddexp2", "xlogy", "xlog1py", "atan2", "copysign", "heaviside", "maximum",
    "minimum", "fmax", "fmin", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor",
    "ldexp",
]  # fmt: skip
INTEGERS_FIRST = [name for name, given in ARGUMENTS.items() if len(given) > 1 and given[0] is I]


def as_tensors(value: Any) -> Any:
    if isinstance(value, tuple) and value and isinstance(value[0], np.ndarray):
        return tuple(map(as_tensors, value))
    return sw.tensor(value) if isinstance(value, np.ndarray) else value


def flat(result: Any) -> list[Any]:
    return [part for each in result for part in flat(each)] if isinstance(result, tuple) else [result]


def values(result: Any) -> list[Any]:
    return [part.data if isinstance(part, Tensor) else part for part in flat(result)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_does_what_its_method_does_with_tensors_and_with_arrays(name: str) -> None:
    function = getattr(function_form, name)
    given = ARGUMENTS.get(name, (A,))
    first, *rest = map(as_tensors, given)
    method: Any = getattr(Tensor, name)
    expected = method(first, *rest) if callable(method) else getattr(first, name)
    of_tensors, of_arrays = function(first, *rest), function(*given)
    assert type(of_tensors) is type(of_arrays) or not isinstance(expected, tuple)
    for want, tensor, array in zip(flat(expected), flat(of_tensors), flat(of_arrays), strict=True):
        if isinstance(want, Tensor):
            assert isinstance(tensor, Tensor)
            assert isinstance(array, np.ndarray)
            assert array.dtype == tensor.dtype == want.dtype
            np.testing.assert_array_equal(tensor.data, want.data)
            np.testing.assert_array_equal(array, want.data)
        else:
            assert tensor == want == array
            assert type(array) is type(want)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_neither_tensor_nor_array_is_refused_alike(name: str) -> None:
    function = getattr(function_form, name)
    _, *rest = ARGUMENTS.get(name, (A,))
    with pytest.raises(DTypeError) as caught:
        function([[1.0, 2.0]], *rest)
    assert str(caught.value) == (
        f"{function.__name__}: wanted a tensor or an array, got a list; make a tensor of it with sw.tensor()"
    )


def test_a_number_alone_is_refused() -> None:
    wanted = "wanted a tensor or an array, got the {}; make a tensor of it with sw.tensor()"
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: sw.exp(2.0), "exp: " + wanted.format("float 2.0")),  # type: ignore[type-var]
        (lambda: sw.pow(2, 3), "pow: " + wanted.format("int 2")),  # type: ignore[call-overload]
        (lambda: sw.polygamma(1, 0.5), "polygamma: " + wanted.format("float 0.5")),  # type: ignore[type-var]
        (lambda: sw.real(1j), "real: " + wanted.format("complex 1j")),  # type: ignore[type-var]
    ]
    for call, message in calls:
        with pytest.raises(DTypeError) as caught:
            call()
        assert str(caught.value) == message


@pytest.mark.parametrize("name", [*NUMBERS_FIRST, *INTEGERS_FIRST])
def test_a_number_may_come_first(name: str) -> None:
    function = getattr(sw, name)
    number, other = (6, J) if name in INTEGERS_FIRST else (0.5, A)
    narrow = other.astype(np.int32 if name in INTEGERS_FIRST else np.float32)
    whole = np.full(other.shape, number, narrow.dtype)
    expected = function(sw.tensor(whole), sw.tensor(narrow))
    result = function(number, sw.tensor(narrow))
    assert result.dtype == expected.dtype  # the number is weak
    np.testing.assert_allclose(result.data, expected.data, rtol=1e-6)
    of_array = function(number, narrow)
    assert isinstance(of_array, np.ndarray)
    np.testing.assert_array_equal(of_array, result.data)
    assert isinstance(function(number, np.array(narrow[0, 0])), np.ndarray)


def test_gradients_reach_the_second_operand() -> None:
    x = sw.tensor(A, requires_grad=True)
    sw.pow(2.0, x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2.0**A * np.log(2.0))  # type: ignore[union-attr]


def test_one_tensor_among_the_arguments_makes_tensors() -> None:
    x = sw.tensor(A, requires_grad=True)
    total = sw.mul(B, x)
    assert isinstance(total, Tensor)
    assert total.requires_grad
    assert isinstance(sw.gather(A, 0, sw.tensor(PICK)), Tensor)
    assert isinstance(sw.index_put(A, (sw.tensor(ROWS),), B), Tensor)


def test_input_can_be_named() -> None:
    x = sw.tensor(A)
    assert sw.sum(input=x, dim=0).shape == (3,)
    assert sw.pow(input=x, exponent=2).shape == (2, 3)
    assert sw.add(input=A, other=B, alpha=2).shape == (2, 3)
    assert sw.split(tensor=x, split_size_or_sections=[1, 2], dim=1)[1].shape == (2, 2)
    np.testing.assert_array_equal(sw.add(input=A, other=B, alpha=2), A + 2 * B)


def test_out_is_written_into() -> None:
    x, out = sw.tensor(A), sw.zeros(2, 3, dtype=np.float64)
    assert sw.add(x, x, out=out) is out  # type: ignore[call-arg]  # as in PyTorch, out is for those who ask
    np.testing.assert_array_equal(out.data, A + A)
    array = np.zeros((2, 3))
    assert sw.exp(A, out=array) is array  # type: ignore[call-arg]
    np.testing.assert_array_equal(array, np.exp(A))
    with pytest.raises(ArgumentError) as caught:
        sw.add(x, x, out=sw.zeros(3))  # type: ignore[call-arg]
    assert str(caught.value) == (
        "add: out: wanted one of shape (2, 3), got one of shape (3,); copy_() writes into any tensor"
    )
    with pytest.raises(
        ArgumentError, match=r"sort: out: wanted none: there are several results, got a tuple"
    ):
        sw.sort(x, out=(out, out))  # type: ignore[call-arg]


def test_names_are_those_of_the_roof() -> None:
    for name in function_form.__all__:
        function = getattr(function_form, name)
        assert getattr(sw, name) is function
        assert function.__doc__
        assert pickle.loads(pickle.dumps(function)) is function


def test_arrays_without_data_stay_so() -> None:
    x = ShapeArray((2, 3), np.dtype(np.float32))
    result: Any = sw.exp(x)  # type: ignore[type-var]
    assert isinstance(result, ShapeArray)
    assert result.shape == (2, 3)


def test_numpys_scalars_are_arrays_without_dims() -> None:
    result: Any = sw.exp(np.float64(0.0))  # type: ignore[type-var]
    assert isinstance(result, np.ndarray)
    assert result.shape == ()


def test_polygamma_takes_its_order_first() -> None:
    x = sw.tensor(A)
    np.testing.assert_array_equal(sw.polygamma(1, x).data, x.polygamma(1).data)
    np.testing.assert_array_equal(sw.polygamma(n=2, input=A), x.polygamma(2).data)


def test_what_is_a_tensor() -> None:
    assert sw.is_tensor(sw.ones(1))
    assert not sw.is_tensor(np.ones(1))


@pytest.mark.parametrize(
    "name", ["sum", "mean", "amax", "max", "argmax", "var", "std", "softmax", "sort", "cumsum"]
)
def test_numpys_names_of_dims(name: str) -> None:
    x = sw.tensor(A)
    method = getattr(x, name)
    for theirs, ours in zip(values(method(axis=1)), values(method(dim=1)), strict=True):
        np.testing.assert_array_equal(theirs, ours)
    if name not in ("softmax", "sort", "cumsum"):
        kept = method(axis=1, keepdims=True)
        assert flat(kept)[0].shape == (2, 1)
        assert flat(getattr(sw, name)(x, axis=1, keepdims=True))[0].shape == (2, 1)
    with pytest.raises(ArgumentError) as caught:
        method(dim=1, axis=1)
    assert str(caught.value) == f"{name}: got dim and axis, which mean the same; give one of them"


def test_joining_takes_axis() -> None:
    x = sw.tensor(A)
    for function in (sw.cat, sw.concat, sw.concatenate):
        assert function([x, x], axis=1).shape == (2, 6)  # type: ignore[call-arg]
    assert sw.stack([x, x], axis=2).shape == (2, 3, 2)  # type: ignore[call-arg]


def test_dims_and_sizes_can_be_named() -> None:
    x = sw.tensor(A)
    assert x.permute(dims=(1, 0)).shape == sw.permute(x, dims=(1, 0)).shape == (3, 2)
    assert x.reshape(shape=(3, 2)).shape == sw.reshape(x, shape=(3, 2)).shape == (3, 2)
    np.testing.assert_array_equal(x.flip(dims=[1]).data, A[:, ::-1])
    np.testing.assert_array_equal(sw.flip(x, dims=(0, 1)).data, A[::-1, ::-1])
    assert x.tile(dims=(2, 1)).shape == sw.tile(x, dims=(2, 1)).shape == (4, 3)
    assert x.repeat(repeats=(1, 2)).shape == (2, 6)
    assert x.expand(size=(4, 2, 3)).shape == sw.broadcast_to(x, size=(4, 2, 3)).shape == (4, 2, 3)
    with pytest.raises(ArgumentError, match=r"got \(1, 0\) and, by keyword, \(0, 1\); give one of them"):
        x.permute(1, 0, dims=(0, 1))


def test_where_of_a_condition_alone_gives_indices() -> None:
    x = sw.tensor(A)
    rows, columns = sw.where(x > 0.4)
    np.testing.assert_array_equal(np.stack([rows.data, columns.data]), np.nonzero(A > 0.4))
    assert isinstance(sw.where(A > 0.4)[0], np.ndarray)
    result = sw.where(A > 0.4, 1.0, 0.0)
    assert result.dtype == np.float32
    with pytest.raises(ArgumentError, match="where: wanted two values, or none"):
        sw.where(x > 0.4, x)  # type: ignore[call-overload]


def test_inference_mode_records_nothing() -> None:
    x = sw.tensor(A, requires_grad=True)
    with sw.inference_mode():
        assert not (x * 2.0).requires_grad
    with sw.inference_mode(False):
        assert (x * 2.0).requires_grad

    @sw.inference_mode()
    def double(x: Tensor) -> Tensor:
        return x * 2.0

    assert not double(x).requires_grad


def test_detach_in_place() -> None:
    x = sw.tensor(A, requires_grad=True)
    y = x * 2.0
    assert y.detach_() is y
    assert not y.requires_grad
    assert y.is_leaf
    z = x * 2.0
    view = z[0]
    with pytest.raises(AutogradError, match="detach_: other tensors look at this memory"):
        z.detach_()
    assert view.requires_grad


def test_methods_that_functions_had_alone() -> None:
    x = sw.tensor(A, requires_grad=True)
    np.testing.assert_array_equal(x.matmul(sw.tensor(B.T)).data, A @ B.T)
    sw.manual_seed(0)
    drawn = sw.tensor(V).multinomial(2)
    sw.manual_seed(0)
    np.testing.assert_array_equal(drawn.data, sw.multinomial(sw.tensor(V), 2).data)
    assert x.softmax(0, dtype=np.float32).dtype == sw.float32
    assert sw.zeros(2, 3).copy_(sw.ones(3), non_blocking=True).sum().item() == 6.0
    assert x.is_same_size(sw.ones(2, 3))


def test_pairs_and_complex_numbers() -> None:
    x = sw.tensor(np.stack([A, B], -1), requires_grad=True)
    z = sw.view_as_complex(x)
    np.testing.assert_array_equal(z.data, A + 1j * B)
    np.testing.assert_array_equal(sw.view_as_real(z).data, x.data)
    assert gradcheck(lambda x: sw.view_as_real(sw.view_as_complex(x) * (1 + 2j)), (x,))
    with pytest.raises(
        ShapeError, match=r"view_as_complex: wanted a last dim of size 2, got the shape \(2, 3\)"
    ):
        sw.view_as_complex(x[..., 0])
    with pytest.raises(DTypeError, match="view_as_real: wanted complex numbers, got float64"):
        sw.view_as_real(x)
