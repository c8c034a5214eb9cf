"""Layers that drop at random."""

from __future__ import annotations

from shardwise.nn import functional
from shardwise.nn.functions.dropout import check_probability
from shardwise.nn.module import Module
from shardwise.tensor import Tensor

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _Dropping(Module):
    """What all of them have."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        check_probability(type(self).__name__, "p", p)
        self.p, self.inplace = p, inplace

    def extra_repr(self) -> str:
        """Show the settings."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropping):
    """Drop elements at random while training; see `functional.dropout`."""

    def forward(self, input: Tensor) -> Tensor:
        """Drop, or pass on outside training."""
        return functional.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_Dropping):
    """Drop channels of (n, channels, length) while training; see `functional.dropout1d`."""

    def forward(self, input: Tensor) -> Tensor:
        """Drop, or pass on outside training."""
        return functional.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_Dropping):
    """Drop channels of images while training; see `functional.dropout2d`."""

    def forward(self, input: Tensor) -> Tensor:
        """Drop, or pass on outside training."""
        return functional.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_Dropping):
    """Drop channels of volumes while training; see `functional.dropout3d`."""

    def forward(self, input: Tensor) -> Tensor:
        """Drop, or pass on outside training."""
        return functional.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_Dropping):
    """Drop elements to the limit of SELU while training; see `functional.alpha_dropout`."""

    def forward(self, input: Tensor) -> Tensor:
        """Drop, or pass on outside training."""
        return functional.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_Dropping):
    """Drop channels to the limit of SELU while training; see `functional.feature_alpha_dropout`."""

    def forward(self, input: Tensor) -> Tensor:
        """Drop, or pass on outside training."""
        return functional.feature_alpha_dropout(input, self.p, self.training, self.inplace)
