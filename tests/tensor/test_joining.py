"""Tensors put together, against NumPy and SciPy."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
import scipy.linalg

import shardwise as sw
from shardwise.errors import ArgumentError, ShapeError
from shardwise.tensor import Tensor, indices, joining, meshing
from shardwise.tensor.signature import FlopCounter

RNG = np.random.default_rng(0)


def some(*shapes: tuple[int, ...]) -> tuple[list[np.ndarray], list[Tensor]]:
    arrays = [RNG.standard_normal(shape) for shape in shapes]
    return arrays, [sw.tensor(array) for array in arrays]


@pytest.mark.parametrize("name", ["hstack", "vstack", "dstack", "column_stack"])
@pytest.mark.parametrize("shapes", [[(3,), (3,)], [(2, 3), (2, 3)], [(), ()], [(2, 3, 2)] * 3, [(0,), (0,)]])
def test_stacks_as_numpy(name: str, shapes: list[tuple[int, ...]]) -> None:
    arrays, tensors = some(*shapes)
    np.testing.assert_array_equal(getattr(joining, name)(tensors).data, getattr(np, name)(arrays))


def test_cat() -> None:
    arrays, tensors = some((2, 3), (2, 1), (2, 0))
    for join in (joining.cat, joining.concat):
        np.testing.assert_array_equal(join(tensors, dim=-1).data, np.concatenate(arrays, -1))
    np.testing.assert_array_equal(joining.concatenate(tensors, axis=1).data, np.concatenate(arrays, 1))
    assert sw.cat([sw.tensor([]), tensors[0]]).shape == (2, 3)  # the start of a growing tensor, as in PyTorch
    assert sw.cat([sw.tensor([]), sw.tensor([])]).shape == (0,)
    assert sw.cat([sw.ones(2, dtype=ml_dtypes.bfloat16)] * 2).dtype == ml_dtypes.bfloat16
    assert sw.cat([sw.tensor([1]), sw.tensor([True])]).tolist() == [1, 1]
    with FlopCounter() as counter:
        sw.cat(sw.arange(3000).split(1))
        sw.cat([sw.zeros(n) for n in range(1, 70)])  # more sizes than there are letters
    assert counter.by_op["Cat"]
    for wrong, message in (
        ([], "cat needs at least one tensor"),
        ([sw.zeros(2, 3), sw.zeros(3, 3, 1)], "cat: shapes (2, 3) and (3, 3, 1) differ in other dims than 0"),
        ([sw.zeros(2, 3), sw.zeros(2, 4)], "cat: shapes (2, 3) and (2, 4) differ in other dims than 0"),
        ([sw.zeros(()), sw.zeros(())], "cat: tensors without dims have none to be joined along; use stack()"),
    ):
        with pytest.raises(ShapeError) as caught:
            sw.cat(wrong)
        assert str(caught.value) == message
    with pytest.raises(ShapeError, match="cat: there is no dim 2 among 2"):
        sw.cat(tensors, 2)
    with pytest.raises(ShapeError, match=r"stack: shapes \(2, 3\) and \(2, 1\) differ; wanted one shape"):
        sw.stack(tensors)
    with pytest.raises(ShapeError, match="stack: there is no dim 3 among 3"):
        sw.stack(tensors[:1], 3)


def test_block_diag() -> None:
    arrays, tensors = some((2, 3), (2,), (), (0, 2))
    np.testing.assert_array_equal(joining.block_diag(*tensors).data, scipy.linalg.block_diag(*arrays))
    with pytest.raises(ShapeError, match=r"at most two dims, got the shapes \[\(1, 1, 1\)\]"):
        joining.block_diag(sw.zeros(1, 1, 1))


@pytest.mark.parametrize("indexing", ["ij", "xy"])
@pytest.mark.parametrize("shapes", [[(2,)], [(2,), (3,)], [(2,), (), (4,)], [(0,), (3,)]])
def test_meshgrid(indexing: str, shapes: list[tuple[int, ...]]) -> None:
    arrays, tensors = some(*shapes)
    for ours, theirs in zip(
        meshing.meshgrid(*tensors, indexing=indexing),  # type: ignore[arg-type]
        np.meshgrid(*arrays, indexing=indexing),  # type: ignore[call-overload]
        strict=True,
    ):
        np.testing.assert_array_equal(ours.data, theirs)


def test_products_and_combinations() -> None:
    arrays, tensors = some((2,), (3,), (2,))
    np.testing.assert_array_equal(meshing.cartesian_prod(*tensors).data, list(itertools.product(*arrays)))
    assert meshing.cartesian_prod(tensors[0]).shape == (2,)
    pool = sw.tensor([5.0, 7.0, 9.0])
    for r in (1, 2, 3):
        np.testing.assert_array_equal(
            meshing.combinations(pool, r).data, list(itertools.combinations(pool.tolist(), r))
        )
    repeated = meshing.combinations(pool, with_replacement=True)
    assert repeated.tolist() == [list(c) for c in itertools.combinations_with_replacement([5.0, 7.0, 9.0], 2)]
    assert meshing.combinations(pool, 4).shape == (0, 4)


def test_to_one_shape() -> None:
    a, b = sw.zeros(2, 1), sw.zeros(3)
    assert [t.shape for t in meshing.broadcast_tensors(a, b)] == [(2, 3), (2, 3)]
    assert meshing.broadcast_shapes((2, 1), 3, (1, 1)) == (2, 3)
    assert meshing.atleast_3d(b).shape == (1, 3, 1)
    assert meshing.atleast_2d(sw.tensor(1.0)).shape == (1, 1)
    assert [t.shape for t in meshing.atleast_1d(sw.tensor(1.0), a)] == [(1,), (2, 1)]
    assert [t.shape for t in meshing.atleast_3d([a, b])] == [(2, 1, 1), (1, 3, 1)]
    with pytest.raises(
        ShapeError, match=r"broadcast_shapes: shapes \(2,\) and \(3,\) do not broadcast together"
    ):
        meshing.broadcast_shapes(2, 3)
    with pytest.raises(ArgumentError, match="meshgrid: indexing must be 'ij' or 'xy', got 'yx'"):
        meshing.meshgrid(b, indexing="yx")  # type: ignore[arg-type]


@pytest.mark.parametrize("offset", [-3, -1, 0, 2, 9])
def test_triangles(offset: int) -> None:
    np.testing.assert_array_equal(indices.tril_indices(3, 4, offset).data, np.tril_indices(3, offset, 4))
    np.testing.assert_array_equal(indices.triu_indices(3, 4, offset).data, np.triu_indices(3, offset, 4))
    assert indices.tril_indices(2, 2, dtype=np.int32).dtype == np.int32
