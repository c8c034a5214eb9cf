"""What happens once, when a pipeline is made: ranks compare what they got, and copies are made equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from shardwise.backend.array import Array
from shardwise.backend.errors import ScheduleError
from shardwise.collectives import ProcessGroup, all_gather_object, get_group, implicit, rank, world_size
from shardwise.pipelining.meta import part_of
from shardwise.pipelining.program import Program
from shardwise.pipelining.replica import DataParallel, Replicas
from shardwise.pipelining.stage import PipelineStage

__all__ = ["checked_ranks", "compare_stages", "made_equal", "on_device", "part_of_batch"]


def checked_ranks(program: Program, ranks: Sequence[int] | None) -> tuple[int, ...]:
    """Return the global ranks of the places of a program.

    Raises
    ------
    ScheduleError
        They are too many, too few, or not those of this world; or this rank is none of them.
    """
    found = tuple(range(len(program)) if ranks is None else ranks)
    if len(found) != len(program) or max(found) >= world_size() or len(set(found)) < len(found):
        raise ScheduleError(
            f"the program is for {len(program)} ranks, and the world has {world_size()}: ranks={list(found)}"
        )
    if rank() not in found:
        raise ScheduleError(f"rank {rank()} has no place in this pipeline of ranks {list(found)}")
    return found


def compare_stages(
    program: Program, stages: Sequence[PipelineStage], place: int, group: ProcessGroup
) -> tuple[bool, bool]:
    """Compare programs and stages over the ranks.

    Returns
    -------
    bool
        Whether a stage of any of them is sharded.
    bool
        Whether all of them compute on devices.

    Raises
    ------
    ScheduleError
        Something is wrong on one rank: on all of them.
    """
    wanted, count = list(program.stages_of(place)), program.stages
    got = [(stage.stage_index, stage.num_stages) for stage in stages]
    failure = None
    if sorted(index for index, _ in got) != wanted or any(of != count for _, of in got):
        failure = f"rank {rank()}: the program puts stages {wanted} of {count} here, and got {got}"
    sharded = any(stage.sharded is not None for stage in stages)
    with implicit():
        told = all_gather_object((program.to_text(), failure, sharded, on_device(stages) is not None), group)
    found = [text for _, text, _, _ in told if text is not None]
    others = [r for r, (text, *_) in zip(group.ranks, told, strict=True) if text != told[0][0]]
    if others:
        found.append(f"ranks {others} were given another program than rank {group.ranks[0]}")
    if found:
        raise ScheduleError("; ".join(found))
    return any(has for _, _, has, _ in told), all(on for *_, on in told)


def on_device(stages: Iterable[PipelineStage]) -> Array | None:
    """Return an array of stages on a device, if one has parameters or buffers there."""
    for stage in stages:
        for tensor in (*stage.submodule.parameters(), *stage.submodule.buffers()):
            if tensor.device.type == "cuda":
                return part_of(tensor)
    return None


def made_equal(
    program: Program,
    stages: Mapping[int, PipelineStage],
    ranks: Sequence[int],
    data_parallel: ProcessGroup | None,
) -> list[Replicas]:
    """Make copies of stages equal, in the order of stages, which is the same on all ranks.

    Returns
    -------
    list of Replicas
        Of the stages that other ranks of the pipeline hold too.
    """
    found, holders = [], program.holders
    for index in sorted(stages):
        if len(holders[index]) > 1:
            members = tuple(sorted([ranks[place] for place in holders[index]]))
            found.append(Replicas(stages[index], get_group(members)))
    for index in sorted(stages) if data_parallel is not None else ():
        wrapped = hasattr(stages[index].submodule, "no_sync")  # which reduces in its last backward of a step
        if stages[index].sharded is None and not wrapped and data_parallel is not None:
            stages[index].sharded = DataParallel(stages[index], data_parallel)
    return found


def part_of_batch(stages: Mapping[int, PipelineStage], data_parallel: ProcessGroup | None) -> int:
    """Return which of the equal parts of the whole batch this rank's pipeline has: random masks follow it."""
    for stage in stages.values():
        group = getattr(stage.submodule, "process_group", None)
        if data_parallel is None and isinstance(group, ProcessGroup):  # of a DistributedDataParallel
            data_parallel = group
    return 0 if data_parallel is None else data_parallel.rank or 0
