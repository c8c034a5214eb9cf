"""Calls of the rearrangement ops, in float64, small enough for finite differences."""

from __future__ import annotations

import numpy as np

from cases.complex_number import make_complex
from cases.operand import Case, make
from shardwise.nn import functional as F
from shardwise.tensor import Tensor

__all__ = ["CASES"]

STRIDED = Tensor(np.random.default_rng(3).standard_normal((6, 4))[::-2, 1::2].T, True)
"""Of shape (2, 3); its elements lie apart, backwards and transposed in memory."""


CASES: dict[str, Case] = {
    "reshape": (lambda a: a.reshape(3, -1), (make(2, 6),)),
    "reshape strided": (lambda a: a.reshape(-1) * 2.0, (STRIDED,)),
    "reshape transposed": (lambda a: a.T.reshape(2, 6), (make(4, 3),)),
    "reshape to no dims": (lambda a: a.reshape(()), (make(1, 1),)),
    "reshape empty": (lambda a: a.reshape(4, 0), (make(0, 3),)),
    "view_as": (lambda a, b: a.view_as(b) * b + a.reshape_as(b), (make(2, 6), make(3, 4))),
    "flatten": (lambda a: a.flatten(1), (make(2, 3, 2),)),
    "flatten no dims": (lambda a: a.flatten(), (make(),)),
    "ravel strided": (lambda a: a.ravel(), (STRIDED,)),
    "unflatten": (lambda a: a.unflatten(-1, (2, -1)), (make(2, 6),)),
    "permute": (lambda a: a.permute(2, 0, 1), (make(2, 3, 4),)),
    "permute negative": (lambda a: a.permute((-1, 0, -2)), (make(2, 3, 4),)),
    "transpose": (lambda a: a.transpose(-1, 0), (make(2, 3, 4),)),
    "movedim": (lambda a: a.movedim(0, -1), (make(2, 3, 4),)),
    "movedim two": (lambda a: a.movedim((0, 2), (1, 0)), (make(2, 3, 4),)),
    "T": (lambda a: a.T * 2.0, (make(2, 3),)),
    "T itself": (lambda a: a.T * a, (make(3, 3),)),
    "t": (lambda a: a.t(), (make(2, 3),)),
    "mT mH": (lambda a: a.mT + a.mH, (make(2, 3, 4),)),
    "squeeze": (lambda a: a.squeeze(1).unsqueeze(-1), (make(2, 1, 3),)),
    "squeeze several": (lambda a: a.squeeze((0, -1, 1)), (make(1, 2, 1),)),
    "squeeze all": (lambda a: a.squeeze(), (make(1, 3, 1),)),
    "expand": (lambda a: a.expand(4, -1, 3), (make(2, 1),)),
    "expand no dims": (lambda a: a.expand(2, 3), (make(),)),
    "expand to nothing": (lambda a: a.expand(0, 2), (make(2),)),
    "expand_as": (lambda a, b: a.expand_as(b) * b, (make(3, 1), make(2, 3, 2))),
    "broadcast_to": (lambda a: a.broadcast_to((2, 3)), (make(3),)),
    "repeat": (lambda a: a.repeat(2, 1, 3), (make(2, 3),)),
    "repeat no times": (lambda a: a.repeat(0, 2), (make(2, 3),)),
    "repeat strided": (lambda a: a.repeat(1, 2), (STRIDED,)),
    "tile": (lambda a: a.tile(2), (make(2, 3),)),
    "tile no dims": (lambda a: a.tile((2, 2)), (make(),)),
    "repeat_interleave": (lambda a: a.repeat_interleave(2, 1), (make(2, 3),)),
    "repeat_interleave flat": (lambda a: a.repeat_interleave(3), (make(2, 2),)),
    "repeat_interleave each": (lambda a: a.repeat_interleave(np.array([2, 0, 1]), -1), (make(2, 3),)),
    "repeat_interleave empty": (lambda a: a.repeat_interleave(2, 0), (make(0, 3),)),
    "flip": (lambda a: a.flip(0, -1), (make(2, 3, 2),)),
    "flip strided": (lambda a: a.flip(1), (STRIDED,)),
    "fliplr flipud": (lambda a: a.fliplr() + a.flipud(), (make(2, 3),)),
    "roll": (lambda a: a.roll(2), (make(2, 3),)),
    "roll dims": (lambda a: a.roll((1, -2), (0, -1)), (make(2, 3),)),
    "roll no dims": (lambda a: a.roll(1), (make(),)),
    "rot90": (lambda a: a.rot90() + a.rot90(-1, (0, 1)), (make(2, 3),)),
    "rot90 twice": (lambda a: a.rot90(2, (0, 2)) + a.rot90(0), (make(2, 3, 2),)),
    "split": (lambda a: a.split(2, 1), (make(2, 5),)),
    "split sizes": (lambda a: a.split([1, 3], 0)[1], (make(4, 2),)),
    "split with an empty piece": (lambda a: a.split([0, 2, 0], -1), (make(3, 2),)),
    "chunk": (lambda a: a.chunk(2, -1)[0], (make(2, 5),)),
    "tensor_split": (lambda a: a.tensor_split(3, 1), (make(2, 5),)),
    "tensor_split at": (lambda a: a.tensor_split((1, -1, 9)), (make(4, 2),)),
    "tensor_split backwards": (lambda a: a.tensor_split((3, 1)), (make(4, 2),)),
    "hsplit vsplit": (lambda a: a.hsplit(2)[1] + a.vsplit([2])[0][:, :2], (make(2, 4),)),
    "unbind": (lambda a: a.unbind(1), (make(2, 3, 2),)),
    "unbind one dim": (lambda a: a.unbind()[1] * a.unbind(-1)[1], (make(3),)),
    "iterate": (lambda a: sum(row * row for row in a), (make(3, 2),)),
    "narrow": (lambda a: a.narrow(1, -3, 2), (make(2, 4),)),
    "select": (lambda a: a.select(-1, 1) * a.select(1, -1), (make(3, 2, 2),)),
    "diagonal": (lambda a: a.diagonal(), (make(3, 4),)),
    "diagonal above": (lambda a: a.diagonal(1, -1, 0), (make(3, 2, 4),)),
    "diagonal outside": (lambda a: a.diagonal(-7), (make(3, 4),)),
    "diag": (lambda a: a.diag(1), (make(3),)),
    "diag of a matrix": (lambda a: a.diag(-1), (make(3, 2),)),
    "diag_embed": (lambda a: a.diag_embed(-1, 0, 2), (make(2, 3),)),
    "diagflat": (lambda a: a.diagflat(1), (make(2, 2),)),
    "unfold windows": (lambda a: a.unfold(1, 3, 2), (make(2, 7),)),
    "unfold few windows": (lambda a: a.unfold(-2, 4, 1), (make(5, 2),)),
    "unfold apart": (lambda a: a.unfold(0, 1, 3), (make(7),)),
    "tril": (lambda a: a.tril(-1), (make(2, 3, 3),)),
    "triu": (lambda a: a.triu(1), (make(3, 4),)),
    "pad": (lambda a: F.pad(a, (1, 2, 0, 1)), (make(2, 3),)),
    "pad value": (lambda a: F.pad(a, (1, -1), value=3.0), (make(2, 3),)),
    "pad cut": (lambda a: F.pad(a, (-1, -1, 2, -1)), (make(2, 3),)),
    "pad reflect": (lambda a: F.pad(a, (2, 1, 1, 1), "reflect"), (make(2, 3),)),
    "pad replicate": (lambda a: F.pad(a, (3, 2, -1, 2), "replicate"), (make(2, 2),)),
    "pad circular": (lambda a: F.pad(a, (2, 1), "circular"), (make(2, 3),)),
    "complex mH and tile": (lambda a: a.mH.tile(2, 1), (make_complex(2, 3),)),
    "complex pad": (lambda a: F.pad(a, (1, 2), "reflect"), (make_complex(2, 3),)),
    "np.pad symmetric": (lambda a: np.pad(a, ((4, 3), (0, 2)), "symmetric"), (make(2, 3),)),
    "np.pad reflect far": (lambda a: np.pad(a, 5, "reflect"), (make(3),)),
    "np.pad wrap far": (lambda a: np.pad(a, (4, 3), mode="wrap"), (make(2),)),
}  # fmt: skip
