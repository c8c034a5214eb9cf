"""Calls of linear algebra, in float64 and complex128, small enough for finite differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import shardwise as sw
from cases.operand import Case, make
from shardwise.tensor import Tensor, linalg
from shardwise.tensor.ops.determinant import Cofactor, CofactorSlope

__all__ = ["CASES", "make_complex"]


def make_complex(*shape: int, seed: int = 0) -> Tensor:
    """A complex128 tensor that requires grad."""
    parts = [make(*shape, seed=seed).data, make(*shape, seed=seed + 50).data]
    return sw.tensor(parts[0] + 1j * parts[1], requires_grad=True)


def adjoint(a: Any) -> Any:
    return np.conjugate(np.swapaxes(a, -1, -2))


def hermitian(a: Any) -> Any:
    return a + adjoint(a)


def positive(a: Any) -> Any:
    return a @ adjoint(a) + np.eye(a.shape[-1])


def rebuilt(u: Any, s: Any, vh: Any) -> Any:
    """A function of a matrix by its singular values: it does not depend on the vectors' phases."""
    return (u * np.expand_dims(np.exp(s), -2)) @ vh


def of_eigenvalues(values: Any, vectors: Any) -> Any:
    return (vectors * np.expand_dims(values * values, -2)) @ adjoint(vectors)


BOTH: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "inv": (linalg.inv, ((2, 3, 3),)),
    "inv one": (linalg.inv, ((1, 1),)),
    "solve": (linalg.solve, ((3, 3), (3, 2))),
    "solve batch": (linalg.solve, ((2, 1, 2, 2), (3, 2, 1))),
    "solve vector": (linalg.solve, ((3, 3), (3,))),
    "solve vectors": (linalg.solve, ((2, 3, 3), (2, 3))),
    "solve right": (lambda a, b: linalg.solve(a, b, left=False), ((3, 3), (2, 3))),
    "solve itself": (lambda a: linalg.solve(a, a @ a), ((2, 2),)),
    "solve_triangular upper": (lambda a, b: linalg.solve_triangular(a, b, upper=True), ((3, 3), (3, 2))),
    "solve_triangular lower": (lambda a, b: linalg.solve_triangular(a, b, upper=False), ((2, 2, 2), (2, 1))),
    "solve_triangular ones": (
        lambda a, b: linalg.solve_triangular(a, b, upper=False, left=False, unitriangular=True),
        ((3, 3), (2, 3)),
    ),
    "det": (linalg.det, ((2, 3, 3),)),
    "det singular": (lambda a: linalg.det(a[[0, 0, 1]]), ((2, 3),)),
    "det of rank one": (lambda a: linalg.det(a[[0, 0, 0]]), ((1, 3),)),
    "det of one element and of none": (lambda a, b: a.det() + b.det(), ((1, 1), (0, 0))),
    "cofactors": (Cofactor.apply, ((2, 3, 3),)),
    "slope of cofactors": (CofactorSlope.apply, ((3, 3), (3, 3))),
    "slogdet": (linalg.slogdet, ((2, 3, 3),)),
    "logdet": (lambda a: positive(a).logdet(), ((3, 3),)),
    "cholesky": (lambda a: linalg.cholesky(positive(a)), ((2, 3, 3),)),
    "cholesky upper": (lambda a: linalg.cholesky(positive(a), upper=True), ((2, 2),)),
    "cholesky_solve": (lambda a, b: b.cholesky_solve(positive(a).cholesky()), ((2, 2), (2, 3))),
    "cholesky_inverse": (lambda a: positive(a).cholesky(True).cholesky_inverse(True), ((2, 2),)),
    "qr tall": (linalg.qr, ((3, 2),)),
    "qr square": (linalg.qr, ((2, 3, 3),)),
    "qr wide": (lambda a: linalg.qr(a, "complete"), ((2, 4),)),
    "eigh": (lambda a: of_eigenvalues(*linalg.eigh(hermitian(a))), ((3, 3),)),
    "eigh values": (lambda a: linalg.eigh(hermitian(a), "U").eigenvalues, ((2, 2, 2),)),
    "eigh vectors": (lambda a: abs(linalg.eigh(hermitian(a)).eigenvectors), ((3, 3),)),
    "eigvalsh": (lambda a: linalg.eigvalsh(hermitian(a)), ((3, 3),)),
    "eig": (lambda a: abs(linalg.eig(a).eigenvectors), ((3, 3),)),
    "eigvals": (linalg.eigvals, ((2, 3, 3),)),
    "svd": (lambda a: rebuilt(*linalg.svd(a, False)), ((3, 3),)),
    "svd tall": (lambda a: rebuilt(*linalg.svd(a, False)), ((3, 2),)),
    "svd wide": (lambda a: rebuilt(*linalg.svd(a, False)), ((2, 2, 3),)),
    "svd values": (lambda a: linalg.svd(a).S, ((3, 2),)),
    "svd vectors": (lambda a: tuple(map(abs, linalg.svd(a, False)[::2])), ((2, 3),)),
    "svdvals": (linalg.svdvals, ((2, 3),)),
    "pinv tall": (linalg.pinv, ((3, 2),)),
    "pinv wide": (linalg.pinv, ((2, 2, 3),)),
    "pinv hermitian": (lambda a: linalg.pinv(hermitian(a), hermitian=True), ((2, 2),)),
    "pinv of rank one": (lambda a, b: linalg.pinv(a @ b, rtol=1e-6), ((3, 1), (1, 2))),
    "lstsq tall": (lambda a, b: linalg.lstsq(a, b).solution, ((3, 2), (3, 2))),
    "lstsq wide": (lambda a, b: linalg.lstsq(a, b).solution, ((2, 3), (2, 1))),
    "lstsq residuals": (lambda a, b: linalg.lstsq(a, b).residuals, ((3, 2), (3,))),
    "matrix_exp": (linalg.matrix_exp, ((2, 2, 2),)),
    "matrix_power": (lambda a: linalg.matrix_power(a, 3), ((2, 2),)),
    "matrix_power negative": (lambda a: linalg.matrix_power(a, -2), ((2, 2),)),
    "norm of a matrix": (linalg.norm, ((2, 3),)),
    "vector_norm": (lambda a: linalg.vector_norm(a, 3, dim=(0, 2), keepdim=True), ((2, 2, 2),)),
    "matrix_norm fro": (lambda a: linalg.matrix_norm(a, dim=(0, -1)), ((2, 2, 2),)),
    "matrix_norm nuc": (lambda a: linalg.matrix_norm(a, "nuc", keepdim=True), ((2, 2, 3),)),
    "matrix_norm 1": (lambda a: linalg.matrix_norm(a, 1), ((2, 3),)),
    "matrix_norm 2": (lambda a: linalg.matrix_norm(a, 2, dim=(2, 0)), ((2, 2, 3),)),
    "matrix_norm -2": (lambda a: linalg.matrix_norm(a, -2), ((3, 2),)),
    "matrix_norm -inf": (lambda a: linalg.matrix_norm(a, -math.inf, keepdim=True), ((2, 3),)),
    "cond": (linalg.cond, ((2, 2, 2),)),
    "cond fro": (lambda a: linalg.cond(a, "fro"), ((2, 2),)),
    "cross": (lambda a, b: linalg.cross(a, b, dim=0), ((3, 2), (3, 1))),
    "vecdot": (lambda a, b: linalg.vecdot(a, b, dim=0), ((3, 2), (3, 1))),
    "vander": (lambda a: linalg.vander(a, N=4), ((3,),)),
    "tensorinv": (linalg.tensorinv, ((2, 3, 6),)),
    "tensorsolve": (lambda a, b: linalg.tensorsolve(a, b, dims=(0,)), ((4, 2, 2), (2, 2))),
    "inv empty": (linalg.inv, ((0, 0),)),
    "svdvals empty": (linalg.svdvals, ((2, 0, 3),)),
    "matrix_exp empty": (linalg.matrix_exp, ((0, 2, 2),)),
    "inv strided": (lambda a: linalg.inv(a[::-1, ::2].T), ((2, 4),)),
}

CASES: dict[str, Case] = {
    f"{name}{kind}": (function, tuple(of(*shape, seed=i) for i, shape in enumerate(shapes)))
    for name, (function, shapes) in BOTH.items()
    for kind, of in (("", make), (" complex", make_complex))
}
