"""Calls of the linear ops, in float64, small enough for finite differences."""

from __future__ import annotations

import shardwise as sw
from cases.linalg import make_complex
from cases.operand import Case, make
from shardwise.nn import functional as F
from shardwise.tensor.einsum import chain_matmul, einsum, tensordot

__all__ = ["CASES"]

CASES: dict[str, Case] = {
    "matmul": (lambda a, b: a @ b, (make(2, 3), make(3, 4))),
    "matmul many rows": (lambda a, b: a @ b, (make(2, 2, 3), make(3, 4))),
    "matmul batch": (lambda a, b: a @ b, (make(2, 1, 2, 3), make(4, 3, 2))),
    "matmul one matrix, many": (lambda a, b: a @ b, (make(2, 3), make(4, 3, 2))),
    "matmul vector": (lambda a, b: a @ b, (make(3), make(3, 4))),
    "matmul to vector": (lambda a, b: a @ b, (make(2, 4, 3), make(3))),
    "matmul vector to many": (lambda a, b: a @ b, (make(3), make(2, 3, 4))),
    "matmul outer": (lambda a, b: a @ b, (make(3, 1), make(2, 1, 4))),
    "matmul empty": (lambda a, b: a @ b, (make(2, 0), make(0, 3))),
    "matmul itself": (lambda a: a @ a @ a.T, (make(3, 3),)),
    "matmul strided": (lambda a, b: a.T[::-1] @ b[:, ::2], (make(3, 2), make(3, 4))),
    "dot": (lambda a, b: a @ b, (make(3), make(3, seed=1))),
    "linear": (F.linear, (make(2, 3, 4), make(5, 4), make(5))),
    "mm": (lambda a, b: a.mm(b), (make(2, 3), make(3, 4))),
    "bmm": (lambda a, b: a.bmm(b), (make(2, 2, 3), make(2, 3, 1))),
    "vdot": (lambda a, b: a.vdot(b), (make(3), make(3, seed=1))),
    "inner": (lambda a, b: a.inner(b), (make(2, 3), make(4, 3))),
    "outer": (lambda a, b: a.outer(b), (make(2), make(3))),
    "kron": (lambda a, b: a.kron(b), (make(2, 3), make(2))),
    "kron itself": (lambda a: a.kron(a), (make(2, 1),)),
    "addmm": (lambda c, a, b: c.addmm(a, b, beta=2.0, alpha=-0.5), (make(4), make(2, 3), make(3, 4))),
    "addbmm": (lambda c, a, b: c.addbmm(a, b), (make(2, 2), make(3, 2, 3), make(3, 3, 2))),
    "einsum": (lambda a, b: einsum("ij,jk->ik", a, b), (make(2, 3), make(3, 4))),
    "einsum swapped": (lambda a, b: einsum("ij,jk->ki", a, b), (make(2, 3), make(3, 4))),
    "einsum batch": (lambda a, b: einsum("bqhd,bkhd->bhqk", a, b), (make(2, 3, 1, 2), make(2, 2, 1, 2))),
    "einsum ellipsis": (lambda a, b: einsum("...ij,jk", a, b), (make(2, 2, 3), make(3, 2))),
    "einsum broadcast": (lambda a, b: einsum("ij,ij->j", a, b), (make(1, 3), make(2, 3))),
    "einsum summed alone": (lambda a, b: einsum("ij,kj->k", a, b), (make(2, 3), make(2, 3, seed=1))),
    "einsum diagonal": (lambda a: einsum("iji->ij", a), (make(2, 3, 2),)),
    "einsum trace": (lambda a: einsum("ii", a), (make(3, 3),)),
    "einsum permuted": (lambda a: einsum("ijk->kij", a), (make(2, 3, 2),)),
    "einsum products": (lambda a, b: einsum("ij,j->ij", a, b), (make(2, 3), make(3))),
    "einsum three": (lambda a, b, c: einsum("ij,jk,k->i", a, b, c), (make(2, 3), make(3, 2), make(2))),
    "einsum itself": (lambda a: einsum("ij,kj->ik", a, a), (make(2, 3),)),
    "einsum empty": (lambda a, b: einsum("ij,jk->ik", a, b), (make(2, 0), make(0, 3))),
    "einsum zero-dimensional": (lambda a, b: einsum(",i->i", a, b), (make(), make(3))),
    "tensordot": (lambda a, b: tensordot(a, b, ([0, 2], [1, 0])), (make(2, 2, 3), make(3, 2, 2))),
    "tensordot outer": (lambda a, b: tensordot(a, b, 0), (make(2), make(2, 2))),
    "chain_matmul": (chain_matmul, (make(2, 3), make(3, 1), make(1, 4))),
    "matmul complex": (lambda a, b: a @ b, (make_complex(2, 1, 2, 3), make_complex(4, 3, 2))),
    "matmul complex and real": (lambda a, b: a @ b, (make_complex(2, 2, 3), make(3, 2))),
    "matmul real and complex": (lambda a, b: a @ b, (make(2, 3), make_complex(2, 3, 2))),
    "matmul complex vector": (lambda a, b: a @ b, (make_complex(2, 3), make_complex(3))),
    "linear complex": (F.linear, (make_complex(2, 3), make_complex(2, 3, seed=1), make_complex(2))),
    "einsum complex": (lambda a, b: einsum("ij,jk,kk->i", a, b, b.T @ b), (make_complex(2, 3), make(3, 2))),
    "vdot complex": (lambda a, b: a.vdot(b), (make_complex(3), make_complex(3, seed=1))),
    "kron complex": (lambda a, b: a.kron(b), (make_complex(2, 1), make_complex(2))),
    "addmm complex": (
        lambda c, a, b: c.addmm(a, b, beta=2.0j, alpha=0.5),
        (make(2), make_complex(2, 2), make_complex(2, 2, seed=1)),
    ),
    "einsum a constant": (lambda a: einsum("ij,jk->ik", sw.tensor([[1.0, 2.0]]), a), (make(2, 2),)),
}  # fmt: skip
