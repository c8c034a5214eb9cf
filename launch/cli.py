"""The command ``shardwise``: reads its arguments and starts what they ask for."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from shardwise import __version__
from shardwise.backend.errors import LaunchError
from shardwise.launch.failure import SPEAKER
from shardwise.launch.job import Job
from shardwise.launch.output import Screen, StreamName
from shardwise.launch.plan import Plan, plan_job
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
    arguments = _parser().parse_args(argv)
    try:
        return _run(arguments)
    except LaunchError as error:
        print(f"{SPEAKER}: {error}", file=sys.stderr)
        return _USAGE_ERROR


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="shardwise", description="Distributed training without torch.")
    parser.add_argument("--version", action="version", version=f"shardwise {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    run = commands.add_parser(
        "run",
        help="start the ranks of a script on this host",
        usage="shardwise run [-n RANKS] [options] (script.py | -m module) [arguments of the script ...]",
        description="Start a script as n ranks on this host, with the MPI that mpi4py uses.",
        allow_abbrev=False,
    )
    run.add_argument(
        "-n", "--ranks", type=int, default=1, help="number of ranks (default 1, which needs no MPI)"
    )
    run.add_argument("--dry-run", action="store_true", help="print the command and its environment, and stop")
    run.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="end the job if it takes longer")
    run.add_argument(
        "--grace",
        type=_seconds,
        default=10.0,
        metavar="SECONDS",
        help="what ranks get to end by themselves after Ctrl-C or SIGTERM (default 10)",
    )
    run.add_argument("--no-pin", action="store_true", help="do not give each rank cores of its own")
    run.add_argument(
        "--no-prefix", action="store_true", help="do not begin each line of output with its rank"
    )
    run.add_argument(
        "--log-dir", type=Path, metavar="DIR", help="also write each rank's output to DIR/0.out, 0.err"
    )
    run.add_argument("--mpiexec", metavar="PATH", help="the mpiexec to use, of the MPI that mpi4py uses")
    run.add_argument("--oversubscribe", action="store_true", help="allow more than 16 ranks per core")
    # Both take the rest as it is, whatever it looks like.
    run.add_argument("-m", dest="module", nargs=argparse.REMAINDER, metavar="module", help="run a module")
    run.add_argument("script", nargs=argparse.REMAINDER, help="a Python script, and its arguments")
    return parser


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
    plan = plan_job(
        arguments.ranks,
        target,
        os.environ,
        pin=not arguments.no_pin,
        oversubscribe=arguments.oversubscribe,
        mpiexec=arguments.mpiexec,
    )
    for warning in plan.warnings:
        print(f"{SPEAKER}: warning: {warning}", file=sys.stderr)
    if arguments.dry_run:
        _print_plan(plan)
        return 0
    if arguments.log_dir is not None:
        try:
            arguments.log_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LaunchError(f"--log-dir {arguments.log_dir}: {error.strerror}") from error
    return _execute(plan, arguments)


def _print_plan(plan: Plan) -> None:
    for name, value in plan.environment.items():
        print(f"{name}={shlex.quote(value)} \\")
    print(shlex.join(plan.argv))


def _execute(plan: Plan, arguments: argparse.Namespace) -> int:
    """Start the job, hand it our signals, and print its verdict."""
    try:
        os.fstat(0)
    except OSError:
        os.open(os.devnull, os.O_RDONLY)  # closed: becomes 0 again before a socket of ours does
    direct = plan.size == 1 and arguments.log_dir is None
    names: tuple[StreamName, ...] = ("stdout", "stderr")
    terminals = frozenset(name for number, name in enumerate(names, start=1) if _is_terminal(number))
    screen = Screen(
        {"stdout": sys.stdout.buffer, "stderr": sys.stderr.buffer},
        terminals,
        prefixed=plan.size > 1 and not arguments.no_prefix,
    )
    environ = dict(os.environ)
    if terminals:
        environ[TERMINAL_VARIABLE] = ",".join(sorted(terminals))
        # One less than fits, where the last column would make the line of a progress bar wrap.
        prefix = screen.prefix_width(plan.size)
        environ["COLUMNS"] = str(max(1, terminal_width() - prefix - (1 if prefix else 0)))
    job = Job(
        plan,
        environ,
        screen,
        timeout=arguments.timeout,
        grace=arguments.grace,
        log_dir=arguments.log_dir,
        direct=direct,
    )
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"):
        signal.signal(getattr(signal, name), lambda number, frame: job.order(number))
    try:
        verdict = job.run()
        for line in verdict.lines:
            screen.say(line)
    except BrokenPipeError:
        # Whoever read our output has gone, as in `shardwise run ... | head`; nobody is left to be told.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 128 + signal.SIGPIPE
    return verdict.code


def _is_terminal(number: int) -> bool:
    try:
        return os.isatty(number)
    except OSError:
        return False  # closed
