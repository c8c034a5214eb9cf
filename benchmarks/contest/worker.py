"""One process of one side: it does what its team asks for, one line of JSON at a time.

Between two commands it sleeps on its socket, so that the side whose turn it is has the cores to itself.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from contest.task import Task
from contest.trainee import Trainee

__all__ = ["main"]


def obey(trainee: Trainee, command: dict[str, object]) -> object:
    """Carry out one command; every rank of a team gets the same."""
    match command:
        case {"do": "steps", "count": int(count), "synchronised": bool(synchronised)}:
            laps = []
            for _ in range(count):
                trainee.barrier()  # so that no rank's lap holds another's delay before it
                laps.append(trainee.step(synchronised))
            return laps
        case {"do": "all_reduce", "count": int(count)}:
            seconds = []
            for _ in range(count):
                trainee.barrier()
                seconds.append(trainee.all_reduce())
            return seconds
        case {"do": "product"}:
            trainee.barrier()
            return trainee.product()
        case {"do": "profile", "count": int(count)}:
            from contest.stopwatch import profile  # knows our engine, which a peer's process does not load

            return asdict(profile(trainee, count))
    raise ValueError(f"a worker does not know the command {command}")


def enter(side: str, task: Task, rank: int, size: int, meeting: Path) -> Trainee:
    """Build the model of a side, which loads that side's library and no other."""
    if side == "ours":
        from contest.gpt import Ours

        return Ours(task)
    from contest.torch_gpt import Torch

    return Torch(task, rank, size, meeting)


def main(argv: Sequence[str] | None = None) -> None:
    """Join the team that listens at an address, and obey until it says stop."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("side", choices=["ours", "torch"])
    parser.add_argument("--address", required=True, help="the socket at which the team listens")
    parser.add_argument("--task", type=Task.from_json, required=True)
    parser.add_argument("--rank", type=int, default=0, help="of a process of torch; ours ask their world")
    parser.add_argument("--size", type=int, default=1)
    parser.add_argument("--meeting", type=Path, default=Path("meeting"), help="where those of torch meet")
    options = parser.parse_args(argv)
    trainee = enter(options.side, options.task, options.rank, options.size, options.meeting)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(options.address)
        with connection.makefile("rw", encoding="utf-8") as line:
            cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
            answer: object = {"rank": trainee.rank, "size": trainee.size, "cores": cores}
            while True:
                print(json.dumps(answer), file=line, flush=True)
                command = json.loads(line.readline() or '{"do": "stop"}')
                if command == {"do": "stop"}:
                    break
                answer = obey(trainee, command)
    trainee.close()


if __name__ == "__main__":
    main()
