"""What every rank of ``shardwise run`` executes: ``python rank.py RANK SIZE (script.py | -m module) ...``.

RANK is a number or the variable in which the launcher gives it. The process splits in two::

    launcher ═══ connection ═══ supervisor (this process) ─── fork ─── the rank: runs the script
                  signals to the rank ──►                       ◄── report pipe: how it failed, stacks
                  ◄── reports, exit status

The supervisor outlives the rank, so it can say how the rank ended (which exit code, which signal): MPI's
launchers do not tell. While it waits for the launcher's leave, MPI does not know yet that a rank is gone and
does not kill the others, which may have the same to report. If the launcher dies or cannot be reached any
more, the supervisor ends the rank. What it says and hears is in `uplink.py`.

Started by path and with nothing but the standard library, so that it costs a few milliseconds and no thread
exists yet when it forks. Without a launcher (a command copied from ``--dry-run``) it just becomes the rank.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import faulthandler
import importlib.machinery
import importlib.util
import io
import json
import os
import runpy
import signal
import sys
import time
import traceback
import types
import zipfile
from collections.abc import Iterator, Sequence
from functools import partial

HANDED = ("SHARDWISE_CONTROL", "SHARDWISE_LAUNCH_KEY")
"""Variables by which supervisors learn where the launcher is, and the key of the job. No rank sees them."""

PLACED = "SHARDWISE_PLACED"
"""Set with the variables that say where on which host a rank is."""

# Where launchers say a process's place on its host, for commands that run without ours.
_LOCAL = (
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
)


def main(argv: Sequence[str]) -> int:
    """Run one rank; returns its exit code."""
    given, size, target = argv[0], int(argv[1]), argv[2:]
    rank = int(given) if given.isdigit() else int(os.environ[given])
    control, key = (os.environ.pop(name, "") for name in HANDED)
    if not control:
        return _become_rank(rank, size, target, None)
    link = _load("launch", "uplink.py").connect(control, key, rank, _load)
    # The launcher answers with what is to be this rank's stdin, stdout and stderr, or none to leave them as
    # they are. MPI's own ways with these differ: whose input is whose, what is interleaved, what never ends.
    environment, streams, pumped = link.welcome()
    os.environ |= environment
    report, report_end = os.pipe()
    mine: dict[str, int] = {}
    if pumped:
        reading, mine["stdin"] = os.pipe()
        mine["stdout"], out = os.pipe()
        mine["stderr"], err = os.pipe()
        streams = [reading, out, err]
    supervisor = os.getpid()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        for unused in (link.connection.detach(), report, *mine.values()):
            os.close(unused)
        if streams:
            os.setpgid(0, 0)  # but not where the rank has the terminal for itself
        _die_with(supervisor)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        return _become_rank(rank, size, target, report_end)
    if streams:
        with contextlib.suppress(OSError):  # the child was faster
            os.setpgid(child, child)
    for unused in (report_end, *streams):
        os.close(unused)
    supervisor_file = _load("launch", "supervisor.py")
    code: int = supervisor_file.supervise(child, link, report, mine, leads=bool(streams))
    return code


def _load(*parts: str) -> types.ModuleType:
    """Import a file of the package by its path: the package around it would cost more than all the rest."""
    path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), *parts)
    name = f"shardwise_{os.path.splitext(parts[-1])[0]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def _die_with(parent: int) -> None:
    """Let this process be killed when `parent` ends, however that happens (Linux)."""
    if sys.platform != "linux":
        return
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _become_rank(rank: int, size: int, target: Sequence[str], report: int | None) -> int:
    """Set this process up as a rank and run its script; returns the exit code."""
    os.environ |= _rank_environment(rank, size)
    _take_cores(os.environ.pop("SHARDWISE_CORES", ""))
    # A launcher started in the background ignores Ctrl-C, and its children would too; what the launcher
    # forwards is meant.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # it is a pipe now, but people watch
    faulthandler.enable()
    # For those who tell of failures by this hook, such as a world of MPI of a thread that failed.
    sys.excepthook = own_hook = partial(_uncaught, report)
    if report is not None:
        os.environ["SHARDWISE_SUPERVISED"] = "1"  # its end is told by the supervisor, also that of os._exit
    if report is not None and hasattr(signal, "SIGQUIT"):
        faulthandler.register(signal.SIGQUIT, file=report, all_threads=True)
    try:
        if target[0] == "-m":
            sys.argv = [target[1], *target[2:]]
            _run_module(target[1])
        else:
            sys.argv = list(target)
            _run_script(target[0])
        code = 0
    except SystemExit as error:
        code = _tell_exit(error, report)
    except BaseException as error:  # every end of a rank is told, Ctrl-C included
        hook = sys.excepthook
        # A hook that the script installed has its own business with the error (a log, a tracker). The one of
        # a world of MPI would end the job: the launcher does that, and puts alike errors together first.
        if hook is not own_hook and not str(getattr(hook, "__module__", "")).startswith("shardwise."):
            hook(type(error), error, _user_part(error.__traceback__))
        code = _tell_failure(error, report)
    return code


def _uncaught(
    report: int | None, kind: type[BaseException], error: BaseException, trace: types.TracebackType | None
) -> None:
    """Stand in for ``sys.excepthook``."""
    _tell_failure(error.with_traceback(trace), report)


def _rank_environment(rank: int, size: int) -> dict[str, str]:
    """What a rank finds in its environment; the names are torchrun's.

    Its place on its host is what the launcher said, who has seen all supervisors; else what MPI's launcher
    says; else all ranks are on one host.
    """
    environment = {"RANK": str(rank), "WORLD_SIZE": str(size)}
    if PLACED in os.environ:
        del os.environ[PLACED]
        return environment
    found = ((os.environ.get(one, ""), os.environ.get(all_, "")) for one, all_ in _LOCAL)
    local = next((pair for pair in found if pair[0].isdigit() and pair[1].isdigit()), (str(rank), str(size)))
    return environment | {
        "LOCAL_RANK": local[0],
        "LOCAL_WORLD_SIZE": local[1],
        "NODE_RANK": "0",
        "GROUP_RANK": "0",
    }


def _take_cores(given: str) -> None:
    """Keep this rank to its cores: those that the launcher gave it, or its share of what its host has."""
    if given not in ("", "own", "count"):
        place = int(os.environ["LOCAL_RANK"])
        os.sched_setaffinity(0, {int(core) for core in given.split(";")[place].split(",")})
    if given not in ("own", "count"):
        return
    cores = _load("launch", "cores.py")
    place, count = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    found = cores.find_cores()
    os.environ |= cores.thread_environment(max(1, found.count // count), os.environ)
    if given == "own" and found.pinnable and found.count >= count:
        os.sched_setaffinity(0, cores.split_cores(found.allowed, count)[place])


def _run_script(path: str) -> None:
    """Run a file, a folder or a zip archive as ``python path`` does."""
    if os.path.isdir(path) or zipfile.is_zipfile(path) or path.endswith(".pyc"):
        if not sys.flags.safe_path:
            del sys.path[0]  # the folder of this file; runpy adds the path itself
        runpy.run_path(path, run_name="__main__")
        return
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    main = _new_main()
    main.__file__ = os.path.abspath(path)
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", main.__file__)
    with io.open_code(path) as file:
        # Not inheriting this file's own `from __future__` import.
        code = compile(file.read(), main.__file__, "exec", dont_inherit=True)
    exec(code, main.__dict__)


def _run_module(name: str) -> None:
    """Run a module as ``python -m name`` does."""
    if not sys.flags.safe_path:
        sys.path[0] = os.getcwd()
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    loader = None if spec is None else spec.loader
    if spec is None or not isinstance(loader, importlib.machinery.SourceFileLoader):
        # Frozen or built in, or not there: rare enough for the library's way and its message.
        runpy.run_module(name, run_name="__main__", alter_sys=True)
        return
    main = _new_main()
    main.__spec__, main.__loader__, main.__package__ = spec, loader, spec.parent
    if spec.origin is not None:
        main.__file__ = sys.argv[0] = spec.origin
    code = loader.get_code(spec.name)
    assert code is not None  # a source file always has code
    exec(code, main.__dict__)


def _new_main() -> types.ModuleType:
    """Put a fresh ``__main__`` in place of this file; it stays, for pickles and for what runs at exit."""
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    return main


def _tell_exit(error: SystemExit, report: int | None) -> int:
    """Report ``sys.exit(...)``; returns the exit code that Python gives it."""
    if error.code is None or isinstance(error.code, int):
        code, message = (error.code or 0) & 0xFF, ""
    else:
        code, message = 1, str(error.code)
    if code or message:
        _tell({"kind": "exiting", "code": code, "text": message}, report)
    return code


def _tell_failure(error: BaseException, report: int | None) -> int:
    """Report an uncaught exception; returns the exit code that Python gives it."""
    if isinstance(error, KeyboardInterrupt):
        _tell({"kind": "interrupted", "text": "KeyboardInterrupt"}, report)
        return 128 + signal.SIGINT
    error = error.with_traceback(_user_part(error.__traceback__))
    name = type(error).__qualname__
    text = "".join(traceback.format_exception(error))
    places = [
        (
            type(each).__qualname__,
            [(frame.filename, frame.lineno) for frame in traceback.extract_tb(each.__traceback__)],
        )
        for each in _chain(error)
    ]
    summary = (traceback.format_exception_only(error)[-1].strip().splitlines() or [name])[0]
    bases = " ".join(each.__name__ for each in type(error).__mro__)
    said = {"type": name, "summary": summary, "text": text, "places": places, "bases": bases}
    _tell({"kind": "failed", **said}, report)
    return 1


def _user_part(trace: types.TracebackType | None) -> types.TracebackType | None:
    """Drop the frames that only ran the script."""
    own = (
        __file__,
        "<frozen runpy>",
        "<frozen importlib._bootstrap>",
        "<frozen importlib._bootstrap_external>",
    )
    while trace is not None and trace.tb_frame.f_code.co_filename in own:
        trace = trace.tb_next
    return trace


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def _tell(message: dict[str, object], report: int | None) -> None:
    """Send a report to the launcher, after all that was printed before it; print it if there is none."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # closed or replaced by the script
            stream.flush()
    if report is None:
        print(str(message["text"]).rstrip("\n"), file=sys.stderr)
        return
    data = json.dumps(message | {"time": time.monotonic()}).encode() + b"\n"
    with contextlib.suppress(OSError):  # the supervisor is gone
        while data:
            data = data[os.write(report, data) :]


if __name__ == "__main__":
    # Not sys.exit: a world of MPI watches it, to end the job, which is the launcher's business here.
    raise SystemExit(main(sys.argv[1:]))
