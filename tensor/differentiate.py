"""Gradients of functions of plain arrays: `value_and_grad`, `grad`, `vjp`, `jvp`.

The names and the order of results are those of JAX and ``torch.func``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, overload

import numpy as np

from shardwise.backend.errors import ArgumentError, AutogradError, DTypeError, ShapeError
from shardwise.tensor import autograd, torch_autograd
from shardwise.tensor.lifting import Argnums, Lifted
from shardwise.tensor.tensor import Tensor
from shardwise.tensor.torch_autograd import Gradients, Tensors
from shardwise.tensor.tree import Tree, tree_flatten, tree_unflatten

__all__ = ["grad", "jvp", "value_and_grad", "vjp"]


def value_and_grad(
    fn: Callable[..., Tree], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., tuple[Tree, Tree]]:
    """Return a function that gives the value of `fn` and its gradient.

    Parameters
    ----------
    fn : callable
        Returns one real number: a tensor with a single element. With `has_aux` a pair of that and
        anything else. It is called with tensors in place of the arrays that are differentiated;
        NumPy's functions and Shardwise's work on them.
    argnums : int or sequence of int, default 0
        Which positional arguments to differentiate. Others, and those given by keyword, are passed
        on as they are.
    has_aux : bool, default False
        The value is then ``(value, aux)``.

    Returns
    -------
    callable
        ``f(*args, **kwargs) -> (value, gradient)``. The gradient has the structure of the argument
        (a tuple of such for several `argnums`): arrays of the shapes, dtypes and devices of its
        arrays, zeros where the value does not depend on one, None for leaves without gradients
        (integers, booleans, strings, functions, None).

    Raises
    ------
    DTypeError
        An argument has no floating-point leaf, or the value is complex or an integer.
    ShapeError
        The value has not exactly one element.

    Notes
    -----
    Arguments are trees: arrays and numbers in lists, tuples, named tuples, dicts and dataclasses.
    Python floats count as float32 without dims. What ``float()`` and the functions of `math` make of
    a tensor is a constant, whose gradient is zero: write ``np.sin(x)`` for ``math.sin(x)``. For NumPy
    and CuPy arrays the results are such arrays, freshly made; for tensors they are tensors, which are
    on the tape if one of them is or if `fn` uses other tensors that require grad. Inside another
    transformation they are tensors, so that transformations nest.

    Gradients with respect to complex numbers are ``dL/dRe(z) + i dL/dIm(z)``, as PyTorch's, the
    direction of steepest ascent; JAX gives the conjugate.

    Examples
    --------
    >>> import numpy as np
    >>> import shardwise as sw
    >>> def loss(params, x, y):
    ...     return np.mean((x @ params["w"] + params["b"] - y) ** 2)
    >>> params = {"w": np.array([1.0, 2.0]), "b": np.array(0.5)}
    >>> x, y = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, 2.0])
    >>> value, gradient = value_and_grad(loss)(params, x, y)
    >>> float(value), gradient["w"], float(gradient["b"])
    (0.25, array([0.5, 0.5]), 1.0)
    """
    return _value_and_grad("value_and_grad", fn, argnums, has_aux)


@overload
def grad(fn: Callable[..., Tree], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Tree]: ...


@overload
def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Gradients | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    *,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]: ...


def grad(*args: Any, **kwargs: Any) -> Any:
    """Return the gradient of a function, or the gradients of tensors.

    ``grad(fn, argnums=0, has_aux=False)`` returns a function that gives the gradient of `fn`: the
    second result of `value_and_grad`, or ``(gradient, aux)``.

    ``grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True,
    allow_unused=None)`` returns the gradients of tensors with respect to others on their tape, as
    ``torch.autograd.grad`` does; see `shardwise.tensor.torch_autograd.grad`.

    Examples
    --------
    >>> import numpy as np
    >>> import shardwise as sw
    >>> slope = grad(lambda x: np.sin(x) * x)
    >>> print(f"{slope(0.0):.1f} {grad(slope)(0.0):.1f}")
    0.0 2.0
    >>> x = sw.tensor([1.0, 2.0], requires_grad=True)
    >>> grad((x * x).sum(), x)
    (tensor([2., 4.]),)
    """
    fn = args[0] if args else kwargs.get("fn")
    if callable(fn):
        return _grad(*args, **kwargs)
    return torch_autograd.grad(*args, **kwargs)


def _grad(fn: Callable[..., Tree], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Tree]:
    both = _value_and_grad("grad", fn, argnums, has_aux)

    @_wraps(fn)
    def gradient_of(*args: Tree, **kwargs: Tree) -> Tree:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return gradient_of


def _value_and_grad(
    name: str, fn: Callable[..., Tree], argnums: Argnums, has_aux: bool
) -> Callable[..., tuple[Tree, Tree]]:
    @_wraps(fn)
    def value_and_gradient_of(*args: Tree, **kwargs: Tree) -> tuple[Tree, Tree]:
        lifted = Lifted(name, args, argnums)
        value, aux = _parted(name, lifted.call(fn, kwargs), has_aux)
        _check_value(name, value)
        record = lifted.records([value])
        seed = value.wrap(np.ones_like(value.data)) if isinstance(value, Tensor) else None
        gradients = lifted.pull([value], [seed], record=record)
        gradient = lifted.assemble(lifted.own(gradients, record))
        value = lifted.lower(value, record)
        return ((value, lifted.lower(aux, record)) if has_aux else value), gradient

    return value_and_gradient_of


@overload
def vjp(fn: Callable[..., Tree], *primals: Tree) -> tuple[Tree, Callable[[Tree], tuple[Tree, ...]]]: ...


@overload
def vjp(
    fn: Callable[..., Tree], *primals: Tree, has_aux: bool
) -> tuple[Tree, Callable[[Tree], tuple[Tree, ...]], Tree]: ...


def vjp(fn: Callable[..., Tree], *primals: Tree, has_aux: bool = False) -> Any:
    """Return the value of `fn`, and a function that multiplies vectors by its Jacobian from the left.

    Parameters
    ----------
    fn : callable
        Returns a tree of tensors; with `has_aux` a pair of that and anything else.
    *primals : tree of arrays
        Its arguments, all differentiated; see `value_and_grad`.
    has_aux : bool, default False
        Return ``(value, vjp_fn, aux)``.

    Returns
    -------
    value : tree of arrays
    vjp_fn : callable
        ``vjp_fn(cotangents) -> tuple`` with one gradient per primal, of its structure. `cotangents`
        has the structure and shapes of `value`. It may be called again and again.

    Raises
    ------
    ArgumentError, ShapeError
        From `vjp_fn`: `cotangents` has another structure or other shapes than the value.

    Examples
    --------
    >>> import numpy as np
    >>> value, vjp_fn = vjp(lambda x: x**2, np.array([1.0, 2.0]))
    >>> value, vjp_fn(np.array([1.0, 10.0]))
    (array([1., 4.]), (array([ 2., 40.]),))
    """
    lifted = Lifted("vjp", primals, range(len(primals)))
    value, aux = _parted("vjp", lifted.call(fn, {}), has_aux)
    outputs, treedef = tree_flatten(value)
    record = lifted.records(outputs)

    def vjp_fn(cotangents: Tree) -> tuple[Tree, ...]:
        given = treedef.flatten_up_to(cotangents)
        seeds = [_like("vjp", "cotangent", *pair) for pair in zip(outputs, given, strict=True)]
        again = lifted.records(outputs, seeds)
        pulled = lifted.pull(outputs, seeds, retain=True, record=again)
        gradients: tuple[Tree, ...] = lifted.assemble(lifted.own(pulled, again, seeds))
        return gradients

    result = lifted.lower(value, record)
    return (result, vjp_fn, lifted.lower(aux, record)) if has_aux else (result, vjp_fn)


@overload
def jvp(fn: Callable[..., Tree], primals: Sequence[Tree], tangents: Sequence[Tree]) -> tuple[Tree, Tree]: ...


@overload
def jvp(
    fn: Callable[..., Tree], primals: Sequence[Tree], tangents: Sequence[Tree], has_aux: bool
) -> tuple[Tree, Tree, Tree]: ...


def jvp(
    fn: Callable[..., Tree], primals: Sequence[Tree], tangents: Sequence[Tree], has_aux: bool = False
) -> Any:
    """Return the value of `fn`, and its derivative in a direction: the Jacobian times a vector.

    Parameters
    ----------
    fn : callable
        Returns a tree of tensors; with `has_aux` a pair of that and anything else.
    primals : sequence of trees
        Its arguments, all differentiated; see `value_and_grad`.
    tangents : sequence of trees
        The direction: of the structure and shapes of `primals`, with anything (such as None) in the
        places of leaves without gradients.
    has_aux : bool, default False
        Return ``(value, derivative, aux)``.

    Returns
    -------
    value, derivative : tree of arrays
        Of one structure; the derivative is None for results that can have none, such as integers.

    Raises
    ------
    ArgumentError, ShapeError
        `tangents` has another structure or other shapes than `primals`.

    Notes
    -----
    Backward twice: the gradient ``u -> u J`` is linear in `u`, and its own gradient is ``J t``. That
    costs about as much as a backward of a backward, whatever the number of arguments.

    Examples
    --------
    >>> import numpy as np
    >>> jvp(lambda x, y: x * y, (np.array(2.0), np.array(3.0)), (np.array(1.0), np.array(10.0)))
    (array(6.), array(23.))
    """
    if len(primals) != len(tangents):
        raise ArgumentError(
            f"jvp: got {len(primals)} primals and {len(tangents)} tangents; give one for each"
        )
    lifted = Lifted("jvp", primals, range(len(primals)))
    given = lifted.select(tangents)
    directions = [_like("jvp", "tangent", *pair) for pair in zip(lifted.tensors, given, strict=True)]
    value, aux = _parted("jvp", lifted.call(fn, {}), has_aux)
    outputs, treedef = tree_flatten(value)
    record = lifted.records(outputs, directions)
    pushed = lifted.own(_pushed(lifted, outputs, directions, record), record, directions)
    result = lifted.lower(value, record), tree_unflatten(treedef, pushed)
    return (*result, lifted.lower(aux, record)) if has_aux else result


def _pushed(
    lifted: Lifted, outputs: Sequence[Tree], directions: Sequence[Tensor | None], record: bool
) -> list[Any]:
    """Return ``J t`` per output, through the gradient of ``u J`` with respect to `u`."""
    seeds = [
        each.wrap(np.zeros_like(each.data)).requires_grad_() if _differentiable(each) else None
        for each in outputs
    ]
    live = [seed for seed in seeds if seed is not None]
    pulled = lifted.pull(outputs, seeds, record=True)
    pairs = [(g, t) for g, t in zip(pulled, directions, strict=True) if g.requires_grad]
    found: dict[int, Any] = {}
    if pairs and live:
        gradients, along = zip(*pairs, strict=True)
        pushed = autograd.grad(gradients, live, along, record, record, allow_unused=True)
        found = {id(seed): each for seed, each in zip(live, pushed, strict=True)}
    results: list[Any] = []
    for output, seed in zip(outputs, seeds, strict=True):
        pushed_here = found.get(id(seed))
        if pushed_here is not None:
            results.append(pushed_here)
        else:
            results.append(np.zeros_like(output) if _inexact(output) else None)
    return results


def _differentiable(output: Tree) -> bool:
    return isinstance(output, Tensor) and _inexact(output)


def _inexact(output: Tree) -> bool:
    dtype = getattr(output, "dtype", None)
    return isinstance(output, (float, complex)) or (dtype is not None and dtype.kind in "fcV")


def _parted(name: str, result: Tree, has_aux: bool) -> tuple[Tree, Tree]:
    if not has_aux:
        return result, None
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise ArgumentError(
            f"{name}: with has_aux=True the function must return a pair (value, aux), and it returned "
            f"{type(result).__name__}"
        )
    return result[0], result[1]


def _check_value(name: str, value: Tree) -> None:
    """Refuse what has no gradient of 1."""
    what = f"{name}: the function must return one real floating-point number"
    if not isinstance(value, (Tensor, float, np.ndarray, np.generic)) and not hasattr(value, "dtype"):
        raise AutogradError(
            f"{what}, and it returned {type(value).__name__}; return a tensor, or use has_aux=True for "
            "more results"
        )
    shape: tuple[int, ...] = getattr(value, "shape", ())
    dtype = getattr(value, "dtype", np.dtype(np.float32))
    if any(n != 1 for n in shape):
        raise ShapeError(f"{what}, and it returned shape {shape}; reduce it with sum() or mean()")
    if dtype.kind not in "fV":
        raise DTypeError(f"{what}, and it returned {dtype}; take its .real part, or cast with astype()")


def _like(name: str, what: str, reference: Tree, value: Tree) -> Tensor | None:
    """Return a cotangent or tangent as a tensor of the dtype of what it belongs to."""
    if not _differentiable(reference):
        return None
    if value is None:
        raise ArgumentError(f"{name}: the {what} of a value of shape {reference.shape} is None; pass zeros")
    tensor = value if isinstance(value, Tensor) else reference.wrap(np.asarray(value, like=reference.data))
    if tensor.shape != reference.shape:
        raise ShapeError(
            f"{name}: the {what} of a value of shape {reference.shape} must have that shape, "
            f"got {tensor.shape}"
        )
    return tensor if tensor.dtype == reference.dtype else tensor.astype(reference.dtype)


def _wraps(fn: Callable[..., Tree]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Keep the name and docstring of `fn`, but not its annotations: other things go in and come out."""
    return wraps(fn, assigned=("__module__", "__name__", "__qualname__", "__doc__"), updated=())
