"""The NumPy names that formulas may use: each also exists in CuPy, and ``ShapeArray`` knows its result.

A formula (the forward or backward of an op, the plain version of a kernel) is written once with these
names, operators, the attributes and methods of :data:`ATTRIBUTES` and :data:`METHODS`, and the functions
of :mod:`shardwise.backend.special`; it then runs on NumPy, CuPy and shape arrays and on Tensors. Python
floats stand for constants, because a NumPy scalar would promote the result.

To add a name: write it here, and its rule in :mod:`shardwise.backend.shape_function`; the tests compare
it against NumPy and look it up in CuPy.
"""

from __future__ import annotations

__all__ = ["ATTRIBUTES", "CREATION", "FUNCTIONS", "METHODS", "UFUNCS"]

UFUNCS = (
    # arithmetic
    *("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "fmod", "power", "float_power"),
    *("negative", "positive", "absolute", "fabs", "sign", "reciprocal", "square", "conjugate"),
    # exponentials and roots
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "logaddexp", "logaddexp2", "sqrt", "cbrt"),
    # circular and hyperbolic
    *("sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2", "hypot", "deg2rad", "rad2deg"),
    *("sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh"),
    # choice and rounding
    *("maximum", "minimum", "fmax", "fmin", "floor", "ceil", "trunc", "rint", "copysign", "heaviside"),
    # comparison and logic
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    *("logical_and", "logical_or", "logical_xor", "logical_not"),
    *("isnan", "isinf", "isfinite", "signbit"),
    # bits
    *("bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift"),
    *("gcd", "lcm"),
    # the one generalised ufunc
    "matmul",
)
"""Elementwise functions and ``matmul``; operators on arrays call them."""

FUNCTIONS = (
    # reductions
    *("sum", "prod", "mean", "var", "std", "amax", "amin", "max", "min", "all", "any"),
    *("argmax", "argmin", "cumsum", "cumprod"),
    # shape
    *("reshape", "ravel", "transpose", "swapaxes", "moveaxis", "expand_dims", "squeeze"),
    *("broadcast_to", "concatenate", "stack", "split", "flip", "roll", "repeat", "tile", "pad"),
    # selection
    *("where", "take", "take_along_axis", "clip", "tril", "triu", "diagonal", "sort", "argsort"),
    *("partition", "searchsorted", "isin"),
    # like another array
    *("zeros_like", "ones_like", "full_like", "empty_like"),
    # parts and questions
    *("real", "imag", "round", "ndim", "shape", "size", "result_type", "iscomplexobj"),
    # linear algebra and Fourier transforms
    *("linalg.inv", "linalg.solve", "linalg.cholesky", "linalg.det", "linalg.slogdet", "linalg.qr"),
    *("linalg.svd", "linalg.eigh", "linalg.eigvalsh", "linalg.eig", "linalg.eigvals"),
    *("fft.fft", "fft.ifft", "fft.rfft", "fft.irfft", "fft.fftn", "fft.ifftn"),
)
"""Functions that work by the type of their array arguments."""

CREATION = ("arange", "asarray", "zeros", "ones", "empty", "full", "eye")
"""Functions that make an array, of the kind of the array that is given as ``like=``."""

ATTRIBUTES = ("shape", "dtype", "ndim", "size", "nbytes", "itemsize", "T", "real", "imag")
"""What every kind of array has."""

METHODS = ("astype", "view", "reshape", "copy")
"""Methods of every kind of array that NumPy has no function for, or that read better."""
