"""`Strategy`: how one op runs on tensors that lie as they do; made once per op and layouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from shardwise.backend.errors import DataDependentShapeError, LayoutError
from shardwise.backend.kind import is_narrow
from shardwise.backend.shape import ShapeArray
from shardwise.dtensor.dual import cotangents_of, gradients_of
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.option import Option, choose
from shardwise.dtensor.placement import Placement, Shard
from shardwise.dtensor.rule.table import TERMS
from shardwise.mesh import DeviceMesh
from shardwise.tensor.diagnosis import explained
from shardwise.tensor.function import Context, Function
from shardwise.tensor.narrow import forward_wide
from shardwise.tensor.ops import index
from shardwise.tensor.signature import Part, Terms, terms_of

__all__ = ["BY_SHAPE", "Strategy", "inferred", "make_strategy"]


BY_SHAPE = (index.Index, index.IndexAdd, index.IndexPut, index.Pick, index.Unindex)
"""Ops whose layouts depend on the shapes of integers in their ``index``, and not on the values."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """The layouts an op runs with, and what follows from them.

    Attributes
    ----------
    function : Function class
    inputs : tuple of Layout or None
        What each input must be; None for what is no tensor.
    moves : tuple of int
        Inputs that are not so yet.
    outputs : tuple of Layout, or None
        None if only the run can tell the shapes: all replicated then.
    many : bool
        Whether the op gives a tuple.
    cotangents : tuple of Layout
        Per output, what its gradient must be: Partial becomes Replicate.
    gradients : tuple of Layout or None
        Per input, what its gradient comes out as.
    once : tuple of (int, tuple of int)
        Inputs that are numbers and belong into one term of a sum, with the axes along which that is so: the
        ranks that are not first there take zero.
    """

    function: type[Function]
    inputs: tuple[Layout | None, ...]
    moves: tuple[int, ...]
    outputs: tuple[Layout, ...] | None
    many: bool
    cotangents: tuple[Layout, ...]
    gradients: tuple[Layout | None, ...]
    once: tuple[tuple[int, tuple[int, ...]], ...] = ()

    narrow: bool = field(init=False)
    """Whether it computes in float32 what comes in 16 bits."""
    localized: bool = field(init=False)
    """Whether its parameters must be told anew for parts."""
    broadcasts: bool = field(init=False)
    """Whether gradients may come in the shape that an input was broadcast to."""
    shares: bool = field(init=False)
    """Whether two inputs may be one array."""
    numbers: bool = field(init=False)
    """Whether some input is no tensor."""
    parted: bool = field(init=False)
    """Whether ranks may find fault with values each by itself: parts, in an op that is not elementwise."""
    no_need: tuple[bool, ...] = field(init=False)
    lead: int = field(init=False)
    """The first input that is a tensor."""
    told: dict[tuple[int, ...], dict[str, Any]] = field(init=False, default_factory=dict)
    """The parameters for the parts at a coordinate, once they were asked for."""

    def __post_init__(self) -> None:
        function, put = self.function, object.__setattr__
        held = [layout for layout in self.inputs if layout is not None]
        outputs = self.outputs or ()
        narrow = any(is_narrow(layout.dtype) for layout in held)
        put(self, "narrow", narrow and not (function.exact or function.view))
        cut = any(any(layout.order) for layout in (*held, *outputs))
        put(self, "localized", (function.localize is not None and cut) or bool(self.once))
        alike = all(layout.shape == out.shape for layout in held for out in outputs)
        put(self, "broadcasts", function.broadcasts and not (outputs and alike))
        put(self, "shares", len(held) > 1)
        put(self, "numbers", len(held) < len(self.inputs))
        put(self, "parted", cut and function.signature != "*" and not function.view)
        put(self, "no_need", (False,) * len(self.inputs))
        put(self, "lead", next((i for i, layout in enumerate(self.inputs) if layout is not None), 0))

    @property
    def mesh(self) -> DeviceMesh:
        """The mesh of its tensors."""
        return next(layout.mesh for layout in self.inputs if layout is not None)

    def parameters(self, params: dict[str, Any], here: tuple[int, ...]) -> dict[str, Any]:
        """Return the parameters of the op for the parts at a coordinate."""
        if not self.localized or self.function.localize is None:
            return params
        known = self.told.get(here)
        if known is not None:
            return known

        def part(layout: Layout | None) -> Part | None:
            return None if layout is None else Part(*layout.box(here), layout.shape)

        localize: Any = self.function.localize
        found: dict[str, Any] = localize(
            params, tuple(map(part, self.inputs)), tuple(map(part, self.outputs or ()))
        )
        if not self.function.unseen and not issubclass(self.function, BY_SHAPE):  # those differ by call
            self.told[here] = found
        return found


def make_strategy(
    function: type[Function],
    args: Sequence[Any],
    layouts: Sequence[Layout | None],
    params: dict[str, Any],
    tracked: bool,
) -> Strategy:
    """Choose how to run an op.

    Parameters
    ----------
    function : Function class
    args : sequence
        The inputs; what is no tensor is looked at for its type.
    layouts : sequence of Layout or None
        Those of the tensors.
    params : dict
    tracked : bool
        Whether a gradient is recorded.

    Raises
    ------
    LayoutError
        The tensors are on different meshes.
    ShapeError, DTypeError
        What the op says of the whole shapes, on all ranks alike.
    """
    mesh = _mesh_of(function, layouts)
    wholes: list[Any] = [
        arg if layout is None else ShapeArray(layout.shape, layout.dtype)
        for arg, layout in zip(args, layouts, strict=True)
    ]
    results = inferred(function, wholes, params)
    terms = _spelled(function, args, layouts, params)
    options = [Option()] * mesh.ndim
    if results is not None:
        options = [choose(function, terms, layouts, axis, tracked) for axis in range(mesh.ndim)]
    strategy = _with_options(function, options, terms, layouts, results)
    if (
        results is not None
        and any(option != Option() for option in options)
        and not _fits(strategy, args, params)
    ):
        # The signature says more than the op keeps on parts: replicas are right whatever it does.
        strategy = _with_options(function, [Option()] * mesh.ndim, terms, layouts, results)
    return strategy


def _with_options(
    function: type[Function],
    options: Sequence[Option],
    terms: Terms,
    layouts: Sequence[Layout | None],
    results: tuple[tuple[Any, ...], bool] | None,
) -> Strategy:
    """Put together the strategy that runs each axis as `options` say."""
    orders = _orders(options, terms, layouts)
    inputs: list[Layout | None] = []
    for i, (layout, dims) in enumerate(zip(layouts, terms.inputs, strict=True)):
        term = tuple([dim.name for dim in dims])
        wanted = [option.wanted(i, term) for option in options]
        inputs.append(None if layout is None else _laid(layout, wanted, term, orders))
    if results is None:
        return finished(function, tuple(inputs), layouts, None, True)
    mesh = _mesh_of(function, layouts)
    outputs = []
    for result, dims in zip(results[0], terms.outputs, strict=True):
        term = tuple([dim.name for dim in dims])
        whole = Layout(mesh, ("R",) * mesh.ndim, result.shape, result.dtype)
        outputs.append(_laid(whole, [option.given(term) for option in options], term, orders))
    once = _once(options, layouts)
    return finished(function, tuple(inputs), layouts, tuple(outputs), results[1], once)


def _once(
    options: Sequence[Option], layouts: Sequence[Layout | None]
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Return the numbers that are terms of sums, and along which axes."""
    found = []
    for i, layout in enumerate(layouts):
        if layout is None:
            axes = [a for a, option in enumerate(options) if option.op == "sum" and i in option.terms]
            if axes:
                found.append((i, tuple(axes)))
    return tuple(found)


def _fits(strategy: Strategy, args: Sequence[Any], params: dict[str, Any]) -> bool:
    """Tell whether the op gives parts of the right shapes, at the first and the last coordinate of the mesh.

    Run without data, once per strategy: an op whose parameters tell of the whole, and that has no `localize`,
    is found here and not in wrong numbers.
    """
    shape = strategy.mesh.shape
    for here in {(0,) * len(shape), tuple([n - 1 for n in shape])}:
        parts = [
            arg if layout is None else ShapeArray(layout.box(here).shape, layout.dtype)
            for arg, layout in zip(args, strategy.inputs, strict=True)
        ]
        try:
            results = inferred(strategy.function, parts, strategy.parameters(params, here))
        except (TypeError, ValueError, IndexError, ZeroDivisionError):
            return False
        if results is None:
            continue
        wanted = [(layout.box(here).shape, layout.dtype) for layout in strategy.outputs or ()]
        if [(each.shape, each.dtype) for each in results[0]] != wanted:
            return False
    return True


def _spelled(
    function: type[Function], args: Sequence[Any], layouts: Sequence[Layout | None], params: dict[str, Any]
) -> Terms:
    """Return the dims of each argument (none for what is no array) and of each result."""
    shapes = tuple(
        [layout.shape if layout else () for layout, arg in zip(layouts, args, strict=True) if arg is not None]
    )
    spell = TERMS.get(function)
    if spell is None:
        terms = terms_of(function, shapes, params)
    else:
        terms = spell(
            shapes, params, [layout for layout, arg in zip(layouts, args, strict=True) if arg is not None]
        )
    told = iter(terms.inputs)
    return Terms(tuple([() if arg is None else next(told, ()) for arg in args]), terms.outputs)


def finished(
    function: type[Function],
    inputs: tuple[Layout | None, ...],
    layouts: Sequence[Layout | None],
    outputs: tuple[Layout, ...] | None,
    many: bool,
    once: tuple[tuple[int, tuple[int, ...]], ...] = (),
) -> Strategy:
    """Put together a strategy from the layouts that an op runs with: gradients follow from those."""
    moves = tuple([i for i, layout in enumerate(inputs) if layout is not layouts[i]])
    cotangents = cotangents_of(outputs or ())
    return Strategy(function, inputs, moves, outputs, many, cotangents, gradients_of(inputs, outputs), once)


def inferred(
    function: type[Function], wholes: list[Any], params: dict[str, Any]
) -> tuple[tuple[Any, ...], bool] | None:
    """Run an op on arrays without data.

    Returns
    -------
    results : tuple of ShapeArray
    many : bool
        Whether the op gives a tuple.

    Or None, if only data could tell the shapes.
    """
    ctx = Context((False,) * len(wholes))
    try:
        if any(is_narrow(each.dtype) for each in wholes if isinstance(each, ShapeArray)) and not (
            function.exact or function.view
        ):
            result = forward_wide(function, ctx, wholes, params)
        else:
            result = function.forward(ctx, *wholes, **params)
    except DataDependentShapeError:
        return None
    except (TypeError, ValueError) as error:
        better = explained(function, wholes, error)
        if better is None:
            raise
        raise better from error
    many = type(result) is tuple
    return (result if many else (result,)), many


def _mesh_of(function: type[Function], layouts: Sequence[Layout | None]) -> Any:
    meshes = {layout.mesh: None for layout in layouts if layout is not None}
    if len(meshes) > 1:
        raise LayoutError(
            f"{function.__name__}: its tensors are on different meshes, {' and '.join(map(repr, meshes))}; "
            "bring them to one by redistribute(mesh=...)"
        )
    return next(iter(meshes))


def _orders(
    options: Sequence[Option], terms: Terms, layouts: Sequence[Layout | None]
) -> dict[str, tuple[tuple[int, ...], tuple[int, ...] | None]]:
    """Return, per letter that is cut, the axes that cut it, outermost first, and ragged sizes if any.

    Both are taken from the first input that is cut there already.
    """
    wanted: dict[str, list[int]] = {}
    for axis, option in enumerate(options):
        if option.letter:
            wanted.setdefault(option.letter, []).append(axis)
    orders = {}
    for letter, axes in wanted.items():
        order, sizes = tuple(axes), None
        for dims, layout in zip(terms.inputs, layouts, strict=True):
            term = [dim.name for dim in dims]
            if layout is None or letter not in term:
                continue
            now = layout.order[term.index(letter)]
            kept = tuple([axis for axis in now if axis in axes])
            if kept:
                order = (*kept, *[axis for axis in axes if axis not in kept])
                if now == order:
                    placement = layout.placements[now[0]]
                    assert isinstance(placement, Shard)
                    sizes = placement.sizes
                break
        orders[letter] = (order, sizes)
    return orders


def _laid(
    layout: Layout,
    wanted: list[Placement],
    term: Sequence[str],
    orders: dict[str, tuple[tuple[int, ...], tuple[int, ...] | None]],
) -> Layout:
    """Return the layout of a tensor whose dims have the letters `term`."""
    order: list[tuple[int, ...]] = []
    for dim, letter in enumerate(term):
        axes, sizes = orders.get(letter, ((), None))
        order.append(axes)
        for axis in axes:
            wanted[axis] = Shard(dim, sizes)
    return Layout.of(layout.mesh, tuple(wanted), tuple(order), layout.shape, layout.dtype)
