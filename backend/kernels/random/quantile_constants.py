"""The constants of ``quantile.py`` as C++: one truth for all devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shardwise.backend.quantile import (
    CENTRE_SQUARE,
    CENTRE_WIDTH,
    DOUBLE,
    FAR_TAIL_START,
    SINGLE,
    TAIL_SHIFT,
)

__all__ = ["quantile_constants"]

_NUMBERS = {
    "CENTRE_WIDTH": CENTRE_WIDTH,
    "CENTRE_SQUARE": CENTRE_SQUARE,
    "TAIL_SHIFT": TAIL_SHIFT,
    "FAR_TAIL_START": FAR_TAIL_START,
}


def quantile_constants() -> str:
    """The text that ``quantile.cuh`` includes: a function per polynomial, and the numbers."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    for name, value in _NUMBERS.items():
        yield f"constexpr double {name} = {value.hex()};"
    for real, functions in (("float", SINGLE), ("double", DOUBLE)):
        prefix = "single" if functions is SINGLE else "double"
        ratios = {"centre": functions.centre, "tail": functions.tail, "far": functions.far_tail}
        for name, ratio in ratios.items():
            if ratio is not None:
                yield _polynomial(f"{prefix}_{name}_top", real, ratio[0])
                yield _polynomial(f"{prefix}_{name}_bottom", real, ratio[1])
        yield _polynomial(f"{prefix}_series", real, functions.logarithm.series)
        yield f"constexpr {real} {prefix.upper()}_LN2_HIGH = {functions.logarithm.ln2_high.hex()};"
        yield f"constexpr {real} {prefix.upper()}_LN2_LOW = {functions.logarithm.ln2_low.hex()};"


def _polynomial(name: str, real: str, coefficients: Sequence[float]) -> str:
    """Horner's rule, highest power first, one operation after the other."""
    steps = [f"({real}){coefficient.hex()}" for coefficient in coefficients]
    rest = "".join(f" r = r * x + {step};" for step in steps[2:])
    body = f"{real} r = x * {steps[0]} + {steps[1]};{rest} return r;"
    return f"__device__ inline {real} {name}({real} x) {{ {body} }}"
