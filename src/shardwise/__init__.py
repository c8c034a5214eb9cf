"""Torch-free distributed training over a sharded tensor: NumPy and CuPy, MPI and NCCL.

Importing the package starts nothing and loads nothing but this file; each public name loads
its module when it is first used (PEP 562).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0.dev0"

# The names are many, so they are listed in lines.
# fmt: off
# ruff: noqa: I001
if TYPE_CHECKING:
    from shardwise.backend.constant import dtype, e, inf, nan, newaxis, pi
    from shardwise.backend.device import device
    from shardwise.backend.dtypes import (
        bfloat16, bool, cdouble, cfloat, complex64, complex128, double, float, float16, float32, float64,
        half, int, int8, int16, int32, int64, long, short, uint8, uint16, uint32, uint64,
    )
    from shardwise.backend.errors import ShardwiseError
    from shardwise.backend.kind import finfo, iinfo
    from shardwise.collectives import (
        all_gather, all_reduce, barrier, broadcast, expect, explain, local_rank, no_implicit, preempted,
        rank, reduce_scatter, shutdown, watch_preemption, world_size,
    )
    from shardwise.launch import spawn
    from shardwise.mesh import DeviceMesh, init_device_mesh
    from shardwise.nn.functional import (
        adaptive_avg_pool1d, avg_pool1d, bilinear, celu, channel_shuffle, conv1d, conv2d, conv3d,
        conv_transpose1d, conv_transpose2d, conv_transpose3d, cosine_similarity, hardshrink, layer_norm,
        max_pool1d, max_pool2d, max_pool3d, pairwise_distance, pixel_shuffle, pixel_unshuffle, prelu,
        rms_norm, selu, threshold,
    )
    from shardwise.tensor import (
        Context, Function, Tensor, arange, as_tensor, asarray, atleast_1d, atleast_2d, atleast_3d, autocast,
        bernoulli, block_diag, broadcast_shapes, broadcast_tensors, bucketize, cartesian_prod, cat, cdist,
        chain_matmul, column_stack, combinations, complex, concat, concatenate, cuda, cumulative_trapezoid,
        detect_anomaly, dstack, einsum, empty, empty_like, enable_grad, eye, fft, from_dlpack, from_numpy,
        full, full_like, grad, gradcheck, gradgradcheck, hessian, hstack, inference_mode, initial_seed,
        is_grad_enabled, isin, jacobian, jvp, linalg, linspace, logspace, manual_seed, memory_stats,
        meshgrid, multinomial, no_grad, normal, ones, ones_like, polar, rand, rand_like, randint,
        randint_like, randn, randn_like, random, randperm, recompute, row_stack, scalar_tensor,
        searchsorted, set_grad_enabled, stack, tensor, tensordot, torch_autograd as autograd, track_memory,
        trapezoid, trapz, tree_flatten, tree_leaves, tree_map, tree_unflatten, tril_indices, triu_indices,
        value_and_grad, view_as_complex, view_as_real, vjp, vstack, where, zeros, zeros_like,
    )
    from shardwise.tensor.function_form import (
        abs, absolute, acos, acosh, add, addbmm, addcdiv, addcmul, addmm, addmv, addr, adjoint, all,
        allclose, amax, amin, aminmax, angle, any, arccos, arccosh, arcsin, arcsinh, arctan, arctan2,
        arctanh, argmax, argmin, argsort, argwhere, asin, asinh, atan, atan2, atanh, baddbmm, bincount,
        bitwise_and, bitwise_left_shift, bitwise_not, bitwise_or, bitwise_right_shift, bitwise_xor, bmm,
        broadcast_to, cbrt, ceil, cholesky, cholesky_inverse, cholesky_solve, chunk, clamp, clamp_max,
        clamp_min, clip, clone, conj, conj_physical, copysign, corrcoef, cos, cosh, count_nonzero, cov,
        cross, cummax, cummin, cumprod, cumsum, deg2rad, det, detach, diag, diag_embed, diagflat, diagonal,
        diff, digamma, dist, div, divide, dot, dsplit, eq, equal, erf, erfc, erfinv, exp, exp2, expm1, fix,
        flatten, flip, fliplr, flipud, float_power, floor, floor_divide, fmax, fmin, fmod, frac, gather,
        gcd, ge, ger, greater, greater_equal, gt, heaviside, histc, histogram, hsplit, hypot, i0, i0e, i1,
        i1e, imag, index_add, index_copy, index_fill, index_put, index_select, inner, inverse, is_complex,
        is_floating_point, is_same_size, is_signed, is_tensor, isclose, isfinite, isinf, isnan, isneginf,
        isposinf, isreal, kron, kthvalue, lcm, ldexp, le, lerp, less, less_equal, lgamma, log, log1p, log2,
        log10, log_softmax, logaddexp, logaddexp2, logcumsumexp, logdet, logical_and, logical_not,
        logical_or, logical_xor, logit, logsumexp, lt, masked_fill, masked_scatter, masked_select, matmul,
        matrix_exp, matrix_power, max, maximum, mean, median, min, minimum, mm, mode, moveaxis, movedim,
        msort, mul, multiply, mv, nan_to_num, nanmean, nanmedian, nanquantile, nansum, narrow, ne, neg,
        negative, nonzero, norm, not_equal, numel, outer, permute, pinverse, polygamma, positive, pow, prod,
        ptp, put, qr, quantile, rad2deg, ravel, real, reciprocal, relu, remainder, repeat_interleave,
        reshape, roll, rot90, round, rsqrt, scatter, scatter_add, scatter_reduce, select, sgn, sigmoid,
        sign, signbit, sin, sinc, sinh, slogdet, softmax, sort, split, sqrt, square, squeeze, std, std_mean,
        sub, subtract, sum, svd, swapaxes, swapdims, t, take, take_along_dim, tan, tanh, tensor_split, tile,
        topk, trace, transpose, tril, triu, true_divide, trunc, unbind, unflatten, unique,
        unique_consecutive, unsqueeze, var, var_mean, vdot, vsplit, xlog1py, xlogy,
    )

__all__ = [
    "Context", "DeviceMesh", "Function", "ShardwiseError", "Tensor", "__version__", "abs", "absolute",
    "acos", "acosh", "adaptive_avg_pool1d", "add", "addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr",
    "adjoint", "all", "all_gather", "all_reduce", "allclose", "amax", "amin", "aminmax", "angle", "any",
    "arange", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax", "argmin",
    "argsort", "argwhere", "as_tensor", "asarray", "asin", "asinh", "atan", "atan2", "atanh", "atleast_1d",
    "atleast_2d", "atleast_3d", "autocast", "autograd", "avg_pool1d", "baddbmm", "barrier", "bernoulli",
    "bfloat16", "bilinear", "bincount", "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or",
    "bitwise_right_shift", "bitwise_xor", "block_diag", "bmm", "bool", "broadcast", "broadcast_shapes",
    "broadcast_tensors", "broadcast_to", "bucketize", "cartesian_prod", "cat", "cbrt", "cdist", "cdouble",
    "ceil", "celu", "cfloat", "chain_matmul", "channel_shuffle", "cholesky", "cholesky_inverse",
    "cholesky_solve", "chunk", "clamp", "clamp_max", "clamp_min", "clip", "clone", "column_stack",
    "combinations", "complex", "complex64", "complex128", "concat", "concatenate", "conj", "conj_physical",
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "copysign",
    "corrcoef", "cos", "cosh", "cosine_similarity", "count_nonzero", "cov", "cross", "cuda", "cummax",
    "cummin", "cumprod", "cumsum", "cumulative_trapezoid", "deg2rad", "det", "detach", "detect_anomaly",
    "device", "diag", "diag_embed", "diagflat", "diagonal", "diff", "digamma", "dist", "div", "divide",
    "dot", "double", "dsplit", "dstack", "dtype", "e", "einsum", "empty", "empty_like", "enable_grad", "eq",
    "equal", "erf", "erfc", "erfinv", "exp", "exp2", "expect", "explain", "expm1", "eye", "fft", "finfo",
    "fix", "flatten", "flip", "fliplr", "flipud", "float", "float16", "float32", "float64", "float_power",
    "floor", "floor_divide", "fmax", "fmin", "fmod", "frac", "from_dlpack", "from_numpy", "full",
    "full_like", "gather", "gcd", "ge", "ger", "grad", "gradcheck", "gradgradcheck", "greater",
    "greater_equal", "gt", "half", "hardshrink", "heaviside", "hessian", "histc", "histogram", "hsplit",
    "hstack", "hypot", "i0", "i0e", "i1", "i1e", "iinfo", "imag", "index_add", "index_copy", "index_fill",
    "index_put", "index_select", "inf", "inference_mode", "init_device_mesh", "initial_seed", "inner",
    "int", "int8", "int16", "int32", "int64", "inverse", "is_complex", "is_floating_point",
    "is_grad_enabled", "is_same_size", "is_signed", "is_tensor", "isclose", "isfinite", "isin", "isinf",
    "isnan", "isneginf", "isposinf", "isreal", "jacobian", "jvp", "kron", "kthvalue", "layer_norm", "lcm",
    "ldexp", "le", "lerp", "less", "less_equal", "lgamma", "linalg", "linspace", "local_rank", "log",
    "log1p", "log2", "log10", "log_softmax", "logaddexp", "logaddexp2", "logcumsumexp", "logdet",
    "logical_and", "logical_not", "logical_or", "logical_xor", "logit", "logspace", "logsumexp", "long",
    "lt", "manual_seed", "masked_fill", "masked_scatter", "masked_select", "matmul", "matrix_exp",
    "matrix_power", "max", "max_pool1d", "max_pool2d", "max_pool3d", "maximum", "mean", "median",
    "memory_stats", "meshgrid", "min", "minimum", "mm", "mode", "moveaxis", "movedim", "msort", "mul",
    "multinomial", "multiply", "mv", "nan", "nan_to_num", "nanmean", "nanmedian", "nanquantile", "nansum",
    "narrow", "ne", "neg", "negative", "newaxis", "no_grad", "no_implicit", "nonzero", "norm", "normal", "not_equal",
    "numel", "ones", "ones_like", "outer", "pairwise_distance", "permute", "pi", "pinverse",
    "pixel_shuffle", "pixel_unshuffle", "polar", "polygamma", "positive", "pow", "preempted", "prelu", "prod", "ptp",
    "put", "qr", "quantile", "rad2deg", "rand", "rand_like", "randint", "randint_like", "randn",
    "randn_like", "random", "randperm", "rank", "ravel", "real", "reciprocal", "recompute",
    "reduce_scatter", "relu", "remainder", "repeat_interleave", "reshape", "rms_norm", "roll", "rot90",
    "round", "row_stack", "rsqrt", "scalar_tensor", "scatter", "scatter_add", "scatter_reduce",
    "searchsorted", "select", "selu", "set_grad_enabled", "sgn", "short", "shutdown", "sigmoid", "sign",
    "signbit", "sin", "sinc", "sinh", "slogdet", "softmax", "sort", "spawn", "split", "sqrt", "square",
    "squeeze", "stack", "std", "std_mean", "sub", "subtract", "sum", "svd", "swapaxes", "swapdims", "t",
    "take", "take_along_dim", "tan", "tanh", "tensor", "tensor_split", "tensordot", "threshold", "tile",
    "topk", "trace", "track_memory", "transpose", "trapezoid", "trapz", "tree_flatten", "tree_leaves",
    "tree_map", "tree_unflatten", "tril", "tril_indices", "triu", "triu_indices", "true_divide", "trunc",
    "uint8", "uint16", "uint32", "uint64", "unbind", "unflatten", "unique", "unique_consecutive",
    "unsqueeze", "value_and_grad", "var", "var_mean", "vdot", "view_as_complex", "view_as_real", "vjp",
    "vsplit", "vstack", "watch_preemption", "where", "world_size", "xlog1py", "xlogy", "zeros", "zeros_like",
]
_PACKAGES = ("backend", "collectives", "errors", "launch", "mesh", "nn", "optim", "parallel", "tensor")
_MODULES = {  # of shardwise.tensor
    "autograd": "torch_autograd", "cuda": "cuda", "fft": "fft", "linalg": "linalg", "random": "random",
}
_HOMES = {  # what does not live in shardwise.tensor
    "shardwise.backend.constant": ("dtype", "e", "inf", "nan", "newaxis", "pi"),
    "shardwise.backend.device": ("device",),
    "shardwise.backend.dtypes": (
        "bfloat16", "bool", "cdouble", "cfloat", "complex64", "complex128", "double", "float", "float16",
        "float32", "float64", "half", "int", "int8", "int16", "int32", "int64", "long", "short", "uint8",
        "uint16", "uint32", "uint64",
    ),
    "shardwise.backend.errors": ("ShardwiseError",),
    "shardwise.backend.kind": ("finfo", "iinfo"),
    "shardwise.collectives": (
        "all_gather", "all_reduce", "barrier", "broadcast", "expect", "explain", "local_rank", "no_implicit",
        "preempted", "rank", "reduce_scatter", "shutdown", "watch_preemption", "world_size",
    ),
    "shardwise.launch": ("spawn",),
    "shardwise.mesh": ("DeviceMesh", "init_device_mesh"),
    "shardwise.nn.functional": (
        "adaptive_avg_pool1d", "avg_pool1d", "bilinear", "celu", "channel_shuffle", "conv1d", "conv2d",
        "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cosine_similarity",
        "hardshrink", "layer_norm", "max_pool1d", "max_pool2d", "max_pool3d", "pairwise_distance",
        "pixel_shuffle", "pixel_unshuffle", "prelu", "rms_norm", "selu", "threshold",
    ),
}
_KINDS = "write tensor(..., dtype=...)"
_SAVE = "write what state_dict() gives with safetensors, see docs/how-to/pytorch-weights.md, or pickle it"
_INSTEAD = {  # what scripts for PyTorch ask for and is not here, and what to do about it
    "FloatTensor": _KINDS, "DoubleTensor": _KINDS, "HalfTensor": _KINDS, "BFloat16Tensor": _KINDS,
    "LongTensor": _KINDS, "IntTensor": _KINDS, "ByteTensor": _KINDS, "BoolTensor": _KINDS,
    "Generator": "random numbers follow manual_seed(), and numpy.random.default_rng() is there",
    "Size": "a shape is a tuple",
    "amp": "autocast() is here; a GradScaler is not",
    "backends": "leave it out",
    "can_cast": "that is numpy.can_cast()",
    "compile": "leave it out",
    "cpu": "autocast() is here",
    "distributed": "that is shardwise.collectives",
    "func": "grad, value_and_grad, vjp, jvp, jacobian and hessian are here",
    "get_default_dtype": "it is float32",
    "jit": "leave it out",
    "load": _SAVE,
    "multiprocessing": "spawn() is here",
    "promote_types": "that is numpy.promote_types()",
    "result_type": "that is numpy.result_type()",
    "save": _SAVE,
    "set_default_dtype": "it is float32; give dtype=, or cast a module with double()",
    "set_default_device": "give device=",
    "set_float32_matmul_precision": "leave it out",
    "set_printoptions": "numpy.set_printoptions() sets how tensors are printed",
    "set_num_threads": "set OMP_NUM_THREADS, or use threadpoolctl; `shardwise run` gives each rank its cores",
    "special": "most of its functions are here, as erf() is",
    "utils": "batches are indexed arrays, and parallel.DistributedSampler says which rows are a rank's; "
             "torch.utils.checkpoint is recompute(), and to_dlpack a tensor's __dlpack__()",
    "vmap": "operations take batches in their first dims",
}
# fmt: on


# What is found becomes a global of this file: its code does without builtins like any() or max().
def __getattr__(name: str) -> object:
    if name in _PACKAGES:
        return importlib.import_module(f"shardwise.{name}")
    if name not in __all__:
        raise _missing(name)
    value: object
    if name in _MODULES:
        value = importlib.import_module(f"shardwise.tensor.{_MODULES[name]}")
    else:
        value = importlib.import_module(_home(name)).__dict__[name]
    globals()[name] = value
    return value


def _missing(name: str) -> AttributeError:
    message = f"module 'shardwise' has no attribute {name!r}"
    if name not in _INSTEAD:
        return AttributeError(message)
    # With a name and no object, so that Python adds no guess of its own.
    return AttributeError(f"{message}: {_INSTEAD[name]}", name=name)


def _home(name: str) -> str:
    """Return the module that a name is loaded from."""
    for home, names in _HOMES.items():
        if name in names:
            return home
    # A package's own names, not those of its files: shardwise.tensor.mode is one, and sw.mode a function.
    packages = ("shardwise.tensor", "shardwise.tensor.function_form")
    return packages[name not in importlib.import_module(packages[0]).__all__]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
