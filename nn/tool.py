"""What PyTorch has in ``torch.nn.utils``, under the name ``nn.utils``.

The functions are those of `shardwise.nn` itself; those for sequences are in ``nn.utils.rnn`` as well.
"""

from __future__ import annotations

from shardwise.nn import sequence as rnn
from shardwise.nn.clip import clip_grad_norm_, clip_grad_value_
from shardwise.nn.vector import parameters_to_vector, skip_init, vector_to_parameters

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "parameters_to_vector",
    "rnn",
    "skip_init",
    "vector_to_parameters",
]
