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
from shardwise.nn.layers.adaptive_pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
)
from shardwise.nn.layers.attention import MultiheadAttention
from shardwise.nn.layers.average_pooling import AvgPool1d, AvgPool2d, AvgPool3d, LPPool1d, LPPool2d, LPPool3d
from shardwise.nn.layers.convolution import Conv1d, Conv2d, Conv3d
from shardwise.nn.layers.convolution_transpose import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from shardwise.nn.layers.dropout import Dropout
from shardwise.nn.layers.embedding import Embedding, EmbeddingBag
from shardwise.nn.layers.gate import GLU, SwiGLU
from shardwise.nn.layers.linear import Bilinear, Linear
from shardwise.nn.layers.loss import CrossEntropyLoss, MSELoss
from shardwise.nn.layers.max_pooling import (
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
    MaxUnpool1d,
    MaxUnpool2d,
    MaxUnpool3d,
)
from shardwise.nn.layers.norm import LayerNorm
from shardwise.nn.layers.padding import (
    CircularPad1d,
    CircularPad2d,
    CircularPad3d,
    ConstantPad1d,
    ConstantPad2d,
    ConstantPad3d,
    ReflectionPad1d,
    ReflectionPad2d,
    ReflectionPad3d,
    ReplicationPad1d,
    ReplicationPad2d,
    ReplicationPad3d,
    ZeroPad1d,
    ZeroPad2d,
    ZeroPad3d,
)
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
from shardwise.nn.layers.window import Fold, Unfold
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
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "Bilinear",
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "EmbeddingBag",
    "Fold",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
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
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
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
    "Unfold",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
    "clip_grad_norm_",
    "clip_grad_value_",
    "functional",
    "init",
    "parameters_to_vector",
    "skip_init",
    "vector_to_parameters",
]
