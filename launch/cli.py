"""The command ``shardwise``: reads its arguments and starts what they ask for."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from shardwise import __version__
from shardwise.backend.errors import LaunchError
from shardwise.collectives.rank_list import rank_list
from shardwise.launch.failure import SPEAKER
from shardwise.launch.job import Job
from shardwise.launch.mpi import find_library
from shardwise.launch.output import Screen, StreamName
from shardwise.launch.plan import Plan, plan_job, refuse_nested
from shardwise.launch.reach import LAUNCHERS, Wish, find_reach
from shardwise.launch.series import Series
from shardwise.launch.target import check_target
from shardwise.launch.terminal import TERMINAL_VARIABLE, terminal_width

__all__ = ["main"]

_USAGE_ERROR = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Without the program's name; ``sys.argv[1:]`` by default.

    Returns
    -------
    int
        The exit code: that of the rank that failed first, 128 + signal for signals, 124 after a time-out, 2
        for what could not be started as asked.
    """
    _open_what_is_closed()
    parser = _parser()
    try:
        arguments, rest = parser.parse_known_args(argv)
        if arguments.command == "schedule":
            # A process of its own, as the doctor: what it imports would make `shardwise run` start later.
            plan = [sys.executable, "-m", "shardwise.launch.schedule", *rest]
            return subprocess.run(plan, check=False).returncode
        if rest and arguments.command != "doctor":
            parser.error(f"unrecognized arguments: {' '.join(rest)}")
        return _run(arguments) if arguments.command == "run" else _examine(arguments, rest)
    except LaunchError as error:
        _tell(str(error))
        return _USAGE_ERROR
    finally:
        _give_up_what_stderr_did_not_take()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="shardwise", description="Distributed training without torch.")
    parser.add_argument("--version", action="version", version=f"shardwise {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    run = commands.add_parser(
        "run",
        help="start the ranks of a script, on this host or on several",
        usage="shardwise run [-n RANKS] [options] (script.py | -m module) [arguments of the script ...]",
        description="Start a script as n ranks with the MPI that mpi4py uses: on this host, on hosts that "
        "are named, or on those of the batch job that this runs in.",
        allow_abbrev=False,
    )
    run.add_argument(
        "-n",
        "--ranks",
        type=int,
        help="number of ranks (default: what the hosts are meant for; on this host 1, which needs no MPI)",
    )
    _add_hosts(run)
    run.add_argument("--dry-run", action="store_true", help="print the command and its environment, and stop")
    run.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="end the job if it takes longer")
    run.add_argument(
        "--grace",
        type=_seconds,
        default=10.0,
        metavar="SECONDS",
        help="what ranks get to end by themselves after Ctrl-C or SIGTERM (default 10)",
    )
    run.add_argument("--share-gpus", action="store_true", help="let several ranks have one GPU; slower")
    run.add_argument("--no-pin", action="store_true", help="do not give each rank cores of its own")
    run.add_argument(
        "--no-prefix", action="store_true", help="do not begin each line of output with its rank"
    )
    run.add_argument(
        "--log-dir", type=Path, metavar="DIR", help="also write each rank's output to DIR/0.out, 0.err"
    )
    run.add_argument(
        "--show-ranks",
        type=_ranks,
        metavar="RANKS",
        help="show what these ranks print, such as 0,2-3, and nothing of the others",
    )
    run.add_argument(
        "--restarts",
        type=_count,
        default=0,
        metavar="K",
        help="start a failed job again, at most K times (default 0)",
    )
    run.add_argument("--mpiexec", metavar="PATH", help="the mpiexec to use, of the MPI that mpi4py uses")
    run.add_argument("--oversubscribe", action="store_true", help="allow more than 16 ranks per core")
    # Both take the rest as it is, whatever it looks like.
    run.add_argument("-m", dest="module", nargs=argparse.REMAINDER, metavar="module", help="run a module")
    run.add_argument("script", nargs=argparse.REMAINDER, help="a Python script, and its arguments")
    _add_doctor(
        commands.add_parser("doctor", help="look at this machine, and say what to do", allow_abbrev=False)
    )
    # It reads its arguments itself, -h included.
    commands.add_parser("schedule", help="draw, explain and compare schedules of a pipeline", add_help=False)
    return parser


def _add_doctor(doctor: argparse.ArgumentParser) -> None:
    doctor.usage = (
        "shardwise doctor [-n RANKS] [--json] [--quick | --full] [--calibrate] [options of shardwise run]"
    )
    doctor.description = (
        "Check versions, MPI, cores, memory, network, GPUs and fused kernels of this host. With -n or "
        "--hosts, "
        "start ranks that compare the hosts and measure how fast they talk; options of shardwise run say "
        "where "
        "and how. The exit code is 1 if something does not work."
    )
    doctor.add_argument("-n", "--ranks", type=int, help="number of ranks (default: none are started)")
    doctor.add_argument("--json", action="store_true", help="print the findings as JSON")
    doctor.add_argument("--quick", action="store_true", help="leave out kernels, and large arrays")
    doctor.add_argument("--full", action="store_true", help="check all kernels, however long it takes")
    doctor.add_argument(
        "--calibrate",
        action="store_true",
        help="with ranks: measure links and keep what they cost, for plans",
    )


def _add_hosts(run: argparse.ArgumentParser) -> None:
    run.add_argument("--hosts", metavar="LIST", help="hosts and how many ranks each: a:2,b:2, or n[01-04]:2")
    run.add_argument("--hostfile", type=Path, metavar="FILE", help="a file that names them, a line each")
    run.add_argument(
        "--launcher",
        choices=tuple(LAUNCHERS),
        help="; ".join(f"{name}: {what}" for name, what in LAUNCHERS.items()),
    )
    run.add_argument(
        "--launch-agent", metavar="CMD", help="what stands in for ssh, called as CMD HOST COMMAND..."
    )
    run.add_argument(
        "--iface", metavar="NAME", help="the network between hosts: eth0, an address, or 10.0.0.0/8"
    )


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"must be a number from 0, got {text}")
    return int(text)


def _ranks(text: str) -> frozenset[int]:
    ranks: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first:
            raise argparse.ArgumentTypeError(f"must name ranks, such as 0,2-3, got {text}")
        ranks |= set(range(first, last + 1))
    return frozenset(ranks)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise argparse.ArgumentTypeError(f"must be a positive number of seconds, got {text}")
    return value


def _run(arguments: argparse.Namespace) -> int:
    target = ("-m", *arguments.module) if arguments.module is not None else tuple(arguments.script)
    if not target or target == ("-m",):
        raise LaunchError(
            "what is to be run? Give a script, or -m and a module: shardwise run -n 2 script.py"
        )
    check_target(target)
    refuse_nested(os.environ)
    wish = Wish(
        ranks=arguments.ranks,
        hosts=arguments.hosts,
        hostfile=arguments.hostfile,
        launcher=arguments.launcher,
        agent=arguments.launch_agent,
        iface=arguments.iface,
        oversubscribe=arguments.oversubscribe,
    )
    plan = plan_job(
        find_reach(wish, os.environ, lambda: find_library()[1] is None),
        target,
        os.environ,
        pin=not arguments.no_pin,
        oversubscribe=arguments.oversubscribe,
        mpiexec=arguments.mpiexec,
        share_gpus=arguments.share_gpus,
    )
    absent = {rank for rank in arguments.show_ranks or () if rank >= plan.size}
    if absent:
        raise LaunchError(f"--show-ranks names {rank_list(absent)}, but the job has {plan.size}, from 0")
    for warning in plan.warnings:
        _tell(f"warning: {warning}")
    if arguments.dry_run:
        _print_plan(plan)
        return 0
    if arguments.log_dir is not None:
        try:
            arguments.log_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LaunchError(f"--log-dir {arguments.log_dir}: {error.strerror}") from error
    return _execute(plan, arguments)


def _examine(arguments: argparse.Namespace, rest: Sequence[str]) -> int:
    """Run the doctor here, or as ranks that `rest` tells where to start."""
    target = ("-m", "shardwise.launch.doctor")
    flags = [f"--{name}" for name in ("json", "quick", "full", "calibrate") if getattr(arguments, name)]
    # A process of its own: it loads every kernel, which would make each `shardwise run` start later.
    alone = [sys.executable, *target, *flags]
    if not rest and arguments.ranks in (None, 1):
        return subprocess.run(alone, check=False).returncode
    ranks = () if arguments.ranks is None else ("-n", str(arguments.ranks))
    code = main(["run", *ranks, *rest, "--no-prefix", *target, *flags])
    if code == _USAGE_ERROR:
        subprocess.run(alone, check=False)  # why they could not be started may be seen without them
        return 1
    return code


def _print_plan(plan: Plan) -> None:
    for reason in plan.reach.reasons:
        print(f"# {reason}")
    for name, value in plan.environment.items():
        print(f"{name}={shlex.quote(value)} \\")
    print(shlex.join(plan.argv))


def _execute(plan: Plan, arguments: argparse.Namespace) -> int:
    """Start the job, hand it our signals, and print its verdict."""
    direct = plan.size == 1 and plan.reach.launcher == "fork" and arguments.log_dir is None
    names: tuple[StreamName, ...] = ("stdout", "stderr")
    terminals = frozenset(name for number, name in enumerate(names, start=1) if _is_terminal(number))
    screen = Screen(
        {"stdout": sys.stdout.buffer, "stderr": sys.stderr.buffer},
        terminals,
        prefixed=plan.size > 1 and not arguments.no_prefix,
        shown=arguments.show_ranks,
    )
    environ = dict(os.environ)
    if terminals:
        environ[TERMINAL_VARIABLE] = ",".join(sorted(terminals))
        # One less than fits, where the last column would make the line of a progress bar wrap.
        prefix = screen.prefix_width(plan.size)
        environ["COLUMNS"] = str(max(1, terminal_width() - prefix - (1 if prefix else 0)))
    series = Series(
        plan,
        screen,
        restarts=arguments.restarts,
        make_job=lambda attempt: Job(
            attempt,
            environ,
            screen,
            timeout=arguments.timeout,
            grace=arguments.grace,
            log_dir=_log_folder(arguments.log_dir, attempt),
            direct=direct,
        ),
    )
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"):
        signal.signal(getattr(signal, name), lambda number, frame: series.order(number))
    try:
        verdict = series.run()
    except BrokenPipeError:
        # Whoever read our output has gone, as in `shardwise run ... | head`; nobody is left to be told.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 128 + signal.SIGPIPE
    except OSError as error:  # a full disk, mostly; what went through is there, and the ranks have ended
        screen.say(f"{SPEAKER}: the job was stopped: {error.strerror}")
        for number in (1, 2):  # what could not be written must not be tried again at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
        return 1
    return verdict.code


def _log_folder(folder: Path | None, attempt: Plan) -> Path | None:
    """Each restart writes into a folder of its own, so that what the failed ones wrote stays."""
    count = attempt.environment["SHARDWISE_RESTART_COUNT"]
    if folder is None or count == "0":
        return folder
    own = folder / f"restart{count}"
    own.mkdir(exist_ok=True)
    return own


def _open_what_is_closed() -> None:
    """Make 0, 1 and 2 nothing where they are closed, before a socket of ours gets the number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 (open as long as the process is)
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def _tell(text: str) -> None:
    with contextlib.suppress(OSError):  # the exit code still tells
        print(f"{SPEAKER}: {text}", file=sys.stderr)


def _give_up_what_stderr_did_not_take() -> None:
    """Keep Python from trying again at its end, and from ending with 120 when that fails too."""
    try:
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _is_terminal(number: int) -> bool:
    try:
        return os.isatty(number)
    except OSError:
        return False  # closed
