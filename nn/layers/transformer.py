"""The transformer: stacks of layers, an encoder and a decoder."""

from __future__ import annotations

import copy

import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.backend.errors import ShapeError
from shardwise.nn import functional, init
from shardwise.nn.check import check_tensors
from shardwise.nn.container import ModuleList
from shardwise.nn.layers.norm import LayerNorm
from shardwise.nn.layers.transformer_layer import Activation, TransformerDecoderLayer, TransformerEncoderLayer
from shardwise.nn.module import Module
from shardwise.tensor import Tensor, full

__all__ = ["Transformer", "TransformerDecoder", "TransformerEncoder"]


class TransformerEncoder(Module):
    """Copies of an encoder layer, one after the other.

    Parameters
    ----------
    encoder_layer : Module
        Copied `num_layers` times, with its weights.
    num_layers : int
    norm : Module, optional
        Applied to the result.
    enable_nested_tensor, mask_check : bool
        Taken for PyTorch's sake; padding is always computed along.
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(encoder_layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Map a sequence to one of the same shape.

        `is_causal` says that `mask` is the causal one, which is faster; it is looked at if not said.
        """
        causal = _is_causal(mask) if is_causal is None else is_causal
        x = src
        for layer in self.layers:
            x = layer(x, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=causal)
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(Module):
    """Copies of a decoder layer, one after the other.

    Parameters
    ----------
    decoder_layer : Module
        Copied `num_layers` times, with its weights.
    num_layers : int
    norm : Module, optional
        Applied to the result.
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(decoder_layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Map a sequence and the encoder's output to a sequence of the first one's shape."""
        causal = _is_causal(tgt_mask) if tgt_is_causal is None else tgt_is_causal
        x = tgt
        for layer in self.layers:
            x = layer(
                x,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return x if self.norm is None else self.norm(x)


class Transformer(Module):
    """An encoder and a decoder that attends to it (Vaswani et al. 2017).

    Parameters
    ----------
    d_model, nhead : int
    num_encoder_layers, num_decoder_layers : int
    dim_feedforward, dropout, activation
        As for `TransformerEncoderLayer`.
    custom_encoder, custom_decoder : Module, optional
        Used instead.
    layer_norm_eps, batch_first, norm_first, bias
        As for `TransformerEncoderLayer`.
    device, dtype : optional

    Examples
    --------
    >>> import shardwise as sw
    >>> from shardwise import nn
    >>> model = nn.Transformer(16, 4, 1, 1, dim_feedforward=32, batch_first=True)
    >>> model(sw.randn(2, 7, 16), sw.randn(2, 5, 16), tgt_is_causal=True).shape
    (2, 5, 16)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = functional.relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        dtype = np.float32 if dtype is None else dtype

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        if custom_encoder is None:
            custom_encoder = TransformerEncoder(
                TransformerEncoderLayer(
                    d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
                    norm_first, bias, device, dtype,
                ),
                num_encoder_layers,
                norm(),
            )  # fmt: skip
        if custom_decoder is None:
            custom_decoder = TransformerDecoder(
                TransformerDecoderLayer(
                    d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
                    norm_first, bias, device, dtype,
                ),
                num_decoder_layers,
                norm(),
            )  # fmt: skip
        self.encoder = custom_encoder
        self.decoder = custom_decoder
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights for all matrices."""
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Map a source and a target sequence to one of the target's shape.

        Parameters
        ----------
        src, tgt : Tensor, shapes (s, batch, d_model) and (t, batch, d_model)
            (batch, s, d_model) and (batch, t, d_model) with `batch_first`; without the batch for one pair.
        src_mask, tgt_mask, memory_mask : Tensor, shapes (s, s), (t, t), (t, s), optional
            Pairs to leave out where True; numbers are added to the scores.
        src_key_padding_mask, tgt_key_padding_mask, memory_key_padding_mask : Tensor, optional
            Of shapes (batch, s), (batch, t), (batch, s): keys to leave out where True.
        src_is_causal, tgt_is_causal, memory_is_causal : bool, optional
            Say that a mask is the causal one, or ask for that without a mask.

        Returns
        -------
        Tensor, of the shape of `tgt`
        """
        check_tensors("Transformer", src=src, tgt=tgt)
        batch = 0 if self.batch_first else 1
        batches = [x.shape[batch] if x.ndim == 3 else 0 for x in (src, tgt)]
        if (
            src.ndim != tgt.ndim
            or batches[0] != batches[1]
            or {src.shape[-1], tgt.shape[-1]} != {self.d_model}
        ):
            raise ShapeError(
                f"Transformer needs src and tgt of one batch size and {self.d_model} features, got "
                f"{src.shape} and {tgt.shape} (batch_first={self.batch_first})"
            )
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        out: Tensor = self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )
        return out

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: str | None = None, dtype: DTypeLike | None = None
    ) -> Tensor:
        """Return the causal mask: 0 up to the diagonal and ``-inf`` above it, shape (sz, sz)."""
        dtype = np.float32 if dtype is None else dtype
        return full((sz, sz), -np.inf, dtype=dtype, device=device).triu(1)


def _is_causal(mask: Tensor | None) -> bool:
    """Tell whether a mask in host memory is the causal one; others are not waited for."""
    if mask is None or type(mask.data) is not np.ndarray or mask.ndim != 2 or mask.shape[0] != mask.shape[1]:
        return False
    hidden = mask.data if mask.dtype == np.bool_ else mask.data == -np.inf
    shown = np.tri(mask.shape[0], dtype=np.bool_)
    return bool(np.array_equal(hidden, ~shown) and (mask.dtype == np.bool_ or not np.any(mask.data[shown])))
