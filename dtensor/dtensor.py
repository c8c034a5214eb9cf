"""`DTensor`: a tensor whose values lie over the ranks of a mesh as a layout says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import LayoutError
from shardwise.dtensor.boundary import Relaid, ToLocal, cross
from shardwise.dtensor.copied import Writes, note_write, stand_behind
from shardwise.dtensor.dispatch import dispatch
from shardwise.dtensor.layout import Layout, Placements
from shardwise.dtensor.move import moved
from shardwise.dtensor.outside import nothing, refuse_outside
from shardwise.dtensor.placement import Partial, Placement
from shardwise.dtensor.policy import implicit_replication
from shardwise.dtensor.ragged import Ragged
from shardwise.dtensor.sharded_array import ShardedArray, is_coming
from shardwise.mesh import DeviceMesh
from shardwise.tensor.function import Function
from shardwise.tensor.signature import Part
from shardwise.tensor.tensor import Tensor

__all__ = ["DTensor"]


class DTensor(Ragged):
    """A tensor of which each rank of a mesh holds a part, a replica, or a term of a sum.

    Everything that `Tensor` can do works on it, and means the whole: shape, indices, reductions. Ops choose
    layouts for their results, and move what they need elsewhere; `shardwise.explain` lists what moved.
    Made by `distribute_tensor`, `DTensor.from_local` and the factories in `shardwise.dtensor`.

    Attributes
    ----------
    data : ShardedArray
        This rank's part, and the layout.
    """

    data: Any
    grad: Any
    parameter_class: ClassVar[Any] = None  # `parameter.ShardedParameter`, which stands on this
    buffer_class: ClassVar[Any] = None
    keep_grad: bool = False
    """Whether ``grad`` stays in whatever layout it comes in, until somebody asks."""
    writes: Writes | None = None  # where it was written since copies of it are about
    copied_by: str | None = None
    """The op whose result this is, if it was to be a view and had to move the data: writes are refused."""

    @staticmethod
    def __apply__(function: type[Function], args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        return dispatch(function, args, params)

    def __init__(self, data: Any, requires_grad: bool = False) -> None:
        super().__init__(data, requires_grad)

    def wrap(self, array: Any) -> Any:
        """Make a tensor without history of an array: of a sharded one a DTensor, of any other a Tensor."""
        return DTensor(array) if isinstance(array, ShardedArray) else Tensor(array)

    # ---- layout

    @property
    def layout(self) -> Layout:
        """Who holds what."""
        layout: Layout = self.data.layout
        return layout

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh that it lies on."""
        return self.layout.mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """One per axis of the mesh."""
        return self.layout.placements

    def redistribute(
        self,
        device_mesh: DeviceMesh | Placements | None = None,
        placements: Placements | None = None,
        *,
        mesh: DeviceMesh | None = None,
        async_op: bool = False,
    ) -> DTensor:
        """Return the same values in other placements, or on another mesh.

        Parameters
        ----------
        device_mesh : DeviceMesh, optional
            Where to; this tensor's mesh, if not given. Placements may stand here alone.
        placements : sequence of Placement, or Spec, optional
            Replicas, if not given. Partial is refused: it is nothing that could be asked for.
        mesh : DeviceMesh, optional
            Another name of `device_mesh`.
        async_op : bool
            Return at once; the first use of the result waits, at the same place of the program on all ranks.
            This tensor must not be written before.

        Notes
        -----
        Its gradient is the identity. `shardwise.dtensor.plan` tells beforehand what will be sent.
        """
        if device_mesh is not None and not isinstance(device_mesh, DeviceMesh):
            if placements is not None:
                raise LayoutError(f"redistribute: wanted a DeviceMesh first, got {device_mesh!r}")
            device_mesh, placements = None, device_mesh
        where = device_mesh or mesh or self.layout.mesh
        target = Layout(
            where, placements if placements is not None else ("R",) * where.ndim, self.shape, self.dtype
        )
        if any(
            isinstance(new, Partial) and (where != self.layout.mesh or new != old)
            for new, old in zip(target.placements, self.layout.placements, strict=where == self.layout.mesh)
        ):
            raise LayoutError(
                f"redistribute: cannot make {self.layout} Partial ({target}); a partial tensor is what an op "
                "leaves. Name Shard or Replicate; DTensor.from_local(..., [Partial()]) makes one of terms"
            )
        return self.placed_as(target, asked=True, later=async_op)

    def placed_as(self, layout: Layout, asked: bool = False, later: bool = False) -> DTensor:
        """Return the same values in the layout of another tensor of this shape; see `redistribute`."""
        if layout is self.data.layout:
            return self
        out: DTensor = cross(Relaid, self, layout=layout, asked=asked, later=later)
        return out

    # ---- making

    from_local: ClassVar[Callable[..., DTensor]]  # `local.from_local`, which stands on this

    def _like(self, array: Any, requires_grad: bool) -> Any:
        """Return a replica, of an array that all ranks have made."""
        layout = self.layout
        whole = Layout(layout.mesh, ("R",) * layout.mesh.ndim, array.shape, array.dtype)
        out = DTensor(
            ShardedArray(array, whole) if layout.mesh.get_coordinate() is not None else nothing(whole)
        )
        return out.requires_grad_() if requires_grad else out

    def _parted(self, make: Callable[[Part, Array], Array]) -> Any:
        """Return an array that lies as this does, of which `make` gives this rank's part."""
        source = moved(self.data, self.layout.reduced())
        layout = source.layout
        here = layout.mesh.get_coordinate()
        part = Part((0,), (0,), (0,)) if here is None else Part(*layout.box(here), layout.shape)
        array = make(part, source.local)
        array = np.asarray(array) if isinstance(array, np.generic) else array
        return ShardedArray(array, layout.with_dtype(array.dtype))

    # ---- writing

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write `value`, which broadcasts, to what an index selects, wherever that lies; the layout stays."""
        if not self.layout.partial:
            super().__setitem__(key, value)
            note_write(self, key)
            return
        tracked = self._tracked("assignment by index", value)
        out = self.index_put(key if isinstance(key, tuple) else (key,), value)
        self._put("assignment by index", out, tracked)

    def look_at(self, base: Any) -> None:
        """Become a view of `base`; a view of a copy is as far from the original as that is."""
        super().look_at(base)
        self.copied_by = getattr(base, "copied_by", None)  # from_local looks at a Tensor
        if self.copied_by is not None:
            stand_behind(self, base)

    def detach(self) -> DTensor:
        """Return the same memory without history."""
        out: Any = super().detach()
        out.copied_by = self.copied_by
        return out  # type: ignore[no-any-return]

    def _tracked(self, name: str, *others: Any, region: Array | None = None) -> bool:
        """Tell whether a write goes on the tape; see `Tensor`. A copy in place of a view is not written."""
        if self.copied_by is not None:
            raise LayoutError(
                f"cannot write in place ({name}) into what {self.copied_by} gave, of shape {self.shape}: "
                "a view would change the other tensor too, but the values were on other ranks and are copies "
                "here. Assign to the other tensor, as in x[i] = value, or clone() this first"
            )
        return super()._tracked(name, *others, region=region)

    def _put(self, name: str, out: Any, tracked: bool) -> Self:
        """Write a result into this tensor's memory; its layout stays.

        An op that worked on a slice of this memory, as replicas cut to shards are, may have saved that slice.
        """
        if tracked and isinstance(out, Tensor) and out.node is not None and type(out.node.saved) is tuple:
            mine = self.data.local
            kept = [
                each.copy()
                if type(each) is type(mine) is np.ndarray and np.may_share_memory(each, mine)
                else each
                for each in out.node.saved
            ]
            pairs = zip(kept, out.node.saved, out.node._versions, strict=True)
            out.node._versions = tuple([version if new is old else None for new, old, version in pairs])
            out.node.saved = tuple(kept)
        return super()._put(name, out, tracked)

    # ---- leaving

    def to_local(self, *, grad_placements: Placements | None = None) -> Tensor:
        """Return this rank's part as a Tensor; nothing is sent.

        Parameters
        ----------
        grad_placements : sequence of Placement, optional
            What the gradients of the parts are, taken together; these placements, with Replicate in place of
            Partial, if not given. Where a replica is used with data that differ between ranks, its gradients
            are terms of a sum: ``[Partial()]``.
        """
        layout = self.layout.reduced()
        if grad_placements is not None:
            layout = self.layout.with_placements(grad_placements)
        out: Tensor = cross(ToLocal, self, layout=layout)
        return out

    def full_tensor(self, *, grad_placements: Placements | None = None) -> Tensor:
        """Return the whole as a Tensor, the same on all ranks of the mesh, which all call this.

        Parameters
        ----------
        grad_placements : sequence of Placement, optional
            As for `to_local`, of the whole: ``[Partial()]`` where ranks go on with it each in its own way.

        Raises
        ------
        LayoutError
            This rank is not in the mesh.
        """
        refuse_outside("full_tensor", self.layout.mesh)
        whole = self.placed_as(self.layout.replicated(), asked=True)
        return whole.to_local(grad_placements=grad_placements)

    def numpy(self, *, force: bool = False) -> np.ndarray[Any, np.dtype[Any]]:
        """Return the whole as a NumPy array; all ranks of the mesh must call it."""
        return self.full_tensor().numpy(force=force)

    def _whole(self) -> Array:
        """Return the array of the whole, off the tape."""
        refuse_outside("reading values", self.layout.mesh)
        return moved(self.data, self.layout.replicated()).local

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.full_tensor().__array__(dtype, copy)

    def __dlpack__(self, **asked: Any) -> Any:
        return self.full_tensor().__dlpack__(**asked)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function in (np.shares_memory, np.may_share_memory):  # of the parts: wholes are made on the way
            return function(*[each.data.local if isinstance(each, DTensor) else each for each in args])
        if _has_array(args) or _has_array(tuple(kwargs.values())):
            return super().__array_function__(function, types, args, kwargs)
        with implicit_replication():  # the constants that functions made of others need are no user's
            return super().__array_function__(function, types, args, kwargs)

    def data_ptr(self) -> int:
        """Refuse: the whole is at no address."""
        raise LayoutError(
            "data_ptr: a DTensor is at no address; to_local().data_ptr() is that of this rank's part"
        )

    def item(self) -> Any:
        """Return the only element as a Python number; partial ones are reduced first."""
        return Tensor(self._whole()).item()

    def tolist(self) -> Any:
        """Return the whole as nested lists of Python numbers."""
        return Tensor(self._whole()).tolist()

    def __bool__(self) -> bool:
        return bool(Tensor(self._whole()))

    def __contains__(self, value: object) -> bool:
        same: Any = self == value
        return bool(same.any())

    def __repr__(self) -> str:
        """Return what this rank holds: nothing is sent, and one rank may ask alone.

        Replicas show their values; a part, or a term, is called local.
        """
        layout = self.layout
        if layout.mesh.get_coordinate() is None:
            return self._written(f"not held here, shape={self.shape}, dtype={self.dtype}")
        if is_coming(self.data):
            return self._written(f"on its way, shape={self.shape}, dtype={self.dtype}")
        body = repr(Tensor(self.data.local))[len("tensor(") : -1]
        if not layout.is_replicated:
            body = f"local={body}, shape={self.shape}"
        return self._written(body)

    def __str__(self) -> str:
        """Return the values of the whole; all ranks of the mesh must ask for it, as by ``print(x)``."""
        if self.layout.mesh.get_coordinate() is None:
            return repr(self)
        return self._written(repr(Tensor(self._whole()))[len("tensor(") : -1])

    def _written(self, body: str) -> str:
        note = (
            f", grad_fn={self.node}"
            if self.node is not None
            else ", requires_grad=True"
            if self.requires_grad
            else ""
        )
        return f"DTensor({body}, {self.layout.mesh!r}, [{str(self.layout).replace(' ', ', ')}]{note})"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and not self.shape else str(self)

    def __reduce__(self) -> Any:
        raise LayoutError(
            "a DTensor is not pickled: its parts are on several ranks. Save to_local() of each rank, or "
            "full_tensor() on one"
        )

    @property
    def device(self) -> Any:
        """Where this rank's part is."""
        return Tensor(self.data.local).device


def _has_array(values: Any) -> bool:
    """Tell whether a tensor or an array is among arguments that might differ between ranks."""
    for each in values:
        if isinstance(each, (tuple, list)):
            if _has_array(each):
                return True
        elif not isinstance(each, DTensor) and hasattr(each, "dtype") and each.ndim:
            return True
    return False


ShardedArray.tensor_class = DTensor
