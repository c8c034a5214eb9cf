"""The door of sharded tensors: find the strategy of an op, move what lies otherwise, run it on the parts."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np

from shardwise.backend.errors import LayoutError
from shardwise.dtensor.boundary import Boundary, FromLocal, cross
from shardwise.dtensor.copied import copied_from
from shardwise.dtensor.fallback import report
from shardwise.dtensor.frozen import frozen, held_whole
from shardwise.dtensor.gradient import spread
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.move import moved
from shardwise.dtensor.outside import is_outside, outside
from shardwise.dtensor.placement import Shard
from shardwise.dtensor.policy import replicates_tensors
from shardwise.dtensor.replica import checks_replicas, compare_replicas
from shardwise.dtensor.rule.case import Case, Play
from shardwise.dtensor.rule.strategies import RULES
from shardwise.dtensor.rule.table import COMPOSITIONS
from shardwise.dtensor.sharded_array import ShardedArray
from shardwise.dtensor.strategy import BY_SHAPE, Strategy, make_strategy
from shardwise.dtensor.together import raised_together, raises_together
from shardwise.tensor.diagnosis import check_finite
from shardwise.tensor.function import Context, Function
from shardwise.tensor.mode import Mode, current_mode
from shardwise.tensor.narrow import forward_wide
from shardwise.tensor.ops.index import Slice
from shardwise.tensor.ops.view import Reshape, Unbind
from shardwise.tensor.tape import Node, annotate, record, record_many
from shardwise.tensor.tensor import Tensor

__all__ = ["dispatch", "perform"]

_MOST = 8192  # strategies that are remembered
_remembered: dict[Any, Strategy | Play | None] = {}
_UNKNOWN: Any = object()  # what is said of an op that was not met yet
_INTS = frozenset({int})
_PLAIN = frozenset({int, str, bool, float, type(None)})
_new = object.__new__  # what is made here needs no checks, and __init__ costs a call


def dispatch(function: type[Function], args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Run an op on arguments some of which are DTensors.

    Parameters
    ----------
    function : Function class
    args : tuple
        DTensors, numbers, None; tensors and arrays are refused, unless a policy says that they are replicas.
    params : dict
    """
    key: list[Any] = [function]
    locals_: list[Any] = []
    tracked = False
    for arg in args:
        if isinstance(arg, Tensor):
            data: Any = arg.data
            if type(data) is not ShardedArray:
                return dispatch(function, _admitted(function, args), params)
            key.append(data.layout)
            locals_.append(data.local)
            if arg.requires_grad:
                tracked = True
        elif arg is None or not hasattr(arg, "dtype"):
            key.append(arg.__class__)
            locals_.append(arg)
        elif type(arg) is ShardedArray:  # a constant of some formula
            kind = ShardedArray.tensor_class
            return dispatch(
                function, tuple([kind(a) if type(a) is ShardedArray else a for a in args]), params
            )
        else:
            return dispatch(function, _admitted(function, args), params)
    mode = current_mode()
    tracked = tracked and mode.grad
    key.append(tracked)
    if params:
        if issubclass(function, Boundary):
            return cross(function, args[0], **params)
        for name, value in params.items():
            if name in function.unseen:
                continue
            kind = value.__class__
            if kind not in _PLAIN:
                if kind is not tuple or not _INTS.issuperset(map(type, value)):
                    held = held_whole(value)
                    if held is not value:
                        params = {**params, name: held}
                    value = frozen(held, name == "index" and issubclass(function, BY_SHAPE))
            elif kind is bool or kind is float:
                value = (kind, repr(value))  # True is 1, and -0.0 is 0.0
            key += (name, value)
    known = tuple(key)
    try:
        strategy = _remembered.get(known, _UNKNOWN)
    except TypeError:  # an array among the parameters: nothing that could be looked up
        strategy = _found(function, args, params, tracked)
    else:
        if strategy is _UNKNOWN:
            if len(_remembered) >= _MOST:
                _remembered.clear()
            strategy = _remembered[known] = _found(function, args, params, tracked)
    if type(strategy) is Strategy:
        return _run(strategy, args, locals_, params, tracked, mode)
    if strategy is None:
        composition: Any = COMPOSITIONS.get(function, function.decompose)
        return _noted(function, args, composition(*args, **params), params)
    play: Any = strategy
    return _noted(function, args, play(perform, args, params), params)


def _noted(function: type[Function], args: tuple[Any, ...], result: Any, params: dict[str, Any]) -> Any:
    """Note of what was to be a view of the first input, and is none, that it is a copy."""
    if function.view and function is not Reshape and isinstance(args[0], Tensor):
        for i, out in enumerate(result if type(result) is tuple else (result,)):
            if out is not args[0] and out.version is not args[0].version:
                copied_from(args[0], out, function.__name__, _key_of(function, params, i, args[0].ndim))
    return result


def _key_of(function: type[Function], params: dict[str, Any], i: int, ndim: int) -> Any:
    """Return the index of which result `i` of a view is what it selects; None where it is no slice."""
    if function is Slice:
        return params["index"]
    return (slice(None),) * (params["dim"] % ndim) + (i,) if function is Unbind else None


def perform(strategy: Strategy, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Run an op as a strategy says, on DTensors and numbers."""
    mode = current_mode()
    tracked = mode.grad and any(isinstance(arg, Tensor) and arg.requires_grad for arg in args)
    locals_ = [getattr(arg.data, "local", None) if isinstance(arg, Tensor) else arg for arg in args]
    return _run(strategy, args, locals_, params, tracked, mode)


def _found(
    function: type[Function], args: tuple[Any, ...], params: dict[str, Any], tracked: bool
) -> Strategy | Play | None:
    """Return the strategy of an op, or what plays it; None where it is better made of others."""
    layouts = [getattr(arg.data, "layout", None) if isinstance(arg, Tensor) else None for arg in args]
    rule = RULES.get(function)
    if rule is not None:
        told = rule(Case(function, args, layouts, params, tracked))
        if told is not None:
            return told
    strategy = make_strategy(function, args, layouts, params, tracked)
    if (function in COMPOSITIONS or function.decompose is not None) and _gathers(strategy, layouts):
        return None
    report(function, layouts, strategy.inputs, strategy.outputs)
    return strategy


def _gathers(strategy: Strategy, layouts: Sequence[Layout | None]) -> bool:
    """Tell whether a strategy gives up how the largest of the inputs is sharded."""
    largest = max(layout.numel for layout in layouts if layout is not None)
    for i in strategy.moves:
        before, after = layouts[i], strategy.inputs[i]
        assert before is not None
        assert after is not None
        if before.numel == largest and any(
            n > 1 and isinstance(b, Shard) and not (isinstance(a, Shard) and a.dim == b.dim)
            for n, b, a in zip(before.mesh.shape, before.placements, after.placements, strict=True)
        ):
            return True
    return False


def _run(
    strategy: Strategy,
    args: tuple[Any, ...],
    locals_: list[Any],
    params: dict[str, Any],
    tracked: bool,
    mode: Mode,
) -> Any:
    """Run an op as a strategy says, on the parts `locals_`; every step here is paid by every op."""
    function = strategy.function
    for i in strategy.moves:
        layout = strategy.inputs[i]
        assert layout is not None
        locals_[i] = moved(args[i].data, layout).local
    if not locals_[strategy.lead].size and is_outside(strategy):
        nothing = outside(strategy, args, tracked)
        return _noted(function, args, nothing, params) if 0 in strategy.moves else nothing
    given = params
    if strategy.localized:
        here = strategy.mesh.get_coordinate() or ()
        given = strategy.parameters(params, here)
        for i, axes in strategy.once:  # a number that is added to a sum of terms belongs into one of them
            if any(here[axis] for axis in axes):
                locals_[i] = type(locals_[i])()
    ctx: Context
    if tracked:
        ctx = _new(Node)
        ctx.need = tuple([isinstance(arg, Tensor) and arg.requires_grad for arg in args])
        if strategy.shares:
            _tell_apart(args, locals_)
    else:
        ctx = _new(Context)
        ctx.need = strategy.no_need
    ctx.saved = ()
    if strategy.parted and raises_together():
        result = raised_together(strategy.mesh, lambda: _watched(strategy, ctx, locals_, given, mode))
    elif mode.watched:
        result = _watched(strategy, ctx, locals_, given, mode)
    elif strategy.narrow:
        result = forward_wide(function, ctx, locals_, given)
    else:
        result = function.forward(ctx, *locals_, **given)
    layouts = strategy.outputs
    if isinstance(result, np.generic) or (type(result) is tuple and ctx.saved):
        result = _arrays(ctx, result)
    if type(result) is tuple or layouts is None:
        outs = _wrapped(strategy, result if type(result) is tuple else (result,))
    else:
        outs = (_sharded(result, layouts[0]),)
    if tracked:
        _recorded(ctx, strategy, args, params, locals_, outs, mode)  # type: ignore[arg-type]  # a Node
    if function.view:
        if 0 not in strategy.moves:
            base = locals_[0]
            for out in outs:
                each = out.data.local
                if (
                    not each.size
                    or type(each) is not np.ndarray
                    or each.base is base
                    or np.may_share_memory(each, base)
                ):
                    out.look_at(args[0])
        else:
            _noted(function, args, outs, params)
    return outs if strategy.many and type(result) is tuple else outs[0]


def _arrays(ctx: Context, result: Any) -> Any:
    """Undo NumPy's habit of giving scalars for results without dims, in what was saved as well."""
    if type(result) is tuple:
        return tuple([_arrays(ctx, each) for each in result])
    if not isinstance(result, np.generic):
        return result
    array = np.asarray(result)
    ctx.saved = tuple([array if saved is result else saved for saved in ctx.saved])
    return array


def _sharded(array: Any, layout: Layout) -> Any:
    """Return a DTensor over a part."""
    data = _new(ShardedArray)
    data.local = np.asarray(array) if isinstance(array, np.generic) else array
    data.layout = layout
    kind: Any = ShardedArray.tensor_class
    out: Any = _new(kind)
    out.data = data
    return out


def _wrapped(strategy: Strategy, results: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return DTensors over several parts, or over replicas whose shapes the data told."""
    layouts = strategy.outputs
    arrays = [np.asarray(each) if isinstance(each, np.generic) else each for each in results]
    if layouts is None:
        mesh = next(layout.mesh for layout in strategy.inputs if layout is not None)
        layouts = tuple([Layout(mesh, ("R",) * mesh.ndim, each.shape, each.dtype) for each in arrays])
    return tuple([_sharded(each, layout) for each, layout in zip(arrays, layouts, strict=True)])


def _watched(strategy: Strategy, ctx: Context, locals_: list[Any], params: dict[str, Any], mode: Mode) -> Any:
    """Run a forward that somebody times, or looks at for NaN."""
    function, timer = strategy.function, mode.timer
    start = 0.0 if timer is None else perf_counter()
    if strategy.narrow:
        result = forward_wide(function, ctx, locals_, params)
    else:
        result = function.forward(ctx, *locals_, **params)
    if timer is not None:
        timer.forward(function, start)
    if mode.anomaly:
        check_finite(function, list(result) if type(result) is tuple else [result], locals_)
    return result


def _tell_apart(args: tuple[Any, ...], locals_: list[Any]) -> None:
    """Give inputs that share one array, as ``x`` and ``x.detach()`` do, an array object each."""
    owners: dict[int, Any] = {}
    for i, arg in enumerate(args):
        if isinstance(arg, Tensor) and owners.setdefault(id(locals_[i]), arg) is not arg:
            locals_[i] = locals_[i][...]


def _recorded(
    node: Node,
    strategy: Strategy,
    args: tuple[Any, ...],
    params: dict[str, Any],
    locals_: list[Any],
    outs: tuple[Any, ...],
    mode: Mode,
) -> None:
    """Put an op on the tape."""
    node._strategy = strategy
    if strategy.outputs is None:
        node._cotangents = tuple([out.data.layout for out in outs])
    if strategy.broadcasts:
        node._shapes = tuple([getattr(each, "shape", ()) for each in locals_])
    if params or strategy.numbers:
        node._params = params
        node._given = tuple([None if isinstance(arg, Tensor) else arg for arg in args])
    saved = node.saved
    if len(outs) == 1:
        record(node, spread(strategy.function), args, outs[0])
    else:
        node.saved = ()
        record_many(node, spread(strategy.function), args, (), outs)
        node.saved = saved
    if saved:
        _trace(node, args, locals_, outs)
    if mode.watched:
        annotate(node, mode)


def _trace(node: Node, args: tuple[Any, ...], locals_: list[Any], outs: tuple[Any, ...]) -> None:
    """Find where each saved array came from, and note the version of its memory."""
    origins: list[int | None] = []
    versions: list[Any] = []
    for array in node.saved:
        origin = version = None
        if array is not None:
            for i, each in enumerate(locals_):
                if each is array:
                    origin, owner = i, args[i]
                    if isinstance(owner, Tensor) and _looks_at(owner, each):
                        version = (owner.version, owner.version.count)
                    break
            else:
                for i, out in enumerate(outs):
                    if out.data.local is array:
                        origin, version = -1 - i, (out.version, out.version.count)
                        break
        origins.append(origin)
        versions.append(version)
    node._origins, node._versions = tuple(origins), tuple(versions)


def _looks_at(arg: Any, local: Any) -> bool:
    """Tell whether `local` lies in the memory of a tensor: not where it is a copy, laid out otherwise."""
    mine = arg.data.local
    return local is mine or (isinstance(local, np.ndarray) and np.may_share_memory(local, mine))


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
        if checks_replicas():
            compare_replicas(f"{function.__name__}, input {i}", tensor.data, whole)
        admitted.append(cross(FromLocal, tensor, layout=whole))
    return tuple(admitted)
