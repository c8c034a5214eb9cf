"""Floor 1: Tensor, Function, the tape and its backward engine."""

from shardwise.tensor import calling as calling  # makes the package itself callable
from shardwise.tensor import random
from shardwise.tensor.autograd import WeightGradients, backward, backward_inputs, grad
from shardwise.tensor.constant import empty, full, full_like, ones, ones_like, zeros, zeros_like
from shardwise.tensor.creation import (
    arange,
    as_tensor,
    from_numpy,
    tensor,
)
from shardwise.tensor.engine import GraphTask, current_task
from shardwise.tensor.function import Context, Function
from shardwise.tensor.gradcheck import gradcheck, gradgradcheck
from shardwise.tensor.handle import RemovableHandle
from shardwise.tensor.joining import cat, stack, where
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
from shardwise.tensor.sampling import bernoulli, rand, randint, randn, randperm
from shardwise.tensor.tensor import Tensor

__all__ = [
    "Context",
    "Function",
    "GraphTask",
    "RemovableHandle",
    "Tensor",
    "WeightGradients",
    "arange",
    "as_tensor",
    "backward",
    "backward_inputs",
    "bernoulli",
    "cat",
    "current_task",
    "detect_anomaly",
    "empty",
    "enable_grad",
    "from_numpy",
    "full",
    "full_like",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "initial_seed",
    "intercept",
    "is_grad_enabled",
    "manual_seed",
    "next_draw",
    "no_grad",
    "ones",
    "ones_like",
    "rand",
    "randint",
    "randn",
    "random",
    "randperm",
    "recompute",
    "row_window",
    "set_grad_enabled",
    "stack",
    "tensor",
    "where",
    "zeros",
    "zeros_like",
]
