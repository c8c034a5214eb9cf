"""Run a function on this rank's parts, and a module on DTensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from shardwise.backend.errors import ArgumentError, LayoutError
from shardwise.dtensor.construct import distribute_tensor, mesh_of
from shardwise.dtensor.dtensor import DTensor
from shardwise.dtensor.layout import Layout, Placements
from shardwise.dtensor.local import from_local
from shardwise.dtensor.placement import Partial, Replicate, Shard, Spec
from shardwise.mesh import DeviceMesh
from shardwise.nn import Module, Parameter
from shardwise.tensor.tensor import Tensor

__all__ = ["distribute_module", "local_map"]


def local_map(
    func: Callable[..., Any] | None = None,
    out_placements: Any = None,
    in_placements: Sequence[Placements | None] | None = None,
    in_grad_placements: Sequence[Placements | None] | None = None,
    device_mesh: DeviceMesh | None = None,
    *,
    redistribute_inputs: bool = False,
) -> Callable[..., Any]:
    """Return a function of DTensors that runs `func` on this rank's parts of them.

    Parameters
    ----------
    func : callable
        Of Tensors and anything else; gives a Tensor or a tuple. Without it, this makes a decorator.
    out_placements : placements, or tuple of placements or None
        What the parts in each result are; None for what stays as it is. One alone is for one result.
    in_placements : sequence of placements or None, optional
        What each argument must be, None for those that are no DTensors; not looked at, if not given.
    in_grad_placements : sequence of placements or None, optional
        What the gradients of each argument's parts are, taken together; see `DTensor.to_local`.
    device_mesh : DeviceMesh, optional
        Of the results; that of the first DTensor, if not given.
    redistribute_inputs : bool
        Bring arguments that lie otherwise to `in_placements`; an error, if not given.

    Raises
    ------
    LayoutError
        An argument lies otherwise; or results are more or fewer than `out_placements`.

    Notes
    -----
    Where results are sharded the ranks tell each other the sizes of their parts, so that the whole of uneven
    parts has the right shape. Ranks outside of the mesh do not call `func`, and get None.

    Examples
    --------
    >>> import numpy as np
    >>> from shardwise.collectives import run_threads
    >>> def show(rank):
    ...     x = distribute_tensor(np.arange(5.0), DeviceMesh("cpu", [0, 1]), ["S(0)"])
    ...     doubled = local_map(lambda part: part * 2, ["S(0)"])
    ...     return doubled(x).shape, doubled(x).tolist()
    >>> run_threads(show, 2)[1]
    ((5,), [0.0, 2.0, 4.0, 6.0, 8.0])
    """
    if func is None:
        return lambda given: local_map(
            given,
            out_placements,
            in_placements,
            in_grad_placements,
            device_mesh,
            redistribute_inputs=redistribute_inputs,
        )
    run = func

    @wraps(run)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        for what, given in (("in_placements", in_placements), ("in_grad_placements", in_grad_placements)):
            if given is not None and len(given) != len(args):
                raise ArgumentError(f"local_map: {what} tells of {len(given)} arguments, got {len(args)}")
        meshes = [arg.device_mesh for arg in args if isinstance(arg, DTensor)]
        mesh = mesh_of("local_map", device_mesh or (meshes[0] if meshes else None))
        locals_ = []
        for i, arg in enumerate(args):
            if isinstance(arg, DTensor):
                wanted = None if in_placements is None else in_placements[i]
                slopes = None if in_grad_placements is None else in_grad_placements[i]
                placed = _placed(i, arg, wanted, mesh, redistribute_inputs)
                locals_.append(placed.to_local(grad_placements=slopes))
            else:
                locals_.append(arg)
        if mesh.get_coordinate() is None:
            return None
        return _gathered(run(*locals_, **kwargs), out_placements, mesh)

    return mapped


def _placed(i: int, arg: DTensor, wanted: Placements | None, mesh: DeviceMesh, moves: bool) -> DTensor:
    """Return an argument as it is wanted."""
    if wanted is None:
        return arg
    layout = Layout(mesh, wanted, arg.shape, arg.dtype)
    if layout is not arg.layout and not moves:
        raise LayoutError(
            f"local_map: argument {i} is {arg.layout!r}, and in_placements say {layout}; redistribute() it, "
            "or pass redistribute_inputs=True"
        )
    return arg if layout is arg.layout else arg.placed_as(layout, asked=True)


def _gathered(results: Any, placements: Any, mesh: DeviceMesh) -> Any:
    """Make DTensors of the parts that a function gave."""
    many = isinstance(results, tuple)
    parts = results if many else (results,)
    kinds = (placements,) if placements is None or _is_one(placements) else tuple(placements)
    if len(kinds) != len(parts):
        raise LayoutError(
            f"local_map: out_placements tell of {len(kinds)} results, and the function gave {len(parts)}"
        )
    outs = tuple(
        [
            from_local(part, mesh, kind) if kind is not None and hasattr(part, "dtype") else part
            for part, kind in zip(parts, kinds, strict=True)
        ]
    )
    return outs if many else outs[0]


def _is_one(placements: Any) -> bool:
    """Tell whether placements are those of one tensor."""
    single = (str, Shard, Replicate, Partial)
    return isinstance(placements, (Spec, *single)) or all(isinstance(each, single) for each in placements)


def distribute_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[[str, Module, DeviceMesh], None] | None = None,
    input_fn: Callable[[Module, Any, DeviceMesh], Any] | None = None,
    output_fn: Callable[[Module, Any, DeviceMesh], Any] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Module:
    """Make the parameters and buffers of a module DTensors, and say what happens to inputs and outputs.

    Parameters
    ----------
    module : Module
        Changed in place. Its parameters become other objects; make the optimizer afterwards.
    device_mesh : DeviceMesh, optional
        That of the innermost ``with mesh:``, if not given.
    partition_fn : callable, optional
        ``partition_fn(path, submodule, mesh)``, called for the module itself, whose path is empty, and all in
        it; distributes what it likes by `distribute_tensor`. The rest become replicas.
    input_fn, output_fn : callable, optional
        ``input_fn(module, inputs, mesh)`` gives the positional inputs of a call, and
        ``output_fn(module, outputs, mesh)`` its result.
    src_data_rank : int, optional
        Whose values the rest get; see `distribute_tensor`.

    Returns
    -------
    Module
        The same.

    Raises
    ------
    LayoutError
        It was distributed already.
    """
    mesh = mesh_of("distribute_module", device_mesh)
    if getattr(module, "_distributed", False):
        raise LayoutError("distribute_module: this module was distributed already; call it once")
    known: dict[int, Tensor] = {}  # what several names share goes on being shared
    for path, part in list(module.named_modules()):
        if partition_fn is not None:
            partition_fn(path, part, mesh)
        own = [*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)]
        for name, tensor in own:
            if isinstance(tensor, DTensor):
                continue
            if id(tensor) not in known:
                made = distribute_tensor(tensor.detach(), mesh, src_data_rank=src_data_rank)
                known[id(tensor)] = (
                    Parameter(made, tensor.requires_grad) if isinstance(tensor, Parameter) else made
                )
            setattr(part, name, known[id(tensor)])
    if input_fn is not None:
        before = input_fn
        module.register_forward_pre_hook(lambda module, inputs: before(module, inputs, mesh))
    if output_fn is not None:
        after = output_fn
        module.register_forward_hook(lambda module, inputs, outputs: after(module, outputs, mesh))
    object.__setattr__(module, "_distributed", True)
    return module
