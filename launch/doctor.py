"""``shardwise doctor``: look at this machine, alone or with ranks, and say what to do.

Alone it starts neither MPI nor a device in this process, so it runs on a login node too. As a rank of a job
(``shardwise doctor -n 4``, or ``srun python -m shardwise.launch.doctor``) looks at each host from its first
rank, compares hosts, and measures between ranks; rank 0 prints.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from shardwise.backend.errors import LaunchError
from shardwise.collectives import (
    LauncherEnvironment,
    broadcast_object,
    get_world,
    launcher_environment,
    shutdown,
)
from shardwise.launch.checks import LOCAL, Family, Finding, look
from shardwise.launch.checks.finding import Check, fail, worst
from shardwise.launch.checks.gpu import find_devices
from shardwise.launch.checks.kernel import check_kernels, check_kernels_on_device
from shardwise.launch.checks.leftover import judge_leftovers
from shardwise.launch.checks.link import calibrate
from shardwise.launch.checks.together import look_together
from shardwise.launch.doctor_report import as_json, as_text, exit_code
from shardwise.launch.terminal import on_terminal

__all__ = ["main"]

Begin: TypeAlias = Callable[[str], None]

_KERNEL_SECONDS = 6.0
_HINT = "With ranks: shardwise doctor -n 2"


def main(argv: Sequence[str] | None = None) -> int:
    """Examine this machine, alone or as a rank of a job.

    Parameters
    ----------
    argv : sequence of str, optional
        ``--json``, ``--quick``, ``--full``, ``--calibrate``; ``sys.argv[1:]`` by default.

    Returns
    -------
    int
        0, or 1 if something does not work.
    """
    parser = argparse.ArgumentParser(prog="python -m shardwise.launch.doctor")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument("--quick", action="store_true", help="leave out kernels, and large arrays")
    parser.add_argument("--full", action="store_true", help="check all kernels, however long it takes")
    parser.add_argument("--calibrate", action="store_true", help="measure links, and keep what they cost")
    options = parser.parse_args(argv)
    began = time.monotonic()
    launched = launcher_environment(os.environ)
    if launched is not None and (launched.size == 1 or _is_leftover()):
        launched = None
    if launched is None and options.calibrate:
        parser.error("--calibrate measures between ranks; say shardwise doctor -n 2 --calibrate")
    shown = launched is None or launched.rank == 0
    begin = partial(_say, shown and not options.json and on_terminal(sys.stderr))
    local = partial(look, _families(options, begin), begin)
    if launched is None:
        families, code = local(), 0
    else:
        families, code = _examine_ranks(launched, local, begin, options)
    begin("")
    if not shown:
        return code
    if options.json:
        ranks = 1 if launched is None else launched.size
        print(as_json(families, ranks=ranks, seconds=time.monotonic() - began))
    else:
        print(as_text(families, coloured=on_terminal(), hint="" if launched else _HINT))
    return exit_code(families)


def _families(options: argparse.Namespace, begin: Begin) -> Mapping[str, tuple[Check, ...]]:
    """Give the checks of one host, with those of kernels unless they are left out."""
    if options.quick:
        return LOCAL
    seconds = float("inf") if options.full else _KERNEL_SECONDS

    def told(done: int, todo: int) -> None:
        begin(f"Kernels, {done} of {todo}")

    def check_fused() -> Iterable[Finding]:
        return check_kernels(seconds, told)

    def check_device() -> Iterable[Finding]:
        return check_kernels_on_device(told) if find_devices().names else ()

    return {**LOCAL, "Kernels": (check_fused, check_device)}


def _examine_ranks(
    launched: LauncherEnvironment,
    local: Callable[[], list[Family]],
    begin: Begin,
    options: argparse.Namespace,
) -> tuple[list[Family], int]:
    """Give what was found to rank 0, and the exit code to all."""
    try:
        world = get_world()
    except LaunchError as error:
        if launched.rank:
            return [], 1
        # Errors of ours end with what to do.
        what, _, todo = " ".join(str(error).split()).removesuffix(".").rpartition(". ")
        found = fail(
            "world", what or todo, todo if what else "start with shardwise run, which picks the right MPI"
        )
        return [*local(), Family("Ranks", (found,))], 1
    families = look_together(world, local, begin, quick=options.quick)
    if options.calibrate:
        begin("Links")
        families.append(Family("Links", tuple(calibrate(world, quick=options.quick))))
    code = broadcast_object(exit_code(families))
    shutdown()
    return families, code


def _is_leftover() -> bool:
    return worst(judge_leftovers(os.environ)) == "fail"


def _say(shown: bool, text: str) -> None:
    """Show what is being looked at on one line, which the next text takes; an empty one clears it."""
    if shown:
        print(f"\r\x1b[2K{text + ' ...' if text else ''}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
