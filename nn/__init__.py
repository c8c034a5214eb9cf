"""Floor 3: modules, layers, their functional forms, initialisation, clipping."""

from shardwise.nn import functional, init
from shardwise.nn.clip import clip_grad_norm_
from shardwise.nn.container import ModuleList, Sequential
from shardwise.nn.layer import (
    GELU,
    CrossEntropyLoss,
    Dropout,
    Embedding,
    LayerNorm,
    Linear,
    MSELoss,
    ReLU,
)
from shardwise.nn.module import Module
from shardwise.nn.parameter import Parameter

__all__ = [
    "GELU",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "LayerNorm",
    "Linear",
    "MSELoss",
    "Module",
    "ModuleList",
    "Parameter",
    "ReLU",
    "Sequential",
    "clip_grad_norm_",
    "functional",
    "init",
]
