"""Floor 1: Tensor, Function, the tape and its backward engine."""

from shardwise.tensor import calling as calling  # makes the package itself callable
from shardwise.tensor import cuda, fft, function_form, linalg, random, torch_autograd
from shardwise.tensor.autocast import autocast
from shardwise.tensor.autograd import WeightGradients, backward, backward_inputs
from shardwise.tensor.complex import complex, polar, view_as_complex, view_as_real
from shardwise.tensor.constant import (
    empty,
    empty_like,
    full,
    full_like,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from shardwise.tensor.creation import (
    arange,
    as_tensor,
    asarray,
    eye,
    from_dlpack,
    from_numpy,
    linspace,
    logspace,
    scalar_tensor,
    tensor,
)
from shardwise.tensor.differentiate import grad, jvp, value_and_grad, vjp
from shardwise.tensor.distance import cdist
from shardwise.tensor.einsum import chain_matmul, einsum, tensordot
from shardwise.tensor.engine import GraphTask, current_task
from shardwise.tensor.function import Context, Function
from shardwise.tensor.gradcheck import gradcheck, gradgradcheck
from shardwise.tensor.handle import RemovableHandle
from shardwise.tensor.indices import tril_indices, triu_indices
from shardwise.tensor.inference import inference_mode
from shardwise.tensor.integration import cumulative_trapezoid, trapezoid, trapz
from shardwise.tensor.jacobian import hessian, jacobian
from shardwise.tensor.joining import (
    block_diag,
    cat,
    column_stack,
    concat,
    concatenate,
    dstack,
    hstack,
    row_stack,
    stack,
    vstack,
    where,
)
from shardwise.tensor.memory import MemoryStats, MemoryTrack, memory_stats, track_memory
from shardwise.tensor.meshing import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    broadcast_shapes,
    broadcast_tensors,
    cartesian_prod,
    combinations,
    meshgrid,
)
from shardwise.tensor.mode import (
    detect_anomaly,
    enable_grad,
    intercept,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from shardwise.tensor.random import initial_seed, manual_seed, next_draw, row_window
from shardwise.tensor.recompute import recompute
from shardwise.tensor.sampling import (
    bernoulli,
    multinomial,
    normal,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    randperm,
)
from shardwise.tensor.searching import bucketize, isin, searchsorted
from shardwise.tensor.tensor import Tensor
from shardwise.tensor.tree import tree_flatten, tree_leaves, tree_map, tree_unflatten

__all__ = [
    "Context",
    "Function",
    "GraphTask",
    "MemoryStats",
    "MemoryTrack",
    "RemovableHandle",
    "Tensor",
    "WeightGradients",
    "arange",
    "as_tensor",
    "asarray",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "autocast",
    "backward",
    "backward_inputs",
    "bernoulli",
    "block_diag",
    "broadcast_shapes",
    "broadcast_tensors",
    "bucketize",
    "cartesian_prod",
    "cat",
    "cdist",
    "chain_matmul",
    "column_stack",
    "combinations",
    "complex",
    "concat",
    "concatenate",
    "cuda",
    "cumulative_trapezoid",
    "current_task",
    "detect_anomaly",
    "dstack",
    "einsum",
    "empty",
    "empty_like",
    "enable_grad",
    "eye",
    "fft",
    "from_dlpack",
    "from_numpy",
    "full",
    "full_like",
    "function_form",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "hessian",
    "hstack",
    "inference_mode",
    "initial_seed",
    "intercept",
    "is_grad_enabled",
    "isin",
    "jacobian",
    "jvp",
    "linalg",
    "linspace",
    "logspace",
    "manual_seed",
    "memory_stats",
    "meshgrid",
    "multinomial",
    "next_draw",
    "no_grad",
    "normal",
    "ones",
    "ones_like",
    "polar",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "random",
    "randperm",
    "recompute",
    "row_stack",
    "row_window",
    "scalar_tensor",
    "searchsorted",
    "set_grad_enabled",
    "stack",
    "tensor",
    "tensordot",
    "torch_autograd",
    "track_memory",
    "trapezoid",
    "trapz",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_unflatten",
    "tril_indices",
    "triu_indices",
    "value_and_grad",
    "view_as_complex",
    "view_as_real",
    "vjp",
    "vstack",
    "where",
    "zeros",
    "zeros_like",
]
