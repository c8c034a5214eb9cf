"""Calls that write in place, in float64, small enough for finite differences.

Ops that save what they overwrite keep a copy of it, so each of these has a gradient.
"""

from __future__ import annotations

from typing import Any

import shardwise as sw
from cases.operand import INDEX, Case, make

__all__ = ["CASES"]


def _itself(a: Any) -> Any:
    b = a * 2.0
    b.mul_(b)
    return b


def _operators(a: Any, b: Any) -> Any:
    x = a * 1.0
    x += b
    x *= b
    x -= 0.5
    x /= b
    x **= 3
    x %= 2.0
    return x


UNARY = (
    "abs_", "neg_", "sgn_", "frac_", "square_", "exp_", "exp2_", "expm1_", "sigmoid_", "sin_", "cos_", "tan_",
    "atan_", "sinh_", "cosh_", "tanh_", "asinh_", "sinc_", "deg2rad_", "rad2deg_", "erf_", "erfc_", "relu_",
    "nan_to_num_", "i0_", "conj_physical_", "floor_", "ceil_", "trunc_", "round_",
)  # fmt: skip
POSITIVE = (
    "sqrt_", "rsqrt_", "reciprocal_", "log_", "log2_", "log10_", "log1p_", "lgamma_", "digamma_", "logit_",
    "asin_", "acos_", "atanh_", "erfinv_",
)  # fmt: skip

CASES: dict[str, Case] = {
    **{name: (lambda a, name=name: getattr(a * 1.0, name)() * a, (make(3),)) for name in UNARY},
    **{name: (lambda a, name=name: getattr(a * 0.9, name)() * a, (make(3, low=0.1),)) for name in POSITIVE},
    "acosh_": (lambda a: (a * 1.0).acosh_(), (make(3, low=1.5),)),
    "mul_ by itself": (_itself, (make(3),)),
    "operators in place": (_operators, (make(2, 3), make(3, low=1.0))),
    "add_ alpha": (lambda a, b: (a * 1.0).add_(b, alpha=2), (make(2, 3), make(3))),
    "div_ floor": (lambda a: (a * 1.0).div_(0.7, rounding_mode="floor") * a, (make(3),)),
    "addcmul_": (lambda a, b: (a * 1.0).addcmul_(b, b, value=2), (make(2, 3), make(3))),
    "addcdiv_": (lambda a, b: (a * 1.0).addcdiv_(a, b, value=2), (make(2, 3), make(3, low=1.0))),
    "lerp_": (lambda a, b, w: (a * 1.0).lerp_(b, w), (make(2, 3), make(3), make())),
    "clamp_": (lambda a: (a * 1.0).clamp_(-0.3, 0.4), (make(6),)),
    "clamp_ by a tensor": (lambda a, b: (a * 1.0).clamp_min_(b), (make(2, 6), make(6))),
    "pow_": (lambda a, b: (a * 1.0).pow_(b), (make(3, low=0.5), make(3))),
    "atan2_": (lambda a, b: (a * 1.0).atan2_(b), (make(3), make(3, seed=1))),
    "xlogy_": (lambda a, b: (a * 1.0).xlogy_(b), (make(3), make(3, low=0.5))),
    "masked_fill_": (lambda a, b: (a * 1.0).masked_fill_(sw.tensor(INDEX > 0), b), (make(2, 3), make())),
    "copy_ broadcast": (lambda a, b: (a * 1.0).copy_(b) * a, (make(2, 3), make(3))),
    "zero_": (lambda a: (a * 1.0).zero_() + a, (make(3),)),
    "of a constant": (lambda a: sw.ones_like(a).mul_(a).exp_(), (make(3),)),
    "polygamma_": (lambda a: (a * 1.0).polygamma_(1), (make(3, low=1.0),)),
}  # fmt: skip
