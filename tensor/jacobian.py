"""Whole matrices of derivatives: `jacobian` and `hessian`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from shardwise.backend.errors import DTypeError
from shardwise.tensor.lifting import Argnums, Lifted
from shardwise.tensor.tensor import Tensor
from shardwise.tensor.tree import Tree, tree_flatten, tree_unflatten

__all__ = ["hessian", "jacobian"]


def jacobian(fn: Callable[..., Tree], argnums: Argnums = 0) -> Callable[..., Tree]:
    """Return a function that gives all derivatives of `fn`, an output element at a time.

    Parameters
    ----------
    fn : callable
        Returns a tensor, or a tree of them, with real values.
    argnums : int or sequence of int, default 0
        Which positional arguments to differentiate; see `value_and_grad`.

    Returns
    -------
    callable
        ``f(*args, **kwargs) -> tree``. In the place of each output leaf stands a tree like the
        argument (a tuple of such for several `argnums`), whose arrays have the output's shape
        followed by the argument's.

    Raises
    ------
    DTypeError
        An output is complex.

    Notes
    -----
    One backward per output element. For few arguments and many outputs, `jvp` per argument
    element is cheaper.

    Examples
    --------
    >>> import numpy as np
    >>> a = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> jacobian(lambda x: a @ x)(np.array([5.0, 6.0]))
    array([[1., 2.],
           [3., 4.]])
    """

    def jacobian_of(*args: Tree, **kwargs: Tree) -> Tree:
        lifted = Lifted("jacobian", args, argnums)
        outputs, treedef = tree_flatten(lifted.call(fn, kwargs))
        record = lifted.records(outputs)
        blocks = [
            lifted.assemble(lifted.own(_rows(lifted, outputs, i, record), record))
            for i in range(len(outputs))
        ]
        return tree_unflatten(treedef, blocks)

    return jacobian_of


def hessian(fn: Callable[..., Tree], argnums: Argnums = 0) -> Callable[..., Tree]:
    """Return a function that gives all second derivatives of `fn`.

    Parameters
    ----------
    fn, argnums
        As for `jacobian`, of which this is the `jacobian`.

    Returns
    -------
    callable
        For one array in and one number out, an array of the shape of the argument, twice. For trees,
        a tree of trees: ``h["w"]["b"]`` is the derivative of the gradient of ``w`` with respect to ``b``.

    Notes
    -----
    One backward of a backward per element of the arguments. The product with a vector costs only one:
    ``jvp(grad(fn), (x,), (v,))``.

    Examples
    --------
    >>> import numpy as np
    >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([2.0, 3.0]))
    array([[6., 4.],
           [4., 0.]])
    """
    return jacobian(jacobian(fn, argnums), argnums)


def _rows(lifted: Lifted, outputs: list[Any], i: int, record: bool) -> list[Tensor]:
    """Return, per differentiated tensor, the derivatives of all elements of output `i`."""
    output = outputs[i]
    if not isinstance(output, Tensor):
        output = lifted.tensors[0].wrap(np.asarray(output, like=lifted.tensors[0].data))
    if output.dtype.kind == "c":
        raise DTypeError(
            f"jacobian: output {i} is {output.dtype}; return its .real and .imag parts, which have real "
            "derivatives"
        )
    size = output.numel()
    rows: list[list[Tensor]] = []
    for k in range(size if output.requires_grad else 0):
        seed = np.zeros_like(output.data)
        seed[np.unravel_index(k, output.shape)] = 1.0
        rows.append(lifted.pull([output], [output.wrap(seed)], retain=True, record=record))
    results: list[Tensor] = []
    for j, tensor in enumerate(lifted.tensors):
        shape = (*output.shape, *tensor.shape)
        if rows:
            results.append(_stacked([row[j] for row in rows]).reshape(shape))
        else:
            results.append(tensor.wrap(np.zeros_like(tensor.data, shape=shape)))
    return results


def _stacked(rows: list[Tensor]) -> Tensor:
    together: Any = rows  # NumPy's stub knows of no tensors
    stacked: Any = np.stack(together)
    result: Tensor = stacked
    return result
