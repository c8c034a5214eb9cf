"""The door of sharded tensors: find the strategy of an op, move what lies otherwise, run it on the parts."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np

from shardwise.backend.errors import LayoutError
from shardwise.dtensor.boundary import Boundary, FromLocal, cross
from shardwise.dtensor.gradient import spread
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.move import moved
from shardwise.dtensor.policy import replicates_tensors
from shardwise.dtensor.rule.table import COMPOSITIONS
from shardwise.dtensor.sharded_array import ShardedArray
from shardwise.dtensor.strategy import Strategy, make_strategy
from shardwise.tensor.diagnosis import check_finite
from shardwise.tensor.function import Context, Function
from shardwise.tensor.mode import Mode, current_mode
from shardwise.tensor.narrow import forward_wide, is_narrow
from shardwise.tensor.signature import Part
from shardwise.tensor.tape import Node, annotate, record, record_many
from shardwise.tensor.tensor import Tensor

__all__ = ["dispatch"]

_MOST = 8192  # strategies that are remembered
_remembered: dict[Any, Strategy | None] = {}


class _Unknown:
    """What is said of an op that was not met yet."""


_UNKNOWN = _Unknown()


def dispatch(function: type[Function], args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Run an op on arguments some of which are DTensors.

    Parameters
    ----------
    function : Function class
    args : tuple
        DTensors, numbers, None; tensors and arrays are refused, unless a policy says that they are replicas.
    params : dict
    """
    mode = current_mode()
    layouts: list[Layout | None] = []
    key: list[Any] = [function]
    needs: list[bool] = []
    for arg in args:
        data = getattr(arg, "data", None)
        if type(data) is ShardedArray:
            layouts.append(data.layout)
            key.append(data.layout)
            needs.append(arg.requires_grad)
        elif type(arg) is ShardedArray:  # a constant of some formula
            return dispatch(
                function,
                tuple([ShardedArray.tensor_class(a) if type(a) is ShardedArray else a for a in args]),
                params,
            )
        elif data is None or not hasattr(arg, "dtype"):
            layouts.append(None)
            key.append(arg.__class__)
            needs.append(False)
        else:
            return dispatch(function, _admitted(function, args), params)
    if issubclass(function, Boundary):
        return cross(function, args[0], **params)
    tracked = mode.grad and True in needs
    key.append(tracked)
    if params:
        params = {name: _held(value) for name, value in params.items()}
        key.append(_frozen(params))
    known = tuple(key)
    try:
        found = _remembered.get(known, _UNKNOWN)
    except TypeError:  # an array among the parameters: nothing that could be looked up
        strategy = _found(function, args, layouts, params, tracked)
    else:
        if isinstance(found, _Unknown):
            if len(_remembered) >= _MOST:
                _remembered.clear()
            found = _remembered[known] = _found(function, args, layouts, params, tracked)
        strategy = found
    if strategy is None:
        composition: Any = COMPOSITIONS.get(function, function.decompose)
        return composition(*args, **params)
    return _run(strategy, args, params, needs, tracked, mode)


def _found(
    function: type[Function],
    args: tuple[Any, ...],
    layouts: Sequence[Layout | None],
    params: dict[str, Any],
    tracked: bool,
) -> Strategy | None:
    """Return the strategy of an op; None where it is better made of others."""
    strategy = make_strategy(function, args, layouts, params, tracked)
    if (function in COMPOSITIONS or function.decompose is not None) and _gathers(strategy, layouts):
        return None
    return strategy


def _gathers(strategy: Strategy, layouts: Sequence[Layout | None]) -> bool:
    """Tell whether a strategy gives up a sharding of an input."""
    for i in strategy.moves:
        before, after = layouts[i], strategy.inputs[i]
        assert before is not None
        assert after is not None
        if any(
            b.is_shard() and not a.is_shard()
            for b, a in zip(before.placements, after.placements, strict=True)
        ):
            return True
    return False


def _run(
    strategy: Strategy,
    args: tuple[Any, ...],
    params: dict[str, Any],
    needs: list[bool],
    tracked: bool,
    mode: Mode,
) -> Any:
    function = strategy.function
    locals_ = [
        arg.data.local if layout is not None else arg
        for arg, layout in zip(args, strategy.inputs, strict=True)
    ]
    for i in strategy.moves:
        layout = strategy.inputs[i]
        assert layout is not None
        locals_[i] = moved(args[i].data, layout).local
    given = params
    if function.localize is not None and strategy.is_cut:
        given = _localized(strategy, params)
    ctx: Context = Node(tuple(needs)) if tracked else Context((False,) * len(args))
    timer = mode.timer
    start = 0.0 if timer is None else perf_counter()
    if any(map(is_narrow, locals_)) and not (function.exact or function.view):
        result = forward_wide(function, ctx, locals_, given)
    else:
        result = function.forward(ctx, *locals_, **given)
    if timer is not None:
        timer.forward(function, start)
    results: Any = result if type(result) is tuple else (result,)
    results = [np.asarray(each) if isinstance(each, np.generic) else each for each in results]
    layouts = strategy.outputs
    if layouts is None:  # replicas, whose shape the data told
        mesh = next(layout.mesh for layout in strategy.inputs if layout is not None)
        layouts = tuple([Layout(mesh, ("R",) * mesh.ndim, each.shape, each.dtype) for each in results])
    kind = ShardedArray.tensor_class
    outs = tuple([kind(ShardedArray(each, layout)) for each, layout in zip(results, layouts, strict=True)])
    if mode.anomaly:
        check_finite(function, results, locals_)
    if isinstance(ctx, Node):
        _recorded(ctx, strategy, args, params, locals_, results, outs, mode)
    if function.view and isinstance(args[0], Tensor) and 0 not in strategy.moves:
        for out, each in zip(outs, results, strict=True):
            if type(each) is not np.ndarray or np.may_share_memory(each, locals_[0]):
                out.look_at(args[0])
    return outs if type(result) is tuple else outs[0]


def _recorded(
    node: Node,
    strategy: Strategy,
    args: tuple[Any, ...],
    params: dict[str, Any],
    locals_: list[Any],
    results: Sequence[Any],
    outs: tuple[Any, ...],
    mode: Mode,
) -> None:
    """Put an op on the tape."""
    node._strategy = strategy
    node._cotangents = strategy.cotangents or tuple([out.data.layout for out in outs])
    node._shapes = tuple([getattr(each, "shape", ()) for each in locals_])
    node._given = tuple([None if isinstance(arg, Tensor) else arg for arg in args])
    node._params = params
    if len(outs) == 1:
        record(node, spread(strategy.function), args, outs[0])
    else:
        saved, node.saved = node.saved, ()
        record_many(node, spread(strategy.function), args, (), outs)
        node.saved = saved
    origins: list[int | None] = []
    versions: list[Any] = []
    for array in node.saved:
        origin = owner = None
        if array is not None:
            for i, each in enumerate(locals_):
                if each is array:
                    origin, owner = i, _owner(args[i], each)
                    break
            else:
                for i, each in enumerate(results):
                    if each is array:
                        origin, owner = -1 - i, outs[i]
                        break
        origins.append(origin)
        version = getattr(owner, "version", None)
        versions.append(None if version is None else (version, version.count))
    node._origins, node._versions = tuple(origins), tuple(versions)
    if mode.watched:
        annotate(node, mode)


def _owner(arg: Any, local: Any) -> Any:
    """Return the tensor in whose memory `local` lies: not where it is a copy, laid out otherwise."""
    given = getattr(arg, "data", None)
    if type(given) is not ShardedArray or local is given.local:
        return arg
    return arg if isinstance(local, np.ndarray) and np.may_share_memory(local, given.local) else None


def _localized(strategy: Strategy, params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of an op for this rank's parts."""
    localize: Any = strategy.function.localize
    mesh = next(layout.mesh for layout in strategy.inputs if layout is not None)
    here = mesh.get_coordinate() or ()

    def part(layout: Layout | None) -> Part | None:
        return None if layout is None else Part(*layout.box(here), layout.shape)

    found: dict[str, Any] = localize(
        params, tuple(map(part, strategy.inputs)), tuple(map(part, strategy.outputs or ()))
    )
    return found


def _admitted(function: type[Function], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments with tensors and arrays as replicas, where that is right; else refuse them."""
    like = next(arg for arg in args if type(getattr(arg, "data", None)) is ShardedArray).data.layout
    admitted = []
    for i, arg in enumerate(args):
        data = getattr(arg, "data", None)
        if type(data) is ShardedArray or data is None or not hasattr(arg, "dtype"):
            admitted.append(arg)
            continue
        tensor = (
            arg
            if isinstance(arg, Tensor)
            else Tensor(np.asarray(arg) if isinstance(arg, np.generic) else arg)
        )
        if tensor.data.size != 1 and not replicates_tensors():
            kind = "Tensor" if isinstance(arg, Tensor) else "array"
            raise LayoutError(
                f"{function.__name__}: input {i} is a {kind} of shape {tensor.shape}, and others are "
                f"DTensors on {like.mesh!r}. If all ranks hold the same there, write distribute_tensor(x, "
                "mesh, [Replicate()], src_data_rank=None), or wrap the code in "
                "`with dtensor.implicit_replication():`"
            )
        whole = Layout(like.mesh, ("R",) * like.mesh.ndim, tensor.shape, tensor.dtype)
        admitted.append(cross(FromLocal, tensor, layout=whole))
    return tuple(admitted)


def _held(value: Any) -> Any:
    """Return a parameter with the wholes of sharded arrays in it, as an index may be."""
    if type(value) is ShardedArray:
        return moved(value, value.layout.replicated()).local
    if type(value) is tuple or type(value) is list:
        return type(value)([_held(each) for each in value])
    return value


def _frozen(value: Any) -> Any:
    """Return a parameter as something that hashes by value."""
    kind = value.__class__
    if kind is dict:
        return tuple([(name, _frozen(each)) for name, each in value.items()])
    if kind is tuple or kind is list:
        return tuple([_frozen(each) for each in value])
    if kind is slice:
        return ("slice", value.start, value.stop, value.step)
    if kind is float:
        return repr(value)  # tells -0.0 from 0.0
    return (kind, value) if kind is bool else value
