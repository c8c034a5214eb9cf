"""`PipeInfo`: what a split model's stages are, as data and as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shardwise.nn import Module
from shardwise.pipelining.cost import Costs
from shardwise.pipelining.cut import Part
from shardwise.pipelining.tied import Tied
from shardwise.pipelining.trace import TracedValue
from shardwise.tensor import Tensor

__all__ = ["PipeInfo", "SkipValue", "StageInfo", "describe"]


@dataclass(frozen=True, slots=True)
class SkipValue:
    """A tensor that stages behind the next one need.

    Attributes
    ----------
    source : int
        The stage that makes it.
    users : tuple of int
        The stages that read it.
    shape : tuple of int
    dtype : str
    requires_grad : bool
        Whether gradients come back.

    Notes
    -----
    It goes straight to each of `users`, and its gradients come straight back.
    """

    source: int
    users: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: str
    requires_grad: bool

    def __str__(self) -> str:
        users = ", ".join(map(str, self.users))
        return f"{self.dtype}{list(self.shape)} of stage {self.source}, read by {users}"


@dataclass(frozen=True, slots=True)
class StageInfo:
    """One stage, for one microbatch of the size that the model was split with.

    Attributes
    ----------
    index : int
    modules : tuple of str
        The outermost modules that run in it whole.
    state : tuple of str
        Its parameters and buffers.
    keywords : tuple of str
        Keyword arguments of the model that it reads.
    parameter_bytes, activation_bytes : int
        What it holds, and what it keeps of a microbatch for its backward.
    flops : int
        Of a forward.
    received_bytes, given_bytes : int
        What crosses its borders.
    """

    index: int
    modules: tuple[str, ...]
    state: tuple[str, ...]
    keywords: tuple[str, ...]
    parameter_bytes: int
    activation_bytes: int
    flops: int
    received_bytes: int
    given_bytes: int


@dataclass(frozen=True, slots=True)
class PipeInfo:
    """What there is to know of a split model.

    Attributes
    ----------
    stages : tuple of StageInfo
    skips : tuple of SkipValue
    tied : tuple of Tied
        Parameters that several stages hold.
    """

    stages: tuple[StageInfo, ...]
    skips: tuple[SkipValue, ...]
    tied: tuple[Tied, ...]

    @property
    def num_stages(self) -> int:
        """Number of stages."""
        return len(self.stages)

    def costs(self, flops_per_second: float = 1.0, bytes_per_second: float | None = None) -> Costs:
        """Return what the stages take, for `simulate` and `best_schedule`.

        Parameters
        ----------
        flops_per_second, bytes_per_second : float, optional
            Of a rank, and of a link between ranks, which takes no time if this is not given.
        """
        forward = [stage.flops / flops_per_second for stage in self.stages]
        return Costs(
            F=forward,
            I=forward,
            W=forward,
            bandwidth=bytes_per_second,
            message=[float(stage.given_bytes) for stage in self.stages],
            activation=[float(stage.activation_bytes) for stage in self.stages],
            weights=[float(stage.parameter_bytes) for stage in self.stages],
            gradients=[float(stage.parameter_bytes) for stage in self.stages],
        )

    def __str__(self) -> str:
        head = ("stage", "modules", "parameters", "activations", "forward", "in", "out", "keywords")
        rows = [
            (
                str(stage.index), _listed(stage.modules), _bytes(stage.parameter_bytes),
                _bytes(stage.activation_bytes), _scaled(stage.flops, "FLOP"), _bytes(stage.received_bytes),
                _bytes(stage.given_bytes), ", ".join(stage.keywords),
            )
            for stage in self.stages
        ]  # fmt: skip
        lines = _table([head, *rows])
        lines += [f"skip: {skip}" for skip in self.skips]
        for tied in self.tied:
            places = ", ".join(f"{name} in stage {stage}" for stage, name in tied.places)
            lines.append(f"tied: {places}")
        return "\n".join(lines)


def describe(parts: Sequence[Part], model: Module, tied: Sequence[Tied]) -> PipeInfo:
    """Return what the parts of a model are."""
    state: dict[str, Tensor] = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return PipeInfo(tuple([_stage(part, state) for part in parts]), tuple(_skips(parts)), tuple(tied))


def _stage(part: Part, state: Mapping[str, Tensor]) -> StageInfo:
    steps = part.steps()
    modules: list[str] = []
    stop = -1
    for call in part.trace.calls.values():
        whole = part.owns(call.enter) and part.owns(call.leave)
        if whole and call.enter > stop and any(call.enter < step.event < call.leave for step in steps):
            modules.append(call.id.path)
            stop = call.leave
    parameters = [state[name] for name in sorted(part.state)]
    return StageInfo(
        part.index, tuple(modules), tuple(sorted(part.state)), tuple(part.keywords),
        sum([each.nbytes for each in parameters]), sum([step.kept for step in steps]),
        sum([step.flops for step in steps if not step.constant]),
        sum(map(_size, part.incoming)), sum(map(_size, part.outgoing)),
    )  # fmt: skip


def _size(value: TracedValue) -> int:
    return math.prod(value.fact.shape) * int(value.fact.dtype.itemsize)


def _skips(parts: Sequence[Part]) -> list[SkipValue]:
    """Return the values that go past stages."""
    found = []
    for part in parts:
        for value in part.stashed:
            users = tuple([other.index for other in parts if value in other.incoming])
            needs = value.requires_grad(part.stop)
            found.append(SkipValue(part.index, users, value.fact.shape, str(value.fact.dtype), needs))
    return found


def _listed(names: Sequence[str]) -> str:
    """Write names, those that differ in one number alone as a range."""
    rows: list[tuple[str, int, int, str]] = []
    for name in names:
        head, _, tail = name.rpartition(".")
        number = int(tail) if tail.isdigit() else -1
        if rows and number >= 0 and rows[-1][0] == head and rows[-1][2] == number - 1:
            rows[-1] = (head, rows[-1][1], number, name)
        else:
            rows.append((head, number, number, name))
    spelled = [
        f"{head}{'.' if head else ''}{first}-{last}" if last > first else name
        for head, first, last, name in rows
    ]
    return ", ".join(spelled)


def _bytes(count: int) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            break
        count /= 1024  # type: ignore[assignment]  # a fraction from here on
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"


def _scaled(count: float, unit: str) -> str:
    for prefix in ("", "k", "M", "G", "T"):
        if count < 1000 or prefix == "T":
            break
        count /= 1000
    return f"{count:.3g} {prefix}{unit}"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    kept = [i for i in range(len(rows[0])) if any(row[i] for row in rows[1:])]
    widths = {i: max(len(row[i]) for row in rows) for i in kept}
    return ["  ".join(row[i].ljust(widths[i]) for i in kept).rstrip() for row in rows]
