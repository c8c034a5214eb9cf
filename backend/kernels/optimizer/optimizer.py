"""Updates of parameters and their state, in place: one formula, many parameters in one call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import DTypeError, ShapeError
from shardwise.backend.kernels.device.on_device import DeviceVersion, device_of
from shardwise.backend.kernels.kernel import Kernel, wants_plain_formulas
from shardwise.backend.kernels.memory.contiguous import contiguous
from shardwise.backend.kernels.optimizer import optimizer_formula as formulas
from shardwise.backend.kind import is_narrow

__all__ = [
    "UPDATES", "Update", "adadelta", "adagrad", "adam", "adam_amsgrad", "adamax", "approach", "lamb", "lion",
    "nadam", "radam", "rmsprop", "rmsprop_centered", "rmsprop_centered_momentum", "rmsprop_momentum", "sgd",
    "sgd_momentum", "sgd_nesterov", "update_on_device",
]  # fmt: skip

Formula = Callable[..., tuple[Array, ...]]

_FUSED = (np.dtype(np.float32), np.dtype(np.float64))
_REAL = {np.dtype(kind): np.dtype(real) for kind, real in (("F", "f"), ("D", "d"), ("f", "f"), ("d", "d"))}
_BLOCK = 1 << 15  # elements: what a formula makes on the way stays in the cache


class Update:
    """A formula for one element, applied in place to all elements of many parameters.

    NumPy arrays of float32, float64 and their complex kin are updated in one compiled call, wherever they
    lie, and so are CuPy arrays of one device, those of 16 bits too. Others take the formula itself, one
    after the other: arrays with gaps, arrays without data, and a machine without numba. Parameters of 16
    bits are updated in float32 and rounded. Complex ones are pairs of real ones.

    Parameters
    ----------
    formula : callable
        Takes the parameter, its gradient, its state, and numbers; returns the new parameter and state.
    arrays : int
        How many of the arguments are arrays.

    Examples
    --------
    >>> import numpy as np
    >>> a, b = np.ones(2), np.ones((2, 2))
    >>> sgd([[a, b], [np.ones(2), np.ones((2, 2))]], [(0.5, 1.0, 0.0)] * 2)
    >>> a.tolist(), b.tolist()
    ([0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]])
    """

    def __init__(self, formula: Formula, arrays: int) -> None:
        self.name = formula.__name__
        self.formula = formula
        names = list(inspect.signature(formula).parameters)
        self.arrays, self.numbers = tuple(names[:arrays]), tuple(names[arrays:])

    def __repr__(self) -> str:
        return f"Update({self.name}: {', '.join(self.arrays)}; {', '.join(self.numbers)})"

    def __call__(self, columns: Sequence[Sequence[Array]], numbers: Sequence[tuple[float, ...]]) -> None:
        """Update parameters.

        Parameters
        ----------
        columns : sequence of sequences of Array
            Parameters, gradients, and each kind of state; all are written but the gradients.
        numbers : sequence of tuple of float
            Per parameter, the numbers of the formula. Where all are one tuple it is looked at once.

        Raises
        ------
        ShapeError
            A gradient or state has another shape than its parameter. Nothing is changed then.
        DTypeError
            A gradient or state is complex, and its parameter is real.
        """
        self._check_shapes(columns)
        if not columns[0]:
            return
        if _fit(columns):
            update_each(self.formula, columns, numbers)
            return
        self._check_kinds(columns)
        together: dict[
            tuple[object, np.dtype[np.generic]], tuple[list[list[Array]], list[tuple[float, ...]]]
        ] = {}
        for arrays, row in zip(zip(*columns, strict=True), numbers, strict=True):
            flat = _flat(arrays)
            if flat is None:
                _update_alone(self.formula, arrays, row)
                continue
            rows, their_numbers = together.setdefault((device_of(flat[0]), flat[0].dtype), ([], []))
            rows.append(flat)
            their_numbers.append(row)
        for (device, _), (rows, their_numbers) in together.items():
            _update_together(self.formula, device, list(zip(*rows, strict=True)), their_numbers)

    def _check_shapes(self, columns: Sequence[Sequence[Array]]) -> None:
        shapes = [param.shape for param in columns[0]]
        for name, column in zip(self.arrays, columns, strict=True):
            if [array.shape for array in column] != shapes:
                wrong = next(i for i, array in enumerate(column) if array.shape != shapes[i])
                raise ShapeError(
                    f"{self.name}: a parameter has shape {shapes[wrong]}, and its {name} has "
                    f"{column[wrong].shape}; wanted the same."
                )

    def _check_kinds(self, columns: Sequence[Sequence[Array]]) -> None:
        for name, column in zip(self.arrays, columns, strict=True):
            for param, array in zip(columns[0], column, strict=True):
                if array.dtype.kind == "c" and param.dtype.kind != "c":
                    raise DTypeError(
                        f"{self.name}: a parameter of shape {param.shape} is {param.dtype}, and its {name} "
                        f"is {array.dtype}; wanted real numbers."
                    )


def _update_each(
    formula: Formula, columns: Sequence[Sequence[Array]], numbers: Sequence[tuple[float, ...]]
) -> None:
    """Apply a formula to contiguous arrays of one dtype, in blocks.

    Parameters
    ----------
    formula : callable
    columns : sequence of sequences of Array
        Equally many C-contiguous arrays of equal sizes; those of the second one are not written.
    numbers : sequence of tuple of float
    """
    for arrays, row in zip(zip(*columns, strict=True), numbers, strict=True):
        for block in _blocks(arrays):
            _apply(formula, block, row)


update_each = Kernel(_update_each, "shardwise.backend.kernels.optimizer.optimizer_cpu:update_each", arrays=0)
update_on_device = DeviceVersion("shardwise.backend.kernels.optimizer.optimizer_cuda:update_each")


def _update_together(
    formula: Formula,
    device: object,
    columns: Sequence[Sequence[Array]],
    numbers: Sequence[tuple[float, ...]],
) -> None:
    """Apply a formula to contiguous arrays of one dtype and device; that of NumPy's arrays is None."""
    if device is None:
        update_each(formula, columns, numbers)
    elif (
        wants_plain_formulas()
        or update_on_device.reason
        or update_on_device(device, formula, columns, numbers) is NotImplemented
    ):
        for arrays, row in zip(zip(*columns, strict=True), numbers, strict=True):
            _update_alone(formula, arrays, row)


def _blocks(arrays: Sequence[Array]) -> Iterator[Sequence[Array]]:
    flat = [array.reshape(-1) for array in arrays]
    for start in range(0, flat[0].size, _BLOCK):
        yield [array[start : start + _BLOCK] for array in flat]


def _apply(formula: Formula, arrays: Sequence[Array], row: tuple[float, ...]) -> None:
    with np.errstate(all="ignore"):  # as in compiled code, infinity and NaN need no words
        results = formula(*arrays, *row)
    for array, result in zip((arrays[0], *arrays[2:]), results, strict=True):
        if array is not result:
            array[...] = result


def _fit(columns: Sequence[Sequence[Array]]) -> bool:
    """Tell whether all are NumPy arrays of one dtype that compiled code can take as they are."""
    dtype = columns[0][0].dtype
    return dtype in _FUSED and False not in [
        type(array) is np.ndarray and array.dtype is dtype and array.flags.carray
        for column in columns
        for array in column
    ]


def _flat(arrays: Sequence[Array]) -> list[Array] | None:
    """Return contiguous real arrays of NumPy or of one device over the memory of these, if there are such."""
    kind, device = type(arrays[0]), device_of(arrays[0])
    if any(type(array) is not kind or device_of(array) != device for array in arrays):
        return None
    if device is None and kind is not np.ndarray:
        return None
    param, grad, *state = arrays
    real = _REAL.get(param.dtype)
    if real is None and device is not None and is_narrow(param.dtype):
        real = param.dtype
    if real is None or any(array.dtype != param.dtype for array in state):
        return None
    if not _is_plain_memory(param):
        param, grad, *state = (array.T for array in (param, grad, *state))  # in Fortran's order, perhaps
    if not all(map(_is_plain_memory, (param, *state))):
        return None
    grad = grad.astype(param.dtype, copy=False)
    if device is None or not grad.flags.c_contiguous:
        grad = contiguous(grad) if device is None else grad.copy(order="C")
    return [array.reshape(-1).view(real) for array in (param, grad, *state)]


def _is_plain_memory(array: Array) -> bool:
    """Tell whether compiled code can go through it element by element, and write."""
    return array.flags.carray if type(array) is np.ndarray else array.flags.c_contiguous


def _update_alone(formula: Formula, arrays: Sequence[Array], row: tuple[float, ...]) -> None:
    """Update one parameter, of any kind of array."""
    dtype = arrays[0].dtype
    if dtype.kind == "c":
        for parts in ([array.real for array in arrays], [array.imag for array in arrays]):
            _apply(formula, parts, row)
    elif is_narrow(dtype):
        wide = [array.astype(np.float32) for array in arrays]
        if all(type(array) is np.ndarray for array in wide):
            wide = [contiguous(array) for array in wide]
            update_each(formula, [[array] for array in wide], [row])
        else:
            _apply(formula, wide, row)
        with np.errstate(over="ignore"):
            for array, result in zip((arrays[0], *arrays[2:]), (wide[0], *wide[2:]), strict=True):
                array[...] = result.astype(array.dtype)
    else:
        _apply(formula, arrays, row)


approach = Update(formulas.approach, arrays=2)
sgd = Update(formulas.sgd, arrays=2)
sgd_momentum = Update(formulas.sgd_momentum, arrays=3)
sgd_nesterov = Update(formulas.sgd_nesterov, arrays=3)
lion = Update(formulas.lion, arrays=3)
adagrad = Update(formulas.adagrad, arrays=3)
adadelta = Update(formulas.adadelta, arrays=4)
rmsprop = Update(formulas.rmsprop, arrays=3)
rmsprop_momentum = Update(formulas.rmsprop_momentum, arrays=4)
rmsprop_centered = Update(formulas.rmsprop_centered, arrays=4)
rmsprop_centered_momentum = Update(formulas.rmsprop_centered_momentum, arrays=5)
adam = Update(formulas.adam, arrays=4)
adam_amsgrad = Update(formulas.adam_amsgrad, arrays=5)
adamax = Update(formulas.adamax, arrays=4)
nadam = Update(formulas.nadam, arrays=4)
radam = Update(formulas.radam, arrays=4)
lamb = Update(formulas.lamb, arrays=5)

UPDATES = (
    *(approach, sgd, sgd_momentum, sgd_nesterov, lion, adagrad, adadelta),
    *(rmsprop, rmsprop_momentum, rmsprop_centered, rmsprop_centered_momentum),
    *(adam, adam_amsgrad, adamax, nadam, radam, lamb),
)
"""All of them: for checks on the user's machine, and for the tests."""
