"""What every rank of ``shardwise run`` executes: ``python rank.py RANK SIZE (script.py | -m module) ...``.

RANK is a number or the variable in which the launcher gives it. The process splits in two::

    launcher ═══ control socket ═══ supervisor (this process) ─── fork ─── the rank: runs the script
                  signals to the rank ──►                         ◄── report pipe: how it failed, stacks
                  ◄── reports, exit status

The supervisor outlives the rank, so it can say how the rank ended (which exit code, which signal): MPI's
launchers do not tell. While it waits for the launcher's leave, MPI does not know yet that a rank is gone and
does not kill the others, which may have the same to report. If the launcher dies, the supervisor ends the
rank.

Started by path and with nothing but the standard library, so that it costs a few milliseconds and no thread
exists yet when it forks. Without a control socket (a command copied from ``--dry-run``) it just becomes the
rank.
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
import select
import signal
import socket
import sys
import time
import traceback
import types
import zipfile
from collections.abc import Iterator, Sequence
from functools import partial

LEAVE = 0
"""What the launcher sends instead of a signal number when a supervisor may end."""


def main(argv: Sequence[str]) -> int:
    """Run one rank; returns its exit code."""
    given, size, target = argv[0], int(argv[1]), argv[2:]
    rank = int(given) if given.isdigit() else int(os.environ[given])
    control = os.environ.pop("SHARDWISE_CONTROL", None)
    if control is None:
        return _become_rank(rank, size, target, None)
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.connect(control)
    link.sendall(json.dumps({"kind": "hello", "rank": rank, "pid": os.getpid()}).encode() + b"\n")
    # The launcher answers with what is to be this rank's stdin, stdout and stderr, or none to leave them as
    # they are. MPI's own ways with these differ: whose input is whose, what is interleaved, what never ends.
    _, streams, _, _ = socket.recv_fds(link, 1, 3)
    report, report_end = os.pipe()
    supervisor = os.getpid()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        link.close()
        os.close(report)
        _die_with(supervisor)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        return _become_rank(rank, size, target, report_end)
    os.close(report_end)
    for stream in streams:
        os.close(stream)
    return _supervise(child, link, report, control)


def _supervise(child: int, link: socket.socket, report: int, control: str) -> int:
    """Pass reports up and signals down until the rank has ended and the launcher lets go."""
    # Ctrl-C in a terminal may reach every process; the launcher says what it is to mean.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(
        signal.SIGCHLD, lambda number, frame: None
    )  # a handler, so that the wake-up byte is written
    status: int | None = None
    poll = select.poll()
    for source in (link.fileno(), report, woken):
        poll.register(source, select.POLLIN)
    while True:
        if status is None:
            ended, raw = os.waitpid(child, os.WNOHANG)
            if ended:
                status = os.waitstatus_to_exitcode(raw)
                _forward(report, link, drain=True)
                message = {"kind": "exit", "status": status, "time": time.monotonic()}
                _send(link, json.dumps(message).encode() + b"\n")
                if status == 0:
                    return 0
        for source, _ in poll.poll():
            if source == woken:
                os.read(woken, 512)
            elif source == report:
                if not _forward(report, link):
                    poll.unregister(report)
            else:
                try:
                    orders = link.recv(64)
                except OSError:
                    orders = b""
                if not orders or LEAVE in orders:
                    if not orders:
                        _sweep(control)
                    if status is None:
                        os.kill(child, signal.SIGKILL)
                        os.waitpid(child, 0)
                        return 1
                    return status if status >= 0 else 128 - status
                for number in orders:
                    if status is None:
                        os.kill(child, number)


def _forward(report: int, link: socket.socket, *, drain: bool = False) -> bool:
    """Pass on what the rank reported; False at its end."""
    if drain:
        # Processes that the rank started may hold the pipe open, so its end cannot be waited for.
        os.set_blocking(report, False)
    while True:
        try:
            data = os.read(report, 1 << 16)
        except BlockingIOError:
            return True
        if not data:
            return False
        _send(link, data)
        if not drain:
            return True


def _send(link: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):  # the launcher is gone; reading from the link will tell
        link.sendall(data)


def _sweep(control: str) -> None:
    """Remove what a launcher that was killed could not remove."""
    with contextlib.suppress(OSError):  # another rank was faster
        os.unlink(control)
        os.rmdir(os.path.dirname(control))


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
    cores = os.environ.pop("SHARDWISE_CORES", "")
    if cores:
        os.sched_setaffinity(0, {int(core) for core in cores.split(";")[rank].split(",")})
    # A launcher started in the background ignores Ctrl-C, and its children would too; what the launcher
    # forwards is meant.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # it is a pipe now, but people watch
    faulthandler.enable()
    # For those who tell of failures by this hook, such as a world of MPI of a thread that failed.
    sys.excepthook = own_hook = partial(_uncaught, report)
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
    """What a rank finds in its environment; the names are torchrun's. All ranks are on one host."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(size),
        "NODE_RANK": "0",
        "GROUP_RANK": "0",
    }


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
    _tell({"kind": "failed", "type": name, "summary": summary, "text": text, "places": places}, report)
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
