"""What `spawn` sends to processes and gets back: functions by name, results and errors as pickles."""

from __future__ import annotations

import io
import os
import pickle
import runpy
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shardwise.backend.errors import LaunchError

__all__ = ["Parcel", "Unpacker", "import_main", "write_pickle"]

MAIN = "__mp_main__"
"""The name under which a rank imports the caller's script, so that its ``if __name__ == "__main__"`` part
does not run again. It is the one that multiprocessing uses."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """A call that ranks are to make.

    Attributes
    ----------
    call : bytes
        Pickle of the function and its arguments.
    main : tuple or None
        How to import the caller's ``__main__``, if the call refers to it: ("path", file) or ("module", name).
    sys_path : list of str
        Where the caller finds its modules.
    """

    call: bytes
    main: tuple[str, str] | None
    sys_path: list[str]

    @classmethod
    def pack(cls, fn: Callable[..., object], args: tuple[object, ...]) -> Parcel:
        """Pack a call.

        Raises
        ------
        LaunchError
            If another process could not find the function, or the arguments cannot be pickled.
        """
        name = getattr(fn, "__qualname__", "")
        if "<lambda>" in name or "<locals>" in name:
            what = (
                "a lambda" if "<lambda>" in name else f"{name.split('.')[-1]!r}, defined inside a function,"
            )
            raise LaunchError(
                f"spawn(transport='mpi') sends the function by name, so {what} cannot be found by other "
                "processes: define it at the top level of a module and pass what it closes over in args, or "
                "use transport='threads'"
            )
        try:
            call = pickle.dumps((fn, args), protocol=5)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise LaunchError(
                f"spawn(transport='mpi') cannot send {name or fn!r} and its args to other processes: "
                f"{error}. Pass what can be pickled, or use transport='threads'"
            ) from error
        main = None
        if b"__main__" in call:
            main = _locate_main(name or repr(fn))
        return cls(call, main, [path or os.getcwd() for path in sys.path])


def _locate_main(name: str) -> tuple[str, str]:
    """How another process can import what is ``__main__`` here."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return ("module", str(spec.name).removesuffix(".__main__"))
    file = getattr(main, "__file__", None)
    if isinstance(file, str) and os.path.isfile(file):
        return ("path", os.path.abspath(file))
    raise LaunchError(
        f"spawn(transport='mpi') cannot send {name}: it was defined interactively, and other processes "
        "cannot import it from there. Put it into a file and import it, or use transport='threads'"
    )


def import_main(main: tuple[str, str]) -> None:
    """Import the caller's script in a rank, as the module that its pickles call ``__main__``."""
    kind, place = main
    run = runpy.run_path if kind == "path" else runpy.run_module
    module = types.ModuleType(MAIN)
    module.__dict__.update(run(place, run_name=MAIN))
    sys.modules["__main__"] = sys.modules[MAIN] = module


def write_pickle(path: Path, value: object) -> None:
    """Write a pickle at once or not at all, so that no reader sees half of it."""
    data = pickle.dumps(value, protocol=5)
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(data)
    part.replace(path)


class Unpacker(pickle.Unpickler):
    """Reads what a rank wrote: finds in ``__main__`` what ranks know by the name that `import_main` gave."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.BytesIO(path.read_bytes()))

    def find_class(self, module: str, name: str) -> object:
        return super().find_class("__main__" if module == MAIN else module, name)
