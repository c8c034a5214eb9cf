"""`Batch`: what goes into a step, cut into microbatches, and what their losses count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from shardwise.backend.errors import ScheduleError
from shardwise.pipelining.microbatch import rows, split
from shardwise.tensor import Tensor

__all__ = ["Batch", "Reduction", "cut", "weights_of", "windows_of"]

Reduction: TypeAlias = Literal["mean", "sum"] | Callable[[Any], float]
"""How the losses of microbatches make that of the batch: by their rows, each in full, or by a number of each
target, such as its valid tokens, which are made to add up to one."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch, as this rank sees it.

    Attributes
    ----------
    args : sequence of tuple, or None
        Of the first stage, per microbatch; None where that is not here.
    kwargs : sequence of dict
        Of this rank's stages, per microbatch.
    targets : sequence, or None
        Per microbatch, where the last stage is here.
    loss : callable or None
        ``loss(output, target)``.
    weights : sequence of float
        What each microbatch's loss counts.
    windows : sequence of (int, int)
        First row and number of rows of each microbatch in the whole batch.
    """

    args: Sequence[tuple[Any, ...]] | None
    kwargs: Sequence[dict[str, Any]]
    targets: Sequence[Any] | None
    loss: Callable[[Any, Any], Tensor] | None
    weights: Sequence[float]
    windows: Sequence[tuple[int, int]]

    def arguments(self, i: int) -> tuple[Any, ...]:
        """Return the arguments of the model for a microbatch."""
        assert self.args is not None
        return self.args[i]

    def loss_of(self, result: Any, i: int) -> Tensor | None:
        """Return the loss of a microbatch, or None where there is none.

        Raises
        ------
        ScheduleError
            It is no number.
        """
        if self.loss is None or self.targets is None:
            return None
        loss = self.loss(result, self.targets[i])
        if not isinstance(loss, Tensor) or loss.data.size != 1:
            what = (
                f"a tensor of shape {list(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
            )
            raise ScheduleError(
                f"loss_fn must give a tensor with one element for each microbatch, got {what}; "
                "take the mean or the sum"
            )
        return loss


def weights_of(targets: Sequence[Any], reduction: Reduction) -> list[float]:
    """Return what the loss of each microbatch counts.

    Examples
    --------
    >>> import numpy as np
    >>> weights_of([np.zeros(3), np.zeros(1)], "mean"), weights_of([np.zeros(3), np.zeros(1)], "sum")
    ([0.75, 0.25], [1.0, 1.0])
    """
    if reduction == "sum":
        return [1.0] * len(targets)
    sizes = [rows(target) if reduction == "mean" else float(reduction(target)) for target in targets]
    total = sum(sizes)
    if not total > 0:
        raise ScheduleError(
            f"loss_reduction: the weights of the microbatches are {sizes}; wanted a positive sum"
        )
    return [size / total for size in sizes]


def windows_of(rows_: Sequence[int], part: int = 0) -> list[tuple[int, int]]:
    """Return which rows of the whole batch each microbatch holds.

    Parameters
    ----------
    rows_ : sequence of int
        Of each microbatch.
    part : int
        Which of several equal parts of the batch this is, with data parallelism.
    """
    first = part * sum(rows_)
    return [(first + sum(rows_[:i]), size) for i, size in enumerate(rows_)]


def cut(
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    target: Any,
    count: int,
    ends: tuple[bool, bool, bool],
    train: bool,
    specs: tuple[Any, Any, Any, Any],
) -> tuple[list[Any] | None, list[Any], list[Any] | None, str | None]:
    """Cut what a rank was given into microbatches; the last result says what is wrong with it.

    Parameters
    ----------
    args, kwargs, target
        Of the step.
    count : int
        Of microbatches.
    ends : tuple of bool
        Whether the first stage is here, the last one, and whether a loss function is missing.
    train : bool
    specs : tuple
        Of arguments, keyword arguments, targets, and results.
    """
    has_first, has_last, lossless = ends
    chunks: list[Any] | None = None
    targets: list[Any] | None = None
    try:
        if has_first:
            chunks = split(args, count, "argument", specs[0])
        elif args:
            raise ScheduleError(
                f"got {len(args)} positional arguments without the first stage; give them to the rank that "
                "has it, and keyword arguments to each rank for its own stages"
            )
        named = split(kwargs, count, "keyword argument", specs[1])
        if has_last and target is not None:
            targets = split(target, count, "target", specs[2])
        if train and has_last and (lossless or targets is None):
            raise ScheduleError(
                "a step with backwards needs loss_fn= of the pipeline and target= on the rank of the "
                "last stage; without them call eval()"
            )
    except ScheduleError as error:
        return None, [], None, str(error)
    return chunks, named, targets, None
