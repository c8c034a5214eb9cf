"""Floor 3: modules, layers, their functional forms, initialisation, clipping."""

from shardwise.nn import functional, init
from shardwise.nn.clip import clip_grad_norm_, clip_grad_value_
from shardwise.nn.container import ModuleList, Sequential
from shardwise.nn.layers.activation import (
    GELU,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    LogSigmoid,
    Mish,
    Sigmoid,
    SiLU,
    Softplus,
    Softshrink,
    Softsign,
    Tanh,
    Tanhshrink,
)
from shardwise.nn.layers.attention import MultiheadAttention
from shardwise.nn.layers.dropout import Dropout
from shardwise.nn.layers.embedding import Embedding, EmbeddingBag
from shardwise.nn.layers.gate import GLU, SwiGLU
from shardwise.nn.layers.linear import Bilinear, Linear
from shardwise.nn.layers.loss import CrossEntropyLoss, MSELoss
from shardwise.nn.layers.norm import LayerNorm
from shardwise.nn.layers.rectifier import (
    CELU,
    ELU,
    SELU,
    Hardtanh,
    LeakyReLU,
    PReLU,
    ReLU,
    ReLU6,
    RReLU,
    Threshold,
)
from shardwise.nn.layers.softmax import LogSoftmax, Softmax, Softmax2d, Softmin
from shardwise.nn.layers.transformer import Transformer, TransformerDecoder, TransformerEncoder
from shardwise.nn.layers.transformer_layer import TransformerDecoderLayer, TransformerEncoderLayer
from shardwise.nn.mapping import ModuleDict, ParameterDict, ParameterList
from shardwise.nn.module import Module
from shardwise.nn.parameter import Parameter
from shardwise.nn.vector import parameters_to_vector, skip_init, vector_to_parameters

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Bilinear",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "EmbeddingBag",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "Mish",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiheadAttention",
    "PReLU",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "RReLU",
    "ReLU",
    "ReLU6",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "SwiGLU",
    "Tanh",
    "Tanhshrink",
    "Threshold",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "clip_grad_norm_",
    "clip_grad_value_",
    "functional",
    "init",
    "parameters_to_vector",
    "skip_init",
    "vector_to_parameters",
]
