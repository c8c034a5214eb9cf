"""CUDA code made from a formula of single elements: the plain formula is run on symbols, and writes it down.

So what is computed on the device is what the formula says, and there is nothing to keep in step with it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from shardwise.backend import special
from shardwise.backend.kernels.unavailable import FusedUnavailableError

__all__ = ["formula_source"]

_BOOL, _WIDE = "bool", "wide"

# {0}, {1}, ... stand for the operands. Every text is an expression of C++ with the strength of a call.
_FUNCTIONS: Mapping[object, str] = {
    np.add: "({0} + {1})",
    np.subtract: "({0} - {1})",
    np.multiply: "({0} * {1})",
    np.divide: "({0} / {1})",
    np.negative: "(-{0})",
    np.positive: "({0})",
    np.square: "({0} * {0})",
    np.reciprocal: "((wide)1 / {0})",
    np.power: "pow({0}, {1})",
    np.absolute: "fabs({0})",
    np.sign: "sign({0})",
    np.maximum: "larger({0}, {1})",
    np.minimum: "smaller({0}, {1})",
    np.exp: "exp({0})",
    np.expm1: "expm1({0})",
    np.log: "log({0})",
    np.log1p: "log1p({0})",
    np.sqrt: "sqrt({0})",
    np.sin: "sin({0})",
    np.cos: "cos({0})",
    np.tanh: "tanh({0})",
    np.cosh: "cosh({0})",
    np.sinh: "sinh({0})",
    np.clip: "smaller(larger({0}, {1}), {2})",
    special.erf: "erf({0})",
    special.erfc: "erfc({0})",
    special.sigmoid: "sigmoid({0})",
}
_QUESTIONS: Mapping[object, str] = {
    np.less: "({0} < {1})",
    np.less_equal: "({0} <= {1})",
    np.greater: "({0} > {1})",
    np.greater_equal: "({0} >= {1})",
    np.equal: "({0} == {1})",
    np.not_equal: "({0} != {1})",
    np.isnan: "({0} != {0})",
    np.logical_and: "({0} && {1})",
    np.logical_or: "({0} || {1})",
    np.logical_xor: "({0} != {1})",
    np.logical_not: "(!{0})",
    np.bitwise_and: "({0} && {1})",
    np.bitwise_or: "({0} || {1})",
    np.bitwise_xor: "({0} != {1})",
    np.invert: "(!{0})",
}
_LOGIC = (np.logical_and, np.logical_or, np.logical_xor, np.logical_not, np.bitwise_and, np.bitwise_or)
_OF_BOOLS = (*_LOGIC, np.bitwise_xor, np.invert)


class _UndecidedError(Exception):
    """The formula asks whether a number is 0, and it was not said what to answer."""

    def __init__(self, question: str) -> None:
        super().__init__(question)
        self.question = question


class _Trace:
    """What a run of a formula has written so far.

    Parameters
    ----------
    answers : sequence of bool
        To the questions of the formula, one after the other.
    """

    def __init__(self, answers: Sequence[bool]) -> None:
        self.statements: list[str] = []
        self.marks: list[int] = []  # how many statements there were at each question
        self._answers = iter(answers)

    def let(self, kind: str, expression: str) -> _Symbol:
        name = f"v{len(self.statements)}"
        self.statements.append(f"const {kind} {name} = {expression};")
        return _Symbol(self, name, kind)

    def decide(self, symbol: _Symbol) -> bool:
        self.marks.append(len(self.statements))
        try:
            return next(self._answers)
        except StopIteration:
            zero = symbol.name if symbol.kind == _BOOL else f"{symbol.name} != 0"
            raise _UndecidedError(zero) from None


class _Symbol(NDArrayOperatorsMixin):
    """A number of which only the name is known; what is done with it is written down.

    Parameters
    ----------
    trace : _Trace
    name : str
    kind : str
        ``"wide"`` or ``"bool"``.
    """

    def __init__(self, trace: _Trace, name: str, kind: str) -> None:
        self.trace, self.name, self.kind = trace, name, kind

    def __bool__(self) -> bool:
        return self.trace.decide(self)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object) -> object:
        if method != "__call__" or kwargs:
            return NotImplemented
        return self._written(ufunc, inputs)

    def __array_function__(
        self,
        function: Callable[..., object],
        types: object,
        args: Sequence[object],
        kwargs: Mapping[str, object],
    ) -> object:
        if kwargs:
            return NotImplemented
        if function is np.where and len(args) == 3:
            condition, a, b = args
            return self.trace.let(_WIDE, f"{_text(condition, _BOOL)} ? {_text(a, _WIDE)} : {_text(b, _WIDE)}")
        return self._written(function, args)

    def __array_special__(
        self, function: object, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> object:
        return NotImplemented if kwargs else self._written(function, args)

    def _written(self, function: object, args: Sequence[object]) -> object:
        operand = _BOOL if function in _OF_BOOLS else _WIDE
        for kind, texts in ((_WIDE, _FUNCTIONS), (_BOOL, _QUESTIONS)):
            if function in texts:
                return self.trace.let(kind, texts[function].format(*(_text(x, operand) for x in args)))
        return NotImplemented


def _text(value: object, kind: str) -> str:
    """The expression for an operand, a symbol or a Python number."""
    if isinstance(value, _Symbol):
        if value.kind == kind:
            return value.name
        return f"(wide){value.name}" if kind == _WIDE else f"({value.name} != 0)"
    if kind == _BOOL:
        return "true" if value else "false"
    if not isinstance(value, int | float):
        raise TypeError(f"a formula of single elements cannot use {value!r}")
    if math.isnan(value):
        return "not_a_number()"
    if math.isinf(value):
        return "infinity()" if value > 0 else "(-infinity())"
    return f"((wide){float(value).hex()})"


def formula_source(
    formula: Callable[..., object], name: str, parameters: Sequence[tuple[str, str]], results: int
) -> str:
    """A device function that computes a formula.

    Parameters
    ----------
    formula : callable
        Of numbers; may branch on those that are not arrays, as Python does.
    name : str
        Of the function. It writes into its first parameter, ``wide (&result)[results]``.
    parameters : sequence of (str, str)
        The type, ``"wide"`` or ``"bool"``, and the name of each parameter of the formula.
    results : int
        How many numbers the formula returns.

    Returns
    -------
    str

    Raises
    ------
    FusedUnavailableError
        If the formula does something for which there is no CUDA code here.
    """
    # Under names of their own: one that is called `sign` would hide the function.
    given = [(kind, f"given_{label}") for kind, label in parameters]
    listed = ", ".join([f"wide (&result)[{results}]", *(f"{kind} {label}" for kind, label in given)])
    try:
        body = "\n".join(_block(functools.partial(_run, formula, given), [], 0, "    "))
    except TypeError as error:
        raise FusedUnavailableError(f"no CUDA code could be made of {name}: {error}") from error
    return f"__device__ inline void {name}({listed})\n{{\n{body}\n}}\n"


def _run(formula: Callable[..., object], parameters: Sequence[tuple[str, str]], trace: _Trace) -> object:
    return formula(*(_Symbol(trace, label, kind) for kind, label in parameters))


def _block(run: Callable[[_Trace], object], answers: list[bool], written: int, indent: str) -> list[str]:
    """The statements from number `written` on, where the formula's first questions have these answers."""
    trace = _Trace(answers)
    try:
        answer = run(trace)
    except _UndecidedError as undecided:
        stop = trace.marks[-1]
        return [
            *(indent + statement for statement in trace.statements[written:]),
            f"{indent}if ({undecided.question}) {{",
            *_block(run, [*answers, True], stop, indent + "    "),
            f"{indent}}} else {{",
            *_block(run, [*answers, False], stop, indent + "    "),
            f"{indent}}}",
        ]
    results = answer if isinstance(answer, tuple) else (answer,)
    return [
        *(indent + statement for statement in trace.statements[written:]),
        *(f"{indent}result[{i}] = {_text(result, _WIDE)};" for i, result in enumerate(results)),
    ]
