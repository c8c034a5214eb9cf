"""Floor 3: modules, layers, their functional forms, initialisation, clipping."""

from shardwise.nn import functional, init
from shardwise.nn.clip import clip_grad_norm_, clip_grad_value_
from shardwise.nn.container import ModuleList, Sequential
from shardwise.nn.layers.activation import GELU, ReLU
from shardwise.nn.layers.dropout import Dropout
from shardwise.nn.layers.linear import Embedding, Linear
from shardwise.nn.layers.loss import CrossEntropyLoss, MSELoss
from shardwise.nn.layers.norm import LayerNorm
from shardwise.nn.mapping import ModuleDict, ParameterDict, ParameterList
from shardwise.nn.module import Module
from shardwise.nn.parameter import Parameter
from shardwise.nn.vector import parameters_to_vector, skip_init, vector_to_parameters

__all__ = [
    "GELU",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "LayerNorm",
    "Linear",
    "MSELoss",
    "Module",
    "ModuleDict",
    "ModuleList",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "ReLU",
    "Sequential",
    "clip_grad_norm_",
    "clip_grad_value_",
    "functional",
    "init",
    "parameters_to_vector",
    "skip_init",
    "vector_to_parameters",
]
