"""`Arguments`: what is known of a model's arguments before they are there; what goes from stage to stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from shardwise.backend.errors import ScheduleError
from shardwise.backend.shape import ShapeArray
from shardwise.pipelining.absent import Absent, is_absent
from shardwise.tensor import Tensor
from shardwise.tensor.tree import TreeDef, tree_flatten, tree_unflatten

__all__ = ["Arguments", "Crossing", "Known"]


class Known(NamedTuple):
    """What is known of a tensor or array that is an argument."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    requires_grad: bool
    place: str
    is_tensor: bool

    def absent(self) -> Any:
        """Return one without values."""
        if not self.is_tensor:
            return ShapeArray(self.shape, self.dtype)
        tensor = Absent(self.shape, self.dtype, self.place)
        tensor.requires_grad = self.requires_grad
        return tensor


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one call of a model: of arrays what is known, of all else the values.

    Attributes
    ----------
    leaves : tuple
        `Known`, or a value that is no array, in the order of `tree_flatten`.
    tree : TreeDef
        Of ``(args, kwargs)``.
    """

    leaves: tuple[Any, ...]
    tree: TreeDef

    @classmethod
    def of(cls, args: Sequence[Any], kwargs: Mapping[str, Any], device: str) -> Arguments:
        """Return what is known of arguments; `device` is where the values of those without data will be.

        Raises
        ------
        ScheduleError
            One is neither an array nor a value that can be compared and sent.
        """
        leaves, tree = tree_flatten((tuple(args), dict(sorted(kwargs.items()))))
        return cls(tuple([_known(leaf, device) for leaf in leaves]), tree)

    def absent(self) -> list[Any]:
        """Return the leaves, with tensors and arrays without values."""
        return [leaf.absent() if isinstance(leaf, Known) else leaf for leaf in self.leaves]

    def put_together(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return leaves as positional and keyword arguments."""
        args, kwargs = tree_unflatten(self.tree, leaves)
        return args, kwargs

    def names(self) -> list[str | None]:
        """Return per leaf the keyword that it came under, None for positional ones."""
        args, kwargs = self.tree.children
        found: list[str | None] = [None] * args.num_leaves
        for name, child in zip(kwargs.keys, kwargs.children, strict=True):
            found += [name] * child.num_leaves
        return found

    def with_given(self, leaves: list[Any], kwargs: Mapping[str, Any]) -> None:
        """Put keyword arguments that are here into `leaves`, in place of what stands for them.

        Raises
        ------
        ScheduleError
            The first stage was called without one of them, or with one of another structure.
        """
        _, named = self.tree.children
        start = self.tree.children[0].num_leaves
        unknown = sorted(kwargs.keys() - set(named.keys))
        if unknown:
            raise ScheduleError(
                f"keyword arguments {unknown} are given here and not on the rank of the first stage; give "
                "keyword arguments there, too"
            )
        for name, child in zip(named.keys, named.children, strict=True):
            if name in kwargs:
                given, tree = tree_flatten(kwargs[name])
                if tree != child:
                    raise ScheduleError(
                        f"keyword argument {name!r} is nested otherwise here than on the rank of the first "
                        "stage; give the same on all ranks"
                    )
                for i, leaf in enumerate(given, start):
                    wanted = self.leaves[i]
                    shape = tuple(getattr(leaf, "shape", ()))
                    if isinstance(wanted, Known) and wanted.shape != shape:
                        raise ScheduleError(
                            f"keyword argument {name!r} has shape {shape} here and "
                            f"{wanted.shape} on the rank of the first stage; give the same on all ranks"
                        )
                    leaves[i] = leaf
            start += child.num_leaves


def _known(leaf: Any, device: str) -> Any:
    if isinstance(leaf, Tensor):
        place = device if is_absent(leaf) and not isinstance(leaf, Absent) else str(leaf.device)
        return Known(tuple(leaf.shape), leaf.dtype, leaf.requires_grad, place, True)
    if hasattr(leaf, "dtype") and hasattr(leaf, "shape"):
        return Known(tuple(leaf.shape), np.dtype(leaf.dtype), False, device, False)
    try:
        hash(leaf)
    except TypeError:
        raise ScheduleError(
            f"a {type(leaf).__name__} cannot be an argument of a split model: wanted tensors, arrays, "
            "and values that can be compared, such as numbers and strings"
        ) from None
    return leaf


class Crossing(dict[str, tuple[Tensor, ...]]):
    """What a stage gives to the next one: tensors, and (as an attribute) what the model was called with.

    The tensors travel as any results of a stage do. What the model was called with is a part of their
    structure, which stages agree on before a step: so each of them knows the shapes of the whole model.
    """

    arguments: Arguments

    @classmethod
    def of(cls, tensors: Sequence[Tensor], arguments: Arguments, name: str = "tensors") -> Crossing:
        """Put them together; structures under different names are told apart."""
        made = cls({name: tuple(tensors)})
        made.arguments = arguments
        return made

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Return the tensors."""
        return next(iter(self.values()))
